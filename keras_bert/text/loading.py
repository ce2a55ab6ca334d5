"""A preset's directory -> its tokenizer, of any of the three classes."""

from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import keras_hub
from keras_bert.formats.hugging_face_tokenizers import ALL_IN_ONE, CONFIG, IDS, MERGES, VOCABULARY
from keras_bert.text.bytepair import BytePairTokenizer
from keras_bert.text.sentencepiece import SentencePieceTokenizer
from keras_bert.text.sentencepiece_files import MODELS
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.wordpiece import WordPieceTokenizer

# The type in a tokenizer.json -> the class that reads it.
_TYPES = {"WordPiece": WordPieceTokenizer, "BPE": BytePairTokenizer, "Unigram": SentencePieceTokenizer}

# All files that a tokenizer may write.
FILES = (VOCABULARY, CONFIG, ALL_IN_ONE, IDS, MERGES, *MODELS)
# File -> class of the tokenizer; the first file that a directory has decides. A tokenizer.json states its type.
_DECIDE = {**dict.fromkeys(MODELS, SentencePieceTokenizer), IDS: BytePairTokenizer, VOCABULARY: WordPieceTokenizer}


def load_tokenizer(directory: Path, **overrides: Any) -> Tokenizer:
    """Loads a preset's tokenizer; the files decide its class.

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
    path = files.find(directory, *_DECIDE, ALL_IN_ONE)
    kind = _DECIDE[path.name] if path.name in _DECIDE else _kind_of_json(path)
    return kind.from_preset(directory, **overrides)


def _kind_of_json(path: Path) -> type[Tokenizer]:
    content = files.read_json(path)
    stated = keras_hub.tokenizer_type(path, content)
    if stated is None:
        files.check_json(content, {"model": {"type": (str, None)}}, path)
        model = content["model"]
        stated = model.get("type") or ("BPE" if "merges" in model else None)
    if stated not in _TYPES:
        raise ValueError(f"{path} holds a {stated} tokenizer; supported are {', '.join(_TYPES)}")
    return _TYPES[stated]
