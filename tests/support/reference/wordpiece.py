"""BERT's tokenization in plain Python, one character at a time: what the graph tokenizer is held to.

Written from Devlin et al. 2018 (https://arxiv.org/abs/1810.04805) and the behaviour of its published `FullTokenizer`.
Each character is a pair (character, index of the source character it came from), so every token knows its source span.
"""

import unicodedata

CJK = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F), (0x2B740, 0x2B81F)]
CJK += [(0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def is_cjk(char):
    return any(low <= ord(char) <= high for low, high in CJK)


def is_punctuation(char):
    ascii_symbol = "!" <= char <= "/" or ":" <= char <= "@" or "[" <= char <= "`" or "{" <= char <= "~"
    return ascii_symbol or unicodedata.category(char).startswith("P")


def is_removed(char):
    return char in "\0\ufffd" or (char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf"))


def normalize(text, lowercase=True, strip_accents=True):
    """Text -> [(character, source index)]. `lower()` sees whole words, for the small Σ at a word's end is another."""
    pairs = [(char, index) for index, char in enumerate(text) if not is_removed(char)]
    if lowercase:
        lowered = "".join(char for char, _ in pairs).lower()
        sources = [index for char, index in pairs for _ in char.lower()]
        pairs = list(zip(lowered, sources, strict=True))
    if strip_accents:
        decomposed = unicodedata.normalize("NFD", "".join(char for char, _ in pairs))
        sources = [index for char, index in pairs for _ in unicodedata.normalize("NFD", char)]
        pairs = [p for p in zip(decomposed, sources, strict=True) if unicodedata.category(p[0]) != "Mn"]
    return pairs


def words(pairs, split_on_cjk=True):
    """Splits at white space, and puts each punctuation mark and each CJK character on its own."""
    word = []
    for char, source in pairs:
        alone = is_punctuation(char) or (split_on_cjk and is_cjk(char))
        if (alone or char.isspace()) and word:
            yield word
            word = []
        if alone:
            yield [(char, source)]
        elif not char.isspace():
            word.append((char, source))
    if word:
        yield word


def tokens(word, vocabulary, max_chars=200):
    """Greedy longest match first: [(token, first source index, last source index)]."""
    chars, found, start = "".join(char for char, _ in word), [], 0
    while start < len(chars) <= max_chars:
        prefix = "##" if start else ""
        ends = (end for end in range(len(chars), start, -1) if prefix + chars[start:end] in vocabulary)
        if (end := next(ends, None)) is None:
            break
        found.append((prefix + chars[start:end], word[start][1], word[end - 1][1]))
        start = end
    return found if start == len(chars) else [("[UNK]", word[0][1], word[-1][1])]


def tokenize(text, vocabulary, lowercase=True, strip_accents=None, split_on_cjk=True, max_chars=200):
    """Text -> [(token, first source index, last source index)]."""
    pairs = normalize(text, lowercase, lowercase if strip_accents is None else strip_accents)
    return [token for word in words(pairs, split_on_cjk) for token in tokens(word, vocabulary, max_chars)]
