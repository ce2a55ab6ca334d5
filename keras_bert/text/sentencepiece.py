"""SentencePiece, the tokenizer of ALBERT, XLM-RoBERTa, CamemBERT and DeBERTa, in the TensorFlow graph."""

import base64
import reprlib
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import keras
import numpy as np
import tensorflow as tf
import tensorflow_text as tf_text

from keras_bert import undocumented
from keras_bert.choices import check_choice
from keras_bert.formats.tokenizers import sentencepiece_model as spm
from keras_bert.formats.tokenizers import unigram
from keras_bert.text.pairs import PairFormat
from keras_bert.text.strings import Normalizer, lower_dotted_capitals, normalize_unless
from keras_bert.text.tokenizer import Tokenizer, Tokens
from keras_bert.text.words import begins_run, shifted

_ops = undocumented.sentencepiece_operations()
# White space, and other characters that SentencePiece's usual normalization (nmt_nfkc) turns into spaces, beside as
# many spaces as they have bytes.
_SPACES = (
    (r"[\x{85}\x{a0}]", "  "),
    (r"[\x{1680}\x{2000}-\x{200b}\x{200e}\x{200f}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}\x{feff}]", "   "),
)
# False for ASCII's white space, and for bytes inside of characters.
_BEGINS_TEXT = np.ones(256, bool)
_BEGINS_TEXT[[*range(9, 14), 0x20, *range(0x80, 0xC0)]] = False

S = TypeVar("S", bound="SentencePieceTokenizer")


@keras.saving.register_keras_serializable(package="keras_bert")
class SentencePieceTokenizer(Tokenizer):
    """A tokenizer with SentencePiece (Kudo and Richardson 2018), and with a family's steps before and after it.

    TensorFlow Text runs google/sentencepiece's own segmentation. A SavedModel holds the model, and needs no further
    file. The families differ as follows:

    - `"albert"` (Lan et al. 2019), like google-research/albert: compatibility decomposition (NFKD) without combining
      characters, lower case, and no token that ends in a digit and a comma.
    - `"albert-transformers"`, as transformers 5 reads the same file: `` and '' become ", marks of every kind are
      dropped, tokens may end in a comma, and each of the model's user-defined symbols (`-`, `.`, `(`) is a separate
      word.
    - `"xlm-roberta"` (Conneau et al. 2019), like fairseq: the text unchanged; ids with fairseq's special tokens in
      front and `<mask>` at the end.
    - `"camembert"` (Martin et al. 2020), like fairseq: the text unchanged; ids of the model after five tokens of
      fairseq's, of which `<pad>` and `<unk>` are used, and `<mask>` at the end.
    - `"deberta-v2"` (He et al. 2021, DeBERTaV3), like the sentencepiece library: the text unchanged; ids of the model,
      and `[MASK]` at the end. Characters that are not in version 3's model become the tokens of their bytes, such as
      `<0xF0>`; U+0000 becomes those of U+E000. If two ways to split a text have equal scores, such as `3333 3333 3` and
      `3 3333 3333`, the choice is that of the library up to version 0.2.1.
    - `"unigram"`, of static vectors: any Unigram model with its own ids. Rows have no special tokens: all are the
      unknown one.
    - `"model2vec"`, as model2vec 0.6 makes them: the same, with spaces around ASCII's punctuation. The span of a
      word may begin with the sign before it.

    Args:
        model_file: path of a `spiece.model`, `sentencepiece.bpe.model` or `spm.model`, or its bytes. The config
            contains the bytes.
        family: as above.
        lowercase: whether to lower-case; default: as the family does. (False for cased ALBERT models.)
        strip_accents: whether to decompose and drop combining characters; default: as the family does.
        special_tokens_in_text: as for `WordPieceTokenizer`. The mask then includes the white space before it.
        more_special_tokens: as for `WordPieceTokenizer`; those that the model lacks are added at the end of the
            vocabulary.
        packing: how texts become rows, see `WordPieceTokenizer`; default: as the family does.

    Attributes:
        vocabulary (`▁` is the space before a word), vocabulary_size, unk_token_id, ...: see `Tokenizer`.

    Raises:
        FileNotFoundError, ValueError: there is no such file, or it is not a SentencePiece model of this family.

    Offsets are SentencePiece's own, without the space before a word. If a character, such as ½, becomes several tokens,
    the last of them has the span of the character, and the others have empty spans.

    Example:
        >>> tokenizer = SentencePieceTokenizer("spiece.model")  # doctest: +SKIP
        >>> tokenizer.tokenize(["This is a test"])  # doctest: +SKIP
        <tf.RaggedTensor [[48, 25, 21, 1289]]>
    """

    _mask_takes_space = True
    _format = unigram

    def __init__(
        self,
        model_file: str | Path | bytes,
        family: str = "albert",
        lowercase: bool | None = None,
        strip_accents: bool | None = None,
        special_tokens_in_text: bool = False,
        more_special_tokens: Sequence[str] = (),
        packing: str | None = None,
    ):
        check_choice("family", family, spm.FAMILIES)
        self.family = family
        usage = spm.FAMILIES[family]
        self.pair_format = PairFormat(usage.separators, usage.second_type_id, packing=packing or usage.packing)
        self.lowercase = usage.lowercase if lowercase is None else lowercase
        self.strip_accents = usage.strip_accents if strip_accents is None else strip_accents
        self.model, pieces, vocabulary = spm.read_pieces(model_file, family)
        try:
            with tf.init_scope(), tf.device("CPU"):
                _ops.sentencepiece_vocab_size_op(_ops.sentencepiece_op(model=self.model))
        except tf.errors.OpError as error:
            raise ValueError(f"TensorFlow Text cannot read the SentencePiece model: {error.message:.200}") from None
        model_tokens = [each.piece for each in pieces]
        vocabulary += [token for token in dict.fromkeys(more_special_tokens) if token not in vocabulary]
        special_tokens = spm.special_tokens_of(pieces, family)
        special = {*special_tokens.values(), *more_special_tokens}
        begins_word = [token.startswith(spm.SPACE) or token in special for token in vocabulary]
        super().__init__(vocabulary, special_tokens, special_tokens_in_text, begins_word, more_special_tokens)
        in_no_text = spm.tokens_in_no_text(pieces, family)
        self.special_ids |= {i for i, token in enumerate(vocabulary) if token in in_no_text}

        self._normalizer = CompatibilityNormalizer(
            self.lowercase, self.strip_accents, usage.as_transformers, usage.pads_punctuation
        )
        self._model = spm.with_padding(self.model) if usage.pads_punctuation else self.model
        if usage.as_transformers:
            self._symbols = [each.piece for each in pieces if each.type == spm.USER_DEFINED]
        ids = np.arange(len(model_tokens), dtype=np.int32) - usage.skipped + len(usage.first)
        ids[model_tokens.index(special_tokens["unk_token"])] = self.unk_token_id
        ids[: usage.skipped] = self.unk_token_id
        with tf.init_scope(), tf.device("CPU"):
            self._model_ids_to_ids = tf.constant(ids)
            byte_of = {each.piece: bytes([int(each.piece[1:-1], 16)]) for each in pieces if each.type == spm.BYTE}
            self._tokens = tf.constant([byte_of.get(token, token.encode()) for token in self.vocabulary])
            self._begins_with_space = tf.constant(
                [token.startswith(spm.SPACE) and token != spm.SPACE for token in self.vocabulary]
            )
            self._comma_splits = self._split_comma_tokens(model_tokens) if usage.splits_commas else ()
        # Traced once, so that the graph has one copy of the model.
        signature = [tf.TensorSpec([None], tf.string)]
        self._split = tf.function(self._split_batch, input_signature=signature, autograph=False)

    def _split_batch(self, strings: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Splits string `[batch]`: the model's ids, row_splits, and starts and ends in bytes of `strings`."""
        return _ops.sentencepiece_tokenize_with_offsets_op(
            _ops.sentencepiece_op(model=self._model), strings, 0, 1.0, False, False, False, tf.int32
        )

    def _tokenize_text(self, strings: tf.Tensor, rows: tf.Tensor | None, with_offsets: bool) -> Tokens:
        normalized, plain = self._normalizer(strings, rows)
        ids, row_splits, starts, ends = self._split(normalized)
        ids = tf.RaggedTensor.from_row_splits(tf.gather(self._model_ids_to_ids, ids), row_splits, validate=False)
        tokens = ids, ids.with_values(tf.cast(starts, tf.int64)), ids.with_values(tf.cast(ends, tf.int64))
        if self._comma_splits:
            whole = tokens
            count = self._comma_splits[0].row_lengths()
            any_comma = tf.reduce_any(tf.gather(count, ids.values) > 1)
            tokens = tf.cond(any_comma, lambda: self._split_off_commas(*whole), lambda: whole)
        if not with_offsets:
            return tokens
        ids, *spans = tokens
        moved = ~plain & (normalized != strings)
        starts, ends = tf.cond(
            tf.reduce_any(moved),
            lambda: self._normalizer.original_offsets(strings, moved, *spans),
            lambda: tuple(spans),
        )
        return ids, starts.with_values(self._skip_spaces(strings, ids, starts.values, ends.values)), ends

    def _skip_spaces(self, strings: tf.Tensor, ids: tf.RaggedTensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Moves the start of each token with a space before a word to the first character after white space."""
        lengths = tf.cast(tf.strings.length(strings), tf.int64)
        row_starts = tf.gather(tf.cumsum(lengths, exclusive=True), ids.value_rowids())
        joined = tf.strings.reduce_join(strings)
        for spaces, of_ascii in _SPACES:
            joined = tf.strings.regex_replace(joined, spaces, of_ascii)
        data = tf.io.decode_raw(joined + "$", tf.uint8)  # with a character at the end, for tokens that end there

        def begins_text(data: tf.Tensor) -> tf.Tensor:
            return tf.gather(_BEGINS_TEXT, tf.cast(data, tf.int32))

        places = row_starts + starts
        moves = tf.gather(self._begins_with_space, ids.values)
        # Nearly all words have one space before them.
        places += tf.cast(moves & ~begins_text(tf.gather(data, places)), tf.int64)
        rest = tf.where(moves & ~begins_text(tf.gather(data, places)))
        text = tf.where(begins_text(data))[:, 0]
        found = tf.gather(text, tf.searchsorted(text, tf.gather_nd(places, rest)))
        places = tf.tensor_scatter_nd_update(places, rest, found)
        return tf.where(moves, tf.minimum(places - row_starts, ends), starts)

    def _split_comma_tokens(self, model_tokens: Sequence[str]) -> tuple[tf.RaggedTensor, tf.RaggedTensor]:
        """Splits tokens that end in digit and comma: ids `[tokens, (pieces)]`, and the bytes after each piece."""
        pieces = [[token] for token in model_tokens]
        commas = [i for i, token in enumerate(model_tokens) if spm.ends_in_comma(token)]
        numbers = [model_tokens[i][:-1].replace(spm.SPACE, "") for i in commas]
        ids, splits, _, _ = self._split_batch(tf.constant(numbers, tf.string))
        split_numbers: list[list[int]] = tf.RaggedTensor.from_row_splits(ids, splits).to_list()
        for i, number in zip(commas, split_numbers, strict=True):
            first, *rest = (model_tokens[each] for each in number)
            # Inside a word, the number has no space before it.
            first = first if model_tokens[i].startswith(spm.SPACE) else first.removeprefix(spm.SPACE)
            pieces[i] = [*filter(None, [first, *rest]), ","]
        index = {token: i for i, token in enumerate(self.vocabulary)}
        bytes_after = [[len("".join(row[i + 1 :]).encode()) for i in range(len(row))] for row in pieces]
        return (
            tf.ragged.constant([[index.get(piece, self.unk_token_id) for piece in row] for row in pieces], tf.int32),
            tf.ragged.constant(bytes_after, tf.int64),
        )

    def _split_off_commas(self, ids: tf.RaggedTensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor) -> Tokens:
        pieces, bytes_after = (tf.gather(each, ids.values) for each in self._comma_splits)  # [tokens, (pieces)]
        token = pieces.value_rowids()
        first, last = tf.gather(starts.values, token), tf.gather(ends.values, token)
        piece_ends = tf.maximum(last - bytes_after.values, first)
        piece_starts = tf.where(begins_run(token), first, shifted(piece_ends, 1))
        splits = tf.gather(pieces.row_splits, ids.row_splits)
        values = pieces.values, piece_starts, piece_ends
        return tuple(tf.RaggedTensor.from_row_splits(each, splits, validate=False) for each in values)

    def _join(self, ids: tf.RaggedTensor) -> tf.Tensor:
        """Joins the tokens with their spaces, without the first space. Normalization is not undone."""
        text = tf.strings.reduce_join(ids.with_flat_values(tf.gather(self._tokens, ids.flat_values)), axis=-1)
        text = tf.strings.regex_replace(text, spm.SPACE, " ")
        return tf.strings.regex_replace(text, "^ ", "")

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments, with the model in base64 in place of its path."""
        return {"model_file": base64.b64encode(self.model).decode(), **super().get_config()}

    @classmethod
    def from_config(cls: type[S], config: dict[str, Any]) -> S:
        """Makes the tokenizer of a `get_config()`, with the model in base64, never its path; else raises ValueError."""
        try:
            model = base64.b64decode(cast("str", config.get("model_file")), validate=True)
        except (TypeError, ValueError):
            raise ValueError(
                f"the configuration of a {cls.__name__} has {reprlib.repr(config.get('model_file'))} in model_file; "
                f"expected the model in base64 (a path is for the constructor: {cls.__name__}(model_file=...))"
            ) from None
        return cls(**{**config, "model_file": model})


# -- ALBERT's normalization of text before SentencePiece: compatibility decomposition, accents, lower case.

# ASCII, and typographic quotes and dashes that no step changes.
_PLAIN = r"[\x02-\x0a\x0c-\x1b -\x7f\x{2010}\x{2012}-\x{2016}\x{2018}-\x{2023}]*"
_UNPUNCTUATED = r"[\x02-\x0a\x0c-\x1b 0-9A-Za-z]*"
# `` and '' become " and this character, a filler of one byte that keeps byte offsets. The filler is dropped later, as
# by SentencePiece's usual normalization.
_SECOND_QUOTE = "\x01"


@dataclass(frozen=True)
class CompatibilityNormalizer(Normalizer):
    """ALBERT's normalization, `preprocess_text` of google-research/albert: "Crème ﬁn ½" becomes "creme fin 1⁄2"."""

    lowercase: bool
    strip_accents: bool  # decomposes (NFKD), drops characters with a combining class, and makes white space a space
    as_transformers: bool = False  # `` and '' become ", all marks are dropped, and sigma has no final form
    pads_punctuation: bool = False  # puts spaces around the punctuation of ASCII

    def __call__(self, strings: tf.Tensor, rows: tf.Tensor | None = None) -> tuple[tf.Tensor, tf.Tensor]:
        """Normalizes string `[batch]`, and marks rows in which no byte moves. See `BertNormalizer`."""
        strings = self._mark_quotes(strings)
        lowered = tf.strings.lower(strings) if self.lowercase else strings
        plain = tf.strings.regex_full_match(strings, _UNPUNCTUATED if self.pads_punctuation else _PLAIN)
        return normalize_unless(plain, lowered, rows, self._normalize), plain

    def _normalize(self, strings: tf.Tensor) -> tf.Tensor:
        strings = tf.strings.regex_replace(strings, r"\x00", spm.NO_NUL)
        if self.pads_punctuation:
            for sign in ("<\u0338", "=\u0338", ">\u0338"):  # which compose to one character that is not ASCII
                strings = tf.strings.regex_replace(strings, sign, unicodedata.normalize("NFC", sign))
            strings = tf.strings.regex_replace(strings, spm.PUNCTUATION.pattern, r" \0 ")
        if self.as_transformers:
            strings = tf.strings.regex_replace(strings, _SECOND_QUOTE, "")
            strings = tf.strings.regex_replace(strings, r"\x{85}", "  ")  # two bytes, as before
            strings = tf.strings.regex_replace(strings, "Σ", "σ") if self.lowercase else strings
            if self.strip_accents:
                strings = tf.strings.regex_replace(tf_text.normalize_utf8(strings, "NFKD"), r"\pM+", "")
        elif self.strip_accents:
            # As many bytes as before, so that offsets stay. SentencePiece merges runs of spaces.
            strings = tf.strings.regex_replace(strings, f"[{spm.ODD_SPACES}]", " ")
            strings = tf.strings.regex_replace(strings, r"\x{85}", "  ")
            strings = tf_text.normalize_utf8(strings, "NFKD")
            strings = tf.strings.regex_replace(strings, f"{spm.combining_class()}+", "")
        if self.lowercase:
            strings = tf.strings.lower(strings)  # first the ASCII that NFKD makes: ICU would follow the locale
            strings = tf.strings.lower(lower_dotted_capitals(strings), encoding="utf-8")
        return strings

    def original_offsets(
        self, strings: tf.Tensor, moved: tf.Tensor, starts: tf.RaggedTensor, ends: tf.RaggedTensor
    ) -> tuple[tf.RaggedTensor, ...]:
        return super().original_offsets(self._mark_quotes(strings), moved, starts, ends)

    def _mark_quotes(self, strings: tf.Tensor) -> tf.Tensor:
        return tf.strings.regex_replace(strings, "``|''", f'"{_SECOND_QUOTE}') if self.as_transformers else strings

    def _normalize_characters(self, chars: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        results = self._normalize(chars)
        return results, (tf.strings.length(chars) > 0) & (tf.strings.length(results) == 0)
