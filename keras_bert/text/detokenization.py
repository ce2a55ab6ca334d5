"""Joins tokens into text. Tokenization loses the spaces around punctuation; rules guess them."""

import tensorflow as tf

_CJK = r"\x{3001}-\x{30ff}\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}\x{ff01}-\x{ff20}\x{20000}-\x{2fa1f}"
_LETTER = r"[\p{L}\p{M}]"

# (pattern, replacement), in order. RE2 has no look-around and its matches do not overlap, so the rule of a pattern that
# may repeat (3 , 000 , 000) is applied twice.
_RULES = (
    (r"(^| )##", ""),
    # Between digits: 3.5, 10:30, 1,000,000.
    (r"(\d) ([.:]) (\d)", r"\1\2\3"),
    *[(r"(\d) , (\d\d\d)\b", r"\1,\2")] * 2,
    # Apostrophes: don't, she’s, o'clock, l'amour.
    (rf"({_LETTER}) (['’]) (s|t|re|ve|ll|d|m|S|T|RE|VE|LL|D|M)\b", r"\1\2\3"),
    (rf"\b([a-zA-Z]) (['’]) ({_LETTER})", r"\1\2\3"),
    # Inside words: well-known, and/or, snake_case, [MASK]-like.
    *[(r"([\pL\pN\]]) ([-/_]) ([\pL\pN\[])", r"\1\2\3")] * 2,
    # Straight quotes open and close in turn.
    (r'" ([^"]*?) "', r'"\1"'),
    (r"(^|[ (\[\"“])' ([^']*?) '( |[)\].,!?;:\"”]|$)", r"\1'\2'\3"),
    (rf"({_LETTER}) '( |$)", r"\1'\2"),  # the dogs' tails
    (r" ([.,!?;:)\]}%…”’»])", r"\1"),
    (r"([(\[{“‘«$£€#@¿¡]) ", r"\1"),
    # Chinese and Japanese are written without spaces.
    *[(rf"([{_CJK}]) ([{_CJK}])", r"\1\2")] * 2,
)


def join_tokens(tokens: tf.RaggedTensor) -> tf.Tensor:
    """Joins `##` tokens, and removes spaces around punctuation: string `[batch, (tokens)]` -> string `[batch]`.

    Example:
        >>> join_tokens(tf.ragged.constant([["don", "'", "t", "pan", "##ic", ",", "(", "42", ")", "!"]])).numpy()
        array([b"don't panic, (42)!"], dtype=object)
    """
    text = tf.strings.reduce_join(tokens, axis=-1, separator=" ")
    for pattern, replacement in _RULES:
        text = tf.strings.regex_replace(text, pattern, replacement)
    return text
