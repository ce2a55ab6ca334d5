"""Loads the tokenizer of a preset, of any of the three classes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from keras_bert import files
from keras_bert.formats import Preset
from keras_bert.formats.hugging_face_tokenizers import ALL_IN_ONE, IDS, VOCABULARY
from keras_bert.text.bytepair import BytePairTokenizer
from keras_bert.text.sentencepiece import SentencePieceTokenizer
from keras_bert.text.sentencepiece_files import MODELS
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.wordpiece import WordPieceTokenizer

# The type in tokenizer.json -> the class.
_TYPES = {"WordPiece": WordPieceTokenizer, "BPE": BytePairTokenizer, "Unigram": SentencePieceTokenizer}

# The first of these files in a directory determines the class.
_DECIDE = {**dict.fromkeys(MODELS, SentencePieceTokenizer), IDS: BytePairTokenizer, VOCABULARY: WordPieceTokenizer}


def load_tokenizer(handle: str | Path | Preset, **overrides: Any) -> Tokenizer:
    """Loads a preset's tokenizer; the files determine its class.

    Args:
        handle: a directory, the name of a preset, `hf://org/name`, or an open preset; it holds one of
            - `spiece.model`, `sentencepiece.bpe.model` or `spm.model`;
            - `vocab.json` and `merges.txt`;
            - `vocab.txt`;
            - `tokenizer.json` of type WordPiece, byte-level BPE, or the Unigram of ALBERT, XLM-RoBERTa or CamemBERT;
            - KerasHub's `tokenizer.json` and `assets/tokenizer`, of any family except ALBERT.
        **overrides: arguments of the tokenizer that replace the values in the files.

    Raises:
        FileNotFoundError: none of these files is there.
        ValueError: a file is damaged, or the kind of tokenizer is not supported.

    Example:
        >>> type(load_tokenizer("all-MiniLM-L6-v2")).__name__
        'WordPieceTokenizer'
    """
    with Preset.open(handle) as preset:
        advice = "copy the files of the model's tokenizer there"
        path = files.find(preset.directory, *_DECIDE, ALL_IN_ONE, advice=advice)
        if path.name in _DECIDE:
            return _DECIDE[path.name].from_preset(preset, **overrides)
        kind = preset.tokenizer_files.type
        if kind not in _TYPES:
            raise ValueError(f"{path} holds a {kind} tokenizer; supported are {', '.join(_TYPES)}")
        return _TYPES[kind].from_preset(preset, **overrides)
