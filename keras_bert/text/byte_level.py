"""Splits text into words, whose bytes are then merged; and writes bytes as printable symbols."""

import tensorflow as tf

from keras_bert.text.split_patterns import SPLITS


def byte_symbols() -> list[str]:
    """The printable character that stands for each of the 256 bytes in vocabularies and merges.

    Printable Latin-1 characters stand for themselves. Characters from U+0100 on stand for the other 68 bytes, in order.

    Example:
        >>> [byte_symbols()[byte] for byte in (0, 10, 32, 65, 255)]
        ['Ā', 'Ċ', 'Ġ', 'A', 'ÿ']
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = iter(range(0x100, 0x200))
    return [chr(byte) if byte in printable else chr(next(others)) for byte in range(256)]


def split_words(strings: tf.Tensor, rows: tf.Tensor | None = None, split: str = "gpt2") -> tf.RaggedTensor:
    """Splits texts, string `[batch]`, into words, string `[batch, (words)]`, without losing a byte.

    The words are the matches of a pattern. With `split="gpt2"`, it is that of GPT-2's encoder (Radford et al. 2019):

        's|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+

    `formats/hugging_face_splits.py` has the others.

    Raises:
        ValueError (in a graph, tf.errors.InvalidArgumentError): a row is not valid UTF-8. The message has the row's
            number in `rows` (int64 `[batch]`), by default its position in the batch.

    Example:
        >>> split_words(tf.constant(["I'll  pay 5€\\n"])).to_list()
        [[b'I', b"'ll", b' ', b' pay', b' 5', b'\\xe2\\x82\\xac', b'\\n']]
    """
    return SPLITS[split](strings, rows)
