"""Byte-level byte-pair encoding in plain Python: what the graph tokenizer is held to.

Written from Sennrich et al. 2016 (https://arxiv.org/abs/1508.07909), the pattern in Radford et al. 2019's encoder, and
nothing of ours. A word begins where the pattern says, read character by character instead of as a regular expression.
"""

import itertools
import unicodedata

SPACES = {*map(chr, [*range(9, 14), 32, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B)]), *"\u2028\u2029\u202f\u205f\u3000"}


def kind(char):
    return "S" if char in SPACES else {"L": "L", "N": "N"}.get(unicodedata.category(char)[0], "O")


def run(text, start):
    """Where the run of characters of one kind that begins at `start` ends."""
    end = start
    while end < len(text) and kind(text[end]) == kind(text[start]):
        end += 1
    return end


def words(text):
    start = 0
    while start < len(text):
        contraction = next(
            (c for c in ("'s", "'t", "'re", "'ve", "'m", "'ll", "'d") if text.startswith(c, start)), None
        )
        if contraction:
            end = start + len(contraction)
        elif kind(text[start]) != "S":
            end = run(text, start)
        elif text[start] == " " and start + 1 < len(text) and kind(text[start + 1]) != "S":
            end = run(text, start + 1)
        else:
            end = run(text, start)
            if end < len(text) and end - start > 1:
                end -= 1  # the last one is left to what follows
        yield text[start:end]
        start = end


def symbols():
    """byte -> the character that stands for it."""
    shown = [b for b in range(256) if 33 <= b <= 126 or 161 <= b <= 172 or 174 <= b <= 255]
    hidden = [b for b in range(256) if b not in shown]
    return {b: chr(b) for b in shown} | {b: chr(256 + i) for i, b in enumerate(hidden)}


SYMBOLS = symbols()


def merge(word, ranks):
    """Sequence of tokens -> those left when the first pair of the earliest rule has been merged until none fits."""
    word = list(word)
    while len(word) > 1:
        rank, place = min((ranks.get(pair, len(ranks)), place) for place, pair in enumerate(itertools.pairwise(word)))
        if rank == len(ranks):
            break
        word[place : place + 2] = [word[place] + word[place + 1]]
    return word


def tokenize(text, ranks):
    """Text -> tokens."""
    return [token for word in words(text) for token in merge([SYMBOLS[b] for b in word.encode()], ranks)]


def train(texts, count):
    """Learns merges: the most frequent pair first, the smaller one on a tie."""
    counts = {}
    for text in texts:
        for word in words(text):
            key = tuple(SYMBOLS[b] for b in word.encode())
            counts[key] = counts.get(key, 0) + 1
    merges = []
    while len(merges) < count:
        pairs = {}
        for word, times in counts.items():
            for pair in itertools.pairwise(word):
                pairs[pair] = pairs.get(pair, 0) + times
        if not pairs:
            break
        best = min(pairs, key=lambda pair: (-pairs[pair], pair))
        merges.append(best)
        counts = {tuple(merge(word, {best: 0})): times for word, times in counts.items()}
    return merges
