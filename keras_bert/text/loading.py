"""Loads the tokenizer of a preset, of any of the three classes."""

from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats.hugging_face_tokenizers import ALL_IN_ONE, IDS, VOCABULARY
from keras_bert.formats.tokenizer_files import TokenizerFiles
from keras_bert.text.bytepair import BytePairTokenizer
from keras_bert.text.sentencepiece import SentencePieceTokenizer
from keras_bert.text.sentencepiece_files import MODELS
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.wordpiece import WordPieceTokenizer

# The type in tokenizer.json -> the class.
_TYPES = {"WordPiece": WordPieceTokenizer, "BPE": BytePairTokenizer, "Unigram": SentencePieceTokenizer}

# The first of these files in a directory determines the class.
_DECIDE = {**dict.fromkeys(MODELS, SentencePieceTokenizer), IDS: BytePairTokenizer, VOCABULARY: WordPieceTokenizer}


def load_tokenizer(directory: Path, **overrides: Any) -> Tokenizer:
    """Loads a preset's tokenizer; the files determine its class.

    Args:
        directory: holds one of
            - `spiece.model`, `sentencepiece.bpe.model` or `spm.model`;
            - `vocab.json` and `merges.txt`;
            - `vocab.txt`;
            - `tokenizer.json` of type WordPiece, byte-level BPE, or ALBERT's or XLM-RoBERTa's Unigram;
            - KerasHub's `tokenizer.json` and `assets/tokenizer`, of any family except ALBERT.
        **overrides: arguments of the tokenizer that replace the values in the files.

    Raises:
        FileNotFoundError: none of these files is there.
        ValueError: a file is damaged, or the kind of tokenizer is not supported.

    Example:
        >>> from keras_bert import presets
        >>> type(load_tokenizer(presets.resolve("all-MiniLM-L6-v2"))).__name__
        'WordPieceTokenizer'
    """
    path = files.find(directory, *_DECIDE, ALL_IN_ONE, advice="copy the files of the model's tokenizer there")
    found = TokenizerFiles(directory)
    if path.name in _DECIDE:
        return _DECIDE[path.name].from_files(found, **overrides)
    if found.type not in _TYPES:
        raise ValueError(f"{path} holds a {found.type} tokenizer; supported are {', '.join(_TYPES)}")
    return _TYPES[found.type].from_files(found, **overrides)
