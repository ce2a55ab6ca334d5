"""A preset's directory -> its tokenizer, whichever of the three it is."""

from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.text import bytepair_files, keras_hub_files, sentencepiece_files, tokenizer_files
from keras_bert.text.bytepair import BytePairTokenizer
from keras_bert.text.sentencepiece import SentencePieceTokenizer
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.wordpiece import WordPieceTokenizer

# The type that a tokenizer.json states -> who reads it.
_TYPES = {"WordPiece": WordPieceTokenizer, "BPE": BytePairTokenizer, "Unigram": SentencePieceTokenizer}

# All that a tokenizer may write.
FILES = (
    *tokenizer_files.FILES,
    tokenizer_files.ALL_IN_ONE,
    bytepair_files.VOCABULARY,
    bytepair_files.MERGES,
    *sentencepiece_files.MODELS,
)


def load_tokenizer(directory: Path, **overrides: Any) -> Tokenizer:
    """Finds out from the files which tokenizer a preset has.

    Args:
        directory: has one of
            - `spiece.model` or `sentencepiece.bpe.model`;
            - `vocab.json` and `merges.txt`;
            - `vocab.txt`;
            - `tokenizer.json` of type WordPiece, BPE of bytes, or Unigram as ALBERT's and XLM-RoBERTa's are;
            - KerasHub's `tokenizer.json` and `assets/tokenizer`, of any family but ALBERT.
        **overrides: arguments of the tokenizer, in place of what the files say.

    Raises:
        FileNotFoundError: none of these files is there.
        ValueError: a file is damaged, or of a kind of tokenizer that is not supported.

    Example:
        >>> from keras_bert import presets
        >>> type(load_tokenizer(presets.resolve("all-MiniLM-L6-v2"))).__name__
        'WordPieceTokenizer'
    """
    names = (*sentencepiece_files.MODELS, bytepair_files.VOCABULARY, tokenizer_files.VOCABULARY)
    path = files.find(directory, *names, tokenizer_files.ALL_IN_ONE)
    if path.name in sentencepiece_files.MODELS:
        kind: type[Tokenizer] = SentencePieceTokenizer
    elif path.name == bytepair_files.VOCABULARY:
        kind = BytePairTokenizer
    elif path.name == tokenizer_files.VOCABULARY:
        kind = WordPieceTokenizer
    else:
        kind = _kind_of_json(path)
    return kind.from_preset(directory, **overrides)


def _kind_of_json(path: Path) -> type[Tokenizer]:
    content = files.read_json(path)
    model = content.get("model") or {}
    stated = keras_hub_files.type_of(path, content) or model.get("type") or ("BPE" if "merges" in model else None)
    if stated not in _TYPES:
        raise ValueError(f"{path} holds a {stated} tokenizer; supported are {', '.join(_TYPES)}")
    return _TYPES[stated]
