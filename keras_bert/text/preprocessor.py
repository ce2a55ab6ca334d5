"""Turns texts, or pairs of texts, into the inputs of a BERT encoder, and loads the tokenizer of a preset."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import keras
import tensorflow as tf

from keras_bert import undocumented
from keras_bert.counted import counted
from keras_bert.formats import Preset
from keras_bert.text.bytepair import BytePairTokenizer
from keras_bert.text.packing import Ids, as_ids, truncate, windows
from keras_bert.text.pairs import check_rows, room_of, row_settings
from keras_bert.text.sentencepiece import SentencePieceTokenizer
from keras_bert.text.strings import Strings, as_strings, readable_errors
from keras_bert.text.tokenizer import Tokenizer
from keras_bert.text.wordpiece import WordPieceTokenizer

Texts = Strings | tuple[Strings, Strings] | keras.KerasTensor | Sequence[keras.KerasTensor]

_CLASS_BY_TYPE = {"WordPiece": WordPieceTokenizer, "BPE": BytePairTokenizer, "Unigram": SentencePieceTokenizer}


def load_tokenizer(handle: str | Path | Preset, **overrides: Any) -> Tokenizer:
    """Loads a preset's tokenizer; the files determine its class.

    Args:
        handle: a directory, the name of a preset, `hf://org/name`, or an open preset, with `vocab.txt`; `vocab.json`
            and `merges.txt`; `spiece.model`, `sentencepiece.bpe.model` or `spm.model`; `tokenizer.json` of type
            WordPiece, byte-level BPE, or the Unigram of ALBERT, XLM-RoBERTa or CamemBERT; or KerasHub's
            `tokenizer.json` and `assets/tokenizer`, of any family except ALBERT.
        **overrides: arguments of the tokenizer that replace the values in the files.

    Raises:
        FileNotFoundError: none of these files is there.
        ValueError: a file is damaged, or the kind of tokenizer is not supported.

    Example:
        >>> type(load_tokenizer("all-MiniLM-L6-v2")).__name__
        'WordPieceTokenizer'
    """
    with Preset.open(handle) as preset:
        return _CLASS_BY_TYPE[preset.tokenizer_files.kind].from_preset(preset, **overrides)


@keras.saving.register_keras_serializable(package="keras_bert")
class BertPreprocessor(keras.layers.Layer):
    """Converts texts to the encoder's inputs: tokenizes, truncates, adds `[CLS]` and `[SEP]` or the like, and pads.

    Args:
        tokenizer: a tokenizer of any of the three classes. It determines the special tokens and the pair format, and
            `.keras` files contain its vocabulary.
        sequence_length: the length of every row, special tokens included; longer texts are truncated. None: the length
            of the longest row of the batch.
        truncation: how to shorten a row that is too long: "longest_first", "odd_to_longer", "round_robin", "waterfall",
            "head_tail" or "error", see `packing.truncate`.
        stride: if not None, long texts (in a pair, the second text) are not truncated, but split into windows. Each
            begins `stride` tokens after the one before it: a step, as Google's doc_stride; in transformers, stride is
            the overlap. Results are then `[batch, windows, seq_length]`, and missing windows are padding.
        pad_to_multiple_of: with `sequence_length=None`, the length is rounded up to a multiple of it, so that fewer
            shapes occur.
        max_sequence_length: the model's number of positions, which limits every row.

    Call arguments:
        texts: string `[batch]` as a tensor, NumPy array or list of str; or one string `[]`; or, for pairs, a tuple of
            two of these. A list is always a batch, unless it holds two tensors, as `keras.Model` inputs do.

    Returns:
        A dict of int32 `[batch, seq_length]` (`[seq_length]` for one string), under TF Hub's names:
            `input_word_ids`: ids of `[CLS] a [SEP]`, or `[CLS] a [SEP] b [SEP]`, then `[PAD]`; RoBERTa's and
                XLM-RoBERTa's are `<s> a </s>`, or `<s> a </s></s> b </s>`, then `<pad>`;
            `input_mask`: 1 for a token, 0 for padding;
            `input_type_ids`: 1 for `b [SEP]`, 0 for the rest; all 0 for RoBERTa and XLM-RoBERTa.

    Raises:
        TypeError, ValueError: a bad argument, or texts that are not strings.
        ValueError (in a graph, tf.errors.InvalidArgumentError): a text is not valid UTF-8, or is too long under
            `truncation="error"`; or the call is compiled with XLA, which has no strings.

    Example:
        >>> from keras_bert import BertPreprocessor
        >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=8)
        >>> preprocessor((["How old are you?"], ["Nine."]))["input_word_ids"].numpy()
        array([[ 101, 2129, 2214, 2024,  102, 3157, 1012,  102]], dtype=int32)
        >>> preprocessor(["I love pizza"])["input_mask"].numpy()
        array([[1, 1, 1, 1, 1, 0, 0, 0]], dtype=int32)
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        sequence_length: int | None = 128,
        truncation: str = "longest_first",
        pad_to_multiple_of: int = 1,
        max_sequence_length: int = 512,
        stride: int | None = None,
        **kwargs: Any,
    ):
        if not isinstance(tokenizer, Tokenizer):
            raise TypeError(f"tokenizer is {tokenizer!r:.60}; expected a tokenizer, such as WordPieceTokenizer")
        check_rows(sequence_length, truncation, pad_to_multiple_of, max_sequence_length, stride)
        super().__init__(**kwargs)
        self.tokenizer = tokenizer
        self.sequence_length = sequence_length
        self.truncation = truncation
        self.pad_to_multiple_of = pad_to_multiple_of
        self.max_sequence_length = max_sequence_length
        self.stride = stride
        self.supports_jit = False  # XLA has no strings
        # One graph: launching some fifty small operations one by one takes longer than running them.
        batch = tf.TensorSpec([None], tf.string)
        self._from_one = tf.function(self._preprocess, input_signature=[batch], autograph=False)
        self._from_two = tf.function(self._preprocess, input_signature=[batch, batch], autograph=False)

    @property
    def longest(self) -> int:
        """The most tokens that a row may have, special tokens included."""
        return self.max_sequence_length if self.sequence_length is None else self.sequence_length

    def __call__(self, texts: Texts, **kwargs: Any) -> dict[str, tf.Tensor]:
        # Here and not in `call`, because Keras takes only tensors as positional arguments.
        texts = _convert_texts(texts)
        with readable_errors():
            return super().__call__(texts, **kwargs)

    def call(self, texts: tf.Tensor | list[tf.Tensor] | tuple[tf.Tensor, ...]) -> dict[str, tf.Tensor]:
        if undocumented.is_in_xla():
            raise ValueError(
                "XLA has no strings: give the model packed inputs, which a preprocessor makes of texts in a tf.data "
                "pipeline, or compile it with jit_compile=False"
            )
        columns = tuple(texts) if isinstance(texts, list | tuple) else (texts,)
        shape = columns[0].shape
        if shape.rank == 0:
            batch = self.call(tuple(text[None] for text in columns))
            return {name: values[0] for name, values in batch.items()}
        outputs = self._from_one(*columns) if len(columns) == 1 else self._from_two(*columns)
        return {name: tf.ensure_shape(values, self._output_shape(shape)) for name, values in outputs.items()}

    def _output_shape(self, batch_shape: Iterable[int | None]) -> tuple[int | None, ...]:
        return (*batch_shape, *([] if self.stride is None else [None]), self.sequence_length)

    def _preprocess(self, *texts: tf.Tensor) -> dict[str, tf.Tensor]:
        return self.pack(tuple(self.tokenizer.tokenize(text) for text in texts))

    def pack(self, segments: Ids | tuple[Ids, Ids]) -> dict[str, tf.Tensor]:
        """Packs tokenized texts, as a call does, with its results.

        Args:
            segments: integers `[batch, (tokens)]` without special tokens, a ragged tensor or a list of lists; or, for
                pairs, a tuple of two of these, or a list of two tensors.

        Raises:
            TypeError, ValueError: not integers, or not of rank 2.
            ValueError (in a graph, tf.errors.InvalidArgumentError): a row is too long, under `truncation="error"`.

        Example:
            >>> from keras_bert import BertPreprocessor
            >>> preprocessor = BertPreprocessor.from_preset("all-MiniLM-L6-v2", sequence_length=None)
            >>> preprocessor.pack(([[7592]], [[2088, 999]]))["input_word_ids"].numpy()
            array([[ 101, 7592,  102, 2088,  999,  102]], dtype=int32)
        """
        is_pair = isinstance(segments, tuple) or (isinstance(segments, list) and all(map(tf.is_tensor, segments)))
        segments = [self._convert_ids(segment) for segment in (segments if is_pair and len(segments) else (segments,))]
        _check_pair(segments)
        limit = self.longest
        room = room_of(limit, self.tokenizer.pair_format.special_tokens(len(segments)))
        if self.stride is None:
            return self._pack_rows(truncate(segments, room, self.truncation), limit)
        if room < len(segments):
            raise ValueError(f"rows of {limit} tokens have no room for windows over {len(segments)} texts")
        windowed = windows(segments, room, self.stride)
        packed = self._pack_rows(windowed.segments, limit)  # each [windows of all rows, seq_length]
        padding = {"input_word_ids": self.tokenizer.pad_token_id}
        by_row = {name: tf.RaggedTensor.from_row_lengths(each, windowed.counts) for name, each in packed.items()}
        return {name: each.to_tensor(padding.get(name, 0)) for name, each in by_row.items()}

    def _convert_ids(self, segment: Ids) -> tf.RaggedTensor:
        """Converts ids to int32 `[batch, (tokens)]`, and checks them unless they are a tensor, as a tokenizer makes."""
        ids = as_ids(segment, ragged_rank=1)
        if not tf.is_tensor(segment):
            self.tokenizer.check_ids(ids.flat_values)
        return tf.cast(ids if isinstance(ids, tf.RaggedTensor) else tf.RaggedTensor.from_tensor(ids), tf.int32)

    def _pack_rows(self, segments: list[tf.RaggedTensor], limit: int) -> dict[str, tf.Tensor]:
        if self.sequence_length is None:
            special_tokens = self.tokenizer.pair_format.special_tokens(len(segments))
            row_lengths = special_tokens + tf.add_n([segment.row_lengths() for segment in segments])
            longest = tf.reduce_max(tf.concat([[3], tf.cast(row_lengths, tf.int32)], 0))
            multiple = self.pad_to_multiple_of
            limit = tf.minimum((longest + multiple - 1) // multiple * multiple, limit)
        return self.tokenizer.pack(segments, limit)

    def compute_output_spec(
        self, texts: keras.KerasTensor | list[keras.KerasTensor] | tuple[keras.KerasTensor, ...]
    ) -> dict[str, keras.KerasTensor]:
        if tf.distribute.get_strategy().num_replicas_in_sync > 1:  # of a functional model, which `fit` could not build
            undocumented.build_any_model_from_one_replica()
        first = texts[0] if isinstance(texts, list | tuple) else texts
        names = ("input_word_ids", "input_mask", "input_type_ids")
        return {name: keras.KerasTensor(self._output_shape(first.shape), "int32", name=name) for name in names}

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {
            "tokenizer": keras.saving.serialize_keras_object(self.tokenizer),
            "sequence_length": self.sequence_length,
            "truncation": self.truncation,
            "pad_to_multiple_of": self.pad_to_multiple_of,
            "max_sequence_length": self.max_sequence_length,
            "stride": self.stride,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BertPreprocessor":
        return cls(**config | {"tokenizer": keras.saving.deserialize_keras_object(config["tokenizer"])})

    @classmethod
    def from_preset(
        cls, handle: str | Path | Preset, special_tokens_in_text: bool | None = None, **overrides: Any
    ) -> "BertPreprocessor":
        """Loads a preset's tokenizer; see `load_tokenizer` for the handle and errors.

        Args:
            handle: a preset with a model, whose positions limit rows.
            special_tokens_in_text: whether to recognize special tokens in the texts; by default as the files say,
                which is no. With an argument `tokenizer`, that decides.
            **overrides: arguments of the constructor. `max_sequence_length` is by default the number of positions in
                `config.json` (or `bert_config.json`), and `sequence_length` 128, or fewer if the model has fewer
                positions. `truncation` is by default that of the library whose format the directory has:
                "odd_to_longer" for Hugging Face's, "longest_first" for Google's and KerasHub's.

        Raises:
            ValueError: also if the vocabulary does not fit the model, or an argument is bad.
        """
        with Preset.open(handle) as preset:
            config = preset.config
            flag = {} if special_tokens_in_text is None else {"special_tokens_in_text": special_tokens_in_text}
            tokenizer = overrides.pop("tokenizer", None) or load_tokenizer(preset, **flag)
            settings = row_settings(preset, overrides)
        config.check_vocabulary(tokenizer.vocabulary_size, tokenizer.is_whole)
        return cls(tokenizer, **settings)

    def save_preset(self, directory: str | Path, overwrite: bool = False) -> None:
        """Writes the tokenizer's files. A model saves the lengths with its own files."""
        self.tokenizer.save_preset(directory, overwrite)


def _convert_texts(texts: Texts) -> tf.Tensor | keras.KerasTensor | tuple[tf.Tensor | keras.KerasTensor, ...]:
    """Converts to a string tensor, or a tuple of two of equal shape; leaves `keras.Input`s as they are."""
    if isinstance(texts, tuple) or (isinstance(texts, list) and texts and all(map(_is_tensor, texts))):
        if len(texts) != 2:
            raise ValueError(
                f"got a {type(texts).__name__} of {counted(texts, 'text')}; expected a pair, or a list of str"
            )
        pair = tuple(_convert_texts(text) if not isinstance(text, tuple) else as_strings(text) for text in texts)
        _check_pair(pair)
        return pair
    if not isinstance(texts, keras.KerasTensor):
        return as_strings(texts)
    keras_input = cast("keras.KerasTensor", texts)
    if keras.backend.standardize_dtype(keras_input.dtype) != "string" or len(keras_input.shape) != 1:
        raise ValueError(
            f"got a Keras input of dtype {keras_input.dtype} and shape {keras_input.shape}; expected "
            'keras.Input(shape=(), dtype="string")'
        )
    return keras_input


def _is_tensor(value: object) -> bool:
    return tf.is_tensor(value) or isinstance(value, keras.KerasTensor)


def _check_pair(pair: Sequence[tf.Tensor | tf.RaggedTensor | keras.KerasTensor]) -> None:
    """Raises ValueError if the numbers of rows differ."""
    first, *others = (tuple(part.shape)[:1] for part in pair)
    for other in others:
        if len(first) != len(other) or (first and None not in (first[0], other[0]) and first[0] != other[0]):
            raise ValueError(f"a pair has batches of {first} and {other}; expected two batches of the same size")
