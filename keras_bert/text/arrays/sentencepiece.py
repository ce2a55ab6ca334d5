"""The spans of SentencePiece's tokens, without TensorFlow: its normalization, with the places of characters."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from keras_bert.formats.tokenizers import sentencepiece_model as spm

# What SentencePiece's usual normalization (nmt_nfkc) turns into spaces.
_SPACES = "\t\n\x0b\x0c\r \x85\xa0\u1680\u200e\u200f\u2028\u2029\u202f\u205f\u3000\ufeff"
_SPACES += "".join(map(chr, range(0x2000, 0x200C)))
_SECOND_QUOTE = "\x01"  # as in `sentencepiece.py`
_ASCII = re.compile(r"[\x02-\x0a\x0c-\x1b -\x7f]*")  # of which a family's normalization changes only capitals
_LONGEST = 64  # characters that a table replaces: NFKC's keys have at most 18


class SentencePieceSpans:
    """Finds the spans of a text's tokens, which are those of `SentencePieceTokenizer`, in characters."""

    # `added` are tokens that are split off the text first.

    def __init__(
        self, arguments: Mapping[str, Any], vocabulary: Sequence[str], added: Sequence[str], unk_token_id: int
    ) -> None:
        self._usage = spm.FAMILIES[arguments["family"]]
        defaults = self._usage._asdict()
        self._lowercase, self._strips = (
            defaults[name] if arguments.get(name) is None else arguments[name]
            for name in ("lowercase", "strip_accents")
        )
        model, _ = spm.read_bytes(arguments["model_file"])
        proto = spm.read_model(spm.with_padding(model) if self._usage.pads_punctuation else model)
        self._normalizer = SentencePieceNormalizer(proto)
        self._normalize_character = functools.lru_cache(maxsize=4096)(self._compute_character)
        self._bytes = {each.piece for each in proto.pieces if each.type == spm.BYTE}
        self._vocabulary, self._unknown = vocabulary, unk_token_id
        self._added = {vocabulary.index(token) for token in added}
        self._split = re.compile("|".join(map(re.escape, sorted(added, key=len, reverse=True)))) if added else None

    def __call__(self, text: str, ids: Sequence[int]) -> tuple[list[int], list[int]]:
        """Returns the starts and the ends of the tokens of a text."""
        spans: list[tuple[int, int]] = []
        end = 0
        for found in self._split.finditer(text) if self._split else ():
            spans += self._spans(text, end, found.start(), ids[len(spans) :])
            if len(spans) < len(ids) and ids[len(spans)] in self._added:
                spans.append(found.span())
            end = found.end()
        spans += self._spans(text, end, len(text), ids[len(spans) :])
        spans += [(len(text), len(text))] * (len(ids) - len(spans))
        return [start for start, _ in spans], [end for _, end in spans]

    def _spans(self, text: str, begin: int, end: int, ids: Sequence[int]) -> list[tuple[int, int]]:
        """Finds the spans of the first tokens, those of `text[begin:end]`, which has no added token."""
        chunk, spans = text[begin:end], []
        prepared, places, stops = self._prepare(chunk)
        for index, (start, stop) in zip(ids, self._place(*self._normalizer(prepared), ids), strict=False):
            start, stop = places[start], stops[stop] if start < stop else places[start]
            token = self._vocabulary[index]
            if token.startswith(spm.SPACE) and token != spm.SPACE:  # the space before a word is not in its span
                start = stop - len(chunk[start:stop].lstrip(_SPACES))
            spans.append((begin + start, begin + stop))
        return spans

    def _place(self, text: str, origins: Sequence[int], ids: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Yields each token's span before normalization, empty if the library has normalized it otherwise."""
        place, in_bytes = 0, 0
        pieces = [*map(self._vocabulary.__getitem__, ids), ""]
        for index, (piece, following) in zip(ids, pairwise(pieces), strict=True):
            begin = place
            if place == len(text):
                return
            if piece in self._bytes:  # the last byte of a character has its span
                in_bytes += 1
                if in_bytes == len(text[place].encode()):
                    place, in_bytes = place + 1, 0
            elif index == self._unknown:  # characters that are no tokens
                end = text.find(following, place + 1) if following else -1
                place = len(text) if end < 0 else end
            elif (found := text.find(piece, place)) >= 0:
                begin, place = found, found + len(piece)
            elif index in self._added:
                return
            yield origins[begin], origins[place]

    def _prepare(self, text: str) -> tuple[str, Sequence[int], Sequence[int]]:
        """Normalizes a text as the family does before SentencePiece; see `CompatibilityNormalizer`."""
        # Returns it, and for each of its characters, and its end, the character of `text` that it comes from, and where
        # the character before it ends. A character that is removed belongs to the one before it.
        marked = re.sub("``|''", f'"{_SECOND_QUOTE}', text) if self._usage.as_transformers else text
        if _ASCII.fullmatch(marked) and not self._usage.pads_punctuation:
            return marked.lower() if self._lowercase else marked, range(len(text) + 1), range(len(text) + 1)
        parts = [*map(self._normalize_character, marked)]
        prepared = "".join(parts)
        if len(parts) == len(prepared) and all(parts):
            return prepared, range(len(text) + 1), range(len(text) + 1)
        kept = [*(i for i, part in enumerate(parts) if part), len(text)]
        places = [i for i in kept[:-1] for _ in parts[i]]
        stops = [following for i, following in pairwise(kept) for _ in parts[i]]
        return prepared, [*places, len(text)], [0, *stops]

    def _compute_character(self, char: str) -> str:
        if char == "\0":
            return spm.NO_NUL
        if self._usage.pads_punctuation and spm.PUNCTUATION.match(char):
            return f" {char} "
        as_transformers = self._usage.as_transformers
        if as_transformers and char in "\x85\x01":
            return "  " if char == "\x85" else ""
        if self._strips:
            if not as_transformers and re.match(f"[{spm.ODD_SPACES}\x85]", char):
                return "  " if char == "\x85" else " "
            is_mark = (lambda char: unicodedata.category(char)[0] == "M") if as_transformers else unicodedata.combining
            char = "".join(each for each in unicodedata.normalize("NFKD", char) if not is_mark(each))
        return "".join(map(str.lower, char)) if self._lowercase else char


class SentencePieceNormalizer:
    """SentencePiece's own normalization, `Normalizer::Normalize`, with the place of each character before it."""

    def __init__(self, proto: Any) -> None:
        spec = proto.normalizer_spec
        self._adds_space, self._removes_spaces = spec.add_dummy_prefix, spec.remove_extra_whitespaces
        self._space_is_suffix = proto.trainer_spec.treat_whitespace_as_suffix
        symbols = sorted((each.piece for each in proto.pieces if each.type == spm.USER_DEFINED), key=len, reverse=True)
        self._symbols = re.compile("|".join(map(re.escape, symbols))) if symbols else None
        table: bytes = spec.precompiled_charsmap
        size = int.from_bytes(table[:4], "little")
        self._units: list[int] = np.frombuffer(table, "<u4", size // 4, 4 if table else 0).tolist()
        self._strings = table[4 + size :]
        # Most texts have only characters that no key of the table begins with, unless another character follows.
        ascii_chars = [*map(chr, range(128))]
        changed = {
            pair[0] for char in ascii_chars for pair in (char, *map(char.__add__, ascii_chars)) if self._find(pair)
        }
        changed |= {char for symbol in symbols for char in symbol}
        plain = re.escape("".join(char for char in ascii_chars if char not in changed))
        self._plain = re.compile(f"[{plain}]+" if plain else "(?!)")

    def __call__(self, text: str) -> tuple[str, list[int]]:
        """Normalizes a text, and lists the place in it of each normalized character, and of the end."""
        normalized, origins, begun = "", [], False
        removes_space, end = self._removes_spaces, 0
        for part, places, stop in self._parts(text):
            begin, end = end, stop
            if not begun:
                if part == " " and removes_space:
                    continue
                begun = True
                if self._adds_space and not self._space_is_suffix:
                    normalized, origins = spm.SPACE, [begin]
            if removes_space:
                part = part.lstrip(" ")
            if part:
                normalized += part
                origins += places[len(places) - len(part) :]
                removes_space = self._removes_spaces and part.endswith(" ")
        normalized = normalized.replace(" ", spm.SPACE)
        if self._removes_spaces and normalized.endswith(spm.SPACE):
            normalized = normalized.rstrip(spm.SPACE)
            end = origins[len(normalized)]
            del origins[len(normalized) :]
        if begun and self._adds_space and self._space_is_suffix:
            normalized += spm.SPACE
            origins.append(end)
        return normalized, [*origins, end]

    def _parts(self, text: str) -> Iterator[tuple[str, Sequence[int], int]]:
        """Yields what each longest key of the table at a place becomes, or what stays: its places, and its end."""
        place = 0
        while place < len(text):
            plain, symbol = self._plain.match(text, place), self._symbols and self._symbols.match(text, place)
            # The last one of the plain characters may begin a key with the character after it.
            end = plain.end() - (plain.end() < len(text)) if plain else place
            if end > place:
                for word in re.finditer("[^ ]+| ", text[place:end]):
                    first, last = word.span()
                    yield word[0], range(place + first, place + last), place + last
            elif symbol:
                end = symbol.end()
                yield symbol[0], [place] * len(symbol[0]), end
            elif found := self._find(text[place : place + _LONGEST]):
                end = place + found[1]
                yield found[0], [place] * len(found[0]), end
            else:
                end = place + 1
                yield text[place], [place], end
            place = end

    def _find(self, text: str) -> tuple[str, int] | None:
        """Finds the longest key at the beginning of a text: what replaces it, and its length."""
        if not self._units:
            return None
        node, found, unit = self._target(0), None, 0
        for length, char in enumerate(text, 1):
            for byte in char.encode():
                node ^= byte
                unit = self._units[node]
                if unit & 0x800000FF != byte:
                    return found
                node ^= self._target(node)
            if unit >> 8 & 1:
                begin = self._units[node] & 0x7FFFFFFF
                found = self._strings[begin : self._strings.index(b"\0", begin)].decode(), length
        return found

    def _target(self, node: int) -> int:
        unit = self._units[node]
        return unit >> 10 << (unit >> 6 & 8)
