"""Tokenizers that turn lists of str into lists of ids by Hugging Face's `tokenizers`, without TensorFlow."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from keras_bert.extras import import_extra
from keras_bert.formats.tokenizers import byte_pairs, wordpiece
from keras_bert.formats.tokenizers.tokenizer_files import TokenizerFiles
from keras_bert.formats.tokenizers.tokenizer_json import TOKENS
from keras_bert.text.arguments import check_surrogates, list_of_str
from keras_bert.text.arrays.characters import begins_of_characters, uncomposed_spans
from keras_bert.text.pairs import PairFormat
from keras_bert.text.vocabulary import bytes_of_tokens, read_ids, read_merges, read_tokens

if TYPE_CHECKING:
    from tokenizers import Encoding


class Tokens(NamedTuple):
    """The tokens of a text: `text[start:end]` is that of a token."""

    ids: list[int]
    starts: list[int]
    ends: list[int]


class ArrayTokenizer:
    """The tokenizer of a preset, for lists of str. `keras_bert.text.Tokenizer` explains what has the same name here."""

    includes_space = True  # whether a token includes the space before it

    def __init__(
        self,
        content: Mapping[str, Any],  # a `tokenizer.json`
        vocabulary: Sequence[str],
        special_tokens: Mapping[str, str],
        other_special_tokens: Sequence[str],  # that stand for no text
        pair_format: PairFormat,
        special_tokens_in_text: bool,  # whether to find the special tokens of `content`
        settings: Mapping[str, Any],  # other arguments of the tokenizer in the graph
    ) -> None:
        self.library = import_extra("tokenizers", "tokenizers", "runtimes").Tokenizer.from_str(json.dumps(content))
        self.library.encode_special_tokens = not special_tokens_in_text
        self.library.no_truncation()
        self.library.no_padding()
        self._added = [each["content"] for each in content["added_tokens"]]
        self.vocabulary = list(vocabulary)
        self.vocabulary_size = len(self.vocabulary)
        self.special_tokens = dict(special_tokens)
        self.special_tokens_in_text = special_tokens_in_text
        self.pair_format = pair_format
        self._settings = settings
        self.unk_token_id, self.cls_token_id, self.sep_token_id, self.pad_token_id, self.mask_token_id = (
            self.vocabulary.index(special_tokens[name]) for name in TOKENS
        )
        ids = {token: index for index, token in enumerate(self.vocabulary)}
        self.special_ids = {ids[token] for token in (*special_tokens.values(), *other_special_tokens)}
        # The fast one computes no offsets; old versions of the library lack it.
        self._encode_batch = getattr(self.library, "encode_batch_fast", self.library.encode_batch)

    def tokenize(self, texts: Sequence[str]) -> list[list[int]]:
        """Turns texts into ids, without the special tokens of a row. Raises TypeError or ValueError for a bad one."""
        return [each.ids for each in self._encode(texts, self._encode_batch)]

    def tokenize_with_offsets(self, texts: Sequence[str]) -> list[Tokens]:
        """Turns texts into ids and each token's span, as `Tokenizer.tokenize_with_offsets`, but in characters."""
        return [Tokens(ids, *self._spans(text, ids)) for text, ids in zip(texts, self.tokenize(texts), strict=True)]

    def tokenize_words(self, sentences: Sequence[Sequence[str]]) -> list[list[list[int]]]:
        """Turns each word of sentences into ids by itself. Every word has a token; see `Tokenizer.tokenize_words`."""
        tokens = iter(self.tokenize([self._with_space(word) for words in sentences for word in words]))
        return [[next(tokens) or [self.unk_token_id] for _ in words] for words in sentences]

    def token_texts(self) -> list[str]:
        """Lists the text of each token of the vocabulary, with the space before it, if the token includes it."""
        return self.vocabulary

    def _encode(self, texts: Sequence[str], encode_batch: Any) -> list[Encoding]:
        try:
            return encode_batch(texts, add_special_tokens=False)
        except TypeError:
            check_surrogates(list_of_str(texts))
            raise

    def _with_space(self, word: str) -> str:
        """Puts a space before a word, if tokens include it and the library puts none there."""
        return word

    def _spans(self, text: str, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Finds the spans of the tokens of a text: starts and ends, in characters."""
        raise NotImplementedError


class ArrayWordPiece(ArrayTokenizer):
    """WordPiece."""

    includes_space = False

    def tokenize_with_offsets(self, texts: Sequence[str]) -> list[Tokens]:
        lowercase, strips_accents = self._settings["lowercase"], self._settings["strip_accents"]
        strips_accents = lowercase if strips_accents is None else strips_accents
        rows = []
        for text, row in zip(texts, self._encode(texts, self.library.encode_batch), strict=True):
            starts, ends = ([offset[side] for offset in row.offsets] for side in (0, 1))
            if strips_accents and not text.isascii():  # a stripped accent belongs to the character before it
                ends = [_after_marks(text, end) for end in ends]
            rows.append(Tokens(row.ids, starts, ends))
        return rows


def _after_marks(text: str, end: int) -> int:
    while end < len(text) and unicodedata.category(text[end]) == "Mn":
        end += 1
    return end


class ArrayBytePairs(ArrayTokenizer):
    """Byte pairs."""

    @cached_property
    def _token_bytes(self) -> list[bytes]:
        return bytes_of_tokens(self.vocabulary, self._added)

    @cached_property
    def _added_bytes(self) -> dict[int, bytes]:
        """The bytes of each added token, by id, as they are in normalized texts."""
        texts = {token: unicodedata.normalize("NFC", token) if self._normalizes else token for token in self._added}
        return {self.vocabulary.index(token): text.encode() for token, text in texts.items()}

    @property
    def _normalizes(self) -> bool:
        return self._settings["normalization"] is not None

    @cached_property
    def _lengths(self) -> np.ndarray:
        """The bytes of each token, and the bytes of the space before a word in it, int64 `[2, vocabulary_size]`."""
        skipped = [each.startswith(b" ") and not each.decode(errors="replace").isspace() for each in self._token_bytes]
        return np.array([[*map(len, self._token_bytes)], skipped])

    def _spans(self, text: str, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        normalized = unicodedata.normalize("NFC", text) if self._normalizes else text
        data, place, spans = normalized.encode(), 0, []
        for is_added, run in groupby(ids, self._added_bytes.__contains__):
            if is_added:  # an added token may include white space before it, which its span leaves out
                for index in run:
                    token = self._added_bytes[index]
                    place = max(data.find(token, place), place) + len(token)
                    spans.append(np.array([[place - len(token)], [place]]))
            else:  # tokens cover the text without gaps
                lengths, skipped = self._lengths[:, [*run]]
                has_space = self._settings["add_prefix_space"] and not data.startswith(b" ", place)
                ends = place - has_space + np.cumsum(lengths)
                spans.append(np.stack([np.maximum(ends - lengths + skipped, place), ends]))
                place = int(ends[-1])
        starts, ends = np.concatenate(spans, axis=1) if spans else np.zeros((2, 0), np.int64)
        if len(data) > len(normalized):
            begins = begins_of_characters(normalized)
            first = np.searchsorted(begins, starts, side="right") - 1
            starts = np.where(starts < ends, first, np.searchsorted(begins, starts))
            ends = np.searchsorted(begins, ends)
        if normalized != text:
            starts, ends = uncomposed_spans(text, starts, ends)
        return starts.tolist(), ends.tolist()

    def token_texts(self) -> list[str]:
        # A token may begin or end within a character, which then becomes U+FFFD.
        return [each.decode(errors="replace") for each in self._token_bytes]

    def _with_space(self, word: str) -> str:
        return word if not word or word.startswith(" ") else f" {word}"


class ArraySentencePiece(ArrayTokenizer):
    """SentencePiece, which puts a space before each text."""

    @cached_property
    def _spans(self) -> Callable[[str, Sequence[int]], tuple[list[int], list[int]]]:
        from keras_bert.text.arrays.sentencepiece import SentencePieceSpans  # it needs protobuf

        return SentencePieceSpans(self._settings, self.vocabulary, self._added, self.unk_token_id)

    def token_texts(self) -> list[str]:
        return [token.replace("▁", " ") for token in self.vocabulary]


def array_tokenizer(preset_files: TokenizerFiles, special_tokens_in_text: bool | None = None) -> ArrayTokenizer:
    """Reads the tokenizer of a preset, of the class that its files determine; `load_tokenizer` explains the errors."""
    tokenizer = _read_tokenizer(preset_files, special_tokens_in_text)
    preset_files.check(tokenizer.vocabulary, tokenizer.special_tokens)
    return tokenizer


def _read_tokenizer(preset_files: TokenizerFiles, special_tokens_in_text: bool | None) -> ArrayTokenizer:
    if preset_files.kind == "Unigram":
        # It needs protobuf, as no other tokenizer does.
        from keras_bert.formats.tokenizers import unigram

        arguments = unigram.read_files(preset_files)
        usage = unigram.FAMILIES[arguments["family"]]
        pair_format = PairFormat(
            usage.separators, usage.second_type_id, packing=arguments.get("packing", usage.packing)
        )
        in_text = bool(special_tokens_in_text)
        content, vocabulary, special, others = unigram.json_for_texts(arguments, in_text)
        return ArraySentencePiece(content, vocabulary, special, others, pair_format, in_text, arguments)
    if preset_files.kind == "BPE":
        kind, arguments = ArrayBytePairs, vars(byte_pairs.BytePairArguments(**byte_pairs.read_files(preset_files)))
    else:
        kind, arguments = ArrayWordPiece, vars(wordpiece.WordPieceArguments(**wordpiece.read_files(preset_files)))
    vocabulary, special, others = arguments["vocabulary"], _pick(arguments, TOKENS), arguments["more_special_tokens"]
    if kind is ArrayBytePairs:
        ids = read_ids(vocabulary, special, [*others, *arguments["added_tokens"]])
        vocabulary = sorted(ids, key=ids.__getitem__)
        merges = [" ".join(pair) for pair in read_merges(arguments["merges"])]
        content = byte_pairs.json_of({**arguments, "vocabulary": vocabulary, "merges": merges})
    else:
        vocabulary = read_tokens(vocabulary, special, [*arguments["added_tokens"], *others])
        content = wordpiece.json_of({**arguments, "vocabulary": vocabulary})
    pair_format = PairFormat(**_pick(arguments, [each.name for each in fields(PairFormat)]))
    in_text = arguments["special_tokens_in_text"] if special_tokens_in_text is None else special_tokens_in_text
    return kind(content, vocabulary, special, others, pair_format, in_text, arguments)


def _pick(arguments: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Picks the arguments of these names."""
    return {name: arguments[name] for name in names if name in arguments}
