"""The graph tokenizer and the plain-Python reference give the same tokens and spans, whatever the text."""

import unicodedata

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from keras_bert.text import WordPieceTokenizer
from keras_bert.text.wordpiece import BertNormalizer

from ..support.reference import wordpiece as reference
from ..support.small import SPECIAL
from ..support.texts import SENTENCES
from ..support.tokenization import NASTY, compare_word_tokens, random_texts, words_of

SETTINGS = {
    "uncased": {},
    "cased": {"lowercase": False},
    "uncased, accents kept": {"strip_accents": False},
    "cased, accents stripped": {"lowercase": False, "strip_accents": True},
    "cjk not split": {"split_on_cjk": False},
}
# The first and last of each range that a rule names, and those beside them; all that is said of Latin and controls.
BORDERS = "㏿㐀䶵䷀䷿一鿕ꀀ\ud7fb\ue000豈\ufad9ﬀ𝒳𠀀𪛖𪜀𫜴𫝀𫠝𫠠丽𪘀\U0002fa1d\U000e0001\U000e0020\U000f0000\U0010fffd"
BORDERS += "".join(map(chr, range(1, 0x250)))
# Inside, before, alone and after.
TEXTS = [f"a{c}b {c}c d {c} e{c}" for c in sorted({*NASTY, *BORDERS})]
TEXTS += [*SENTENCES, "", " ", " ".join(SENTENCES), *random_texts(NASTY + "abehinorstäéñ ", 100)]


@pytest.fixture(scope="module")
def tokens():
    return [*SPECIAL, *(token for token in words_of([*TEXTS, *"abcde"]) if token not in SPECIAL)]


@pytest.mark.parametrize("setting", SETTINGS)
def test_texts_of_all_kinds(tokens, setting, untraced):
    compare_word_tokens(WordPieceTokenizer(tokens, **SETTINGS[setting]), TEXTS)


def test_texts_of_all_kinds_in_a_graph(tokenizer):
    """Where what no row needs is left out, which others need."""
    for texts in (TEXTS, ["plain words", "and more"], ["Plain", "naïve"], []):
        compare_word_tokens(tokenizer, texts)


def check_spans(tokenizer, texts):
    """What the offsets cut out of the text is, normalized, what the token says."""
    ids, starts, ends = (ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts))
    for text, *spans in zip(texts, ids, starts, ends, strict=True):
        before = 0
        for token_id, start, end in zip(*spans, strict=True):
            cut = text.encode()[start:end].decode()
            assert start >= before or unicodedata.decomposition(cut) or unicodedata.category(cut[0]) == "Lo"
            before = max(before, start)
            if token_id != tokenizer.unk_token_id:
                token = tokenizer.vocabulary[token_id].removeprefix("##")
                normalized = "".join(char for char, _ in reference.normalize(cut))
                assert token.replace("ς", "σ") in normalized.replace("ς", "σ"), ascii(text)


def test_spans_say_what_the_tokens_say(tokens, untraced):
    check_spans(WordPieceTokenizer(tokens), SENTENCES)


def no_character_hides_a_long_word(chars):
    """Rows that skip the count of characters really have no long words."""
    tokens = sorted({char for char, _ in reference.normalize("a" + "".join(chars))} - set(" \t\n\r"))
    texts = [f"aaa{c}aaa" for c in chars]
    normalizer = BertNormalizer(lowercase=True, strip_accents=True, max_chars_per_word=3)
    normalized, plain = normalizer(tf.constant(texts))
    short = plain | normalizer.rows_of_short_words(normalized)
    texts = [text for text, skips in zip(texts, short.numpy(), strict=True) if skips]
    assert len(texts) > 30
    vocabulary = SPECIAL + tokens + ["##" + token for token in tokens]
    compare_word_tokens(WordPieceTokenizer(vocabulary, max_chars_per_word=3), texts)


def test_no_character_hides_a_long_word(untraced):
    no_character_hides_a_long_word([*map(chr, range(1, 0x250)), *map(chr, range(0x2010, 0x2070)), *"中一"])


# -- Every character there is


@pytest.fixture(scope="session")
def known():
    """The characters that this Python and TensorFlow agree on, as a str.

    Both carry their own version of Unicode. Left out are characters that only one of them knows (838 under Python 3.11,
    which has Unicode 14 where TensorFlow's ICU has 13; some 6,000 under Python 3.13), and the few that changed their
    category since. Of the private-use planes 15 and 16 only the ends are tried: all of their 131,068 are alike.
    """
    assigned = [c for c in range(0xF0010) if unicodedata.category(chr(c)) not in ("Cn", "Cs")]
    assigned += [0xFFFFD, 0x100000, 0x10FFFD]
    chars = tf.strings.unicode_encode(tf.constant(assigned)[:, None], "UTF-8")
    private = tf.strings.regex_full_match(chars, r"\p{Co}")
    in_icu = (tf.strings.unicode_script(tf.constant(assigned)) != 103) | private  # 103: unknown script
    agreed = in_icu.numpy()
    for category in ("Mn", "Cf", "P"):
        in_re2 = tf.strings.regex_full_match(chars, rf"\p{{{category}}}").numpy()
        in_python = [unicodedata.category(chr(c)).startswith(category) for c in assigned]
        changed = agreed & (in_re2 != in_python)
        assert changed.sum() < 20
        agreed &= ~changed
    left_out = len(assigned) - agreed.sum()
    assert left_out < 15_000, f"{left_out} characters left out: is TensorFlow's Unicode far older than Python's?"
    return "".join(chr(c) for c, yes in zip(assigned, agreed, strict=True) if yes)


@pytest.fixture(scope="module")
def known_set(known):
    return frozenset(known)


@pytest.mark.slow
@pytest.mark.parametrize("setting", SETTINGS)
def test_every_character(known, setting, untraced):
    setting = SETTINGS[setting]
    strip = setting.get("strip_accents", setting.get("lowercase", True))
    tokens = {char for char, _ in reference.normalize(known, setting.get("lowercase", True), strip)}
    tokens = sorted(tokens.union("abcde") - set(" \t\n\r"))
    tokenizer = WordPieceTokenizer(SPECIAL + tokens + ["##" + token for token in tokens], **setting)
    # Every tenth for all settings but the one that most models have.
    chars = known if setting == {} else known[[*SETTINGS.values()].index(setting) :: 10]
    for i in range(0, len(chars), 20_000):
        compare_word_tokens(tokenizer, [f"a{c}b {c}c d {c} e{c}" for c in chars[i : i + 20_000]])


@pytest.mark.slow
def test_of_all_characters_none_hides_a_long_word(known):
    no_character_hides_a_long_word([char for char in known if char < "\u4e10"])


@pytest.mark.slow
@hypothesis.settings(max_examples=80, deadline=None)
@hypothesis.given(
    st.lists(st.text(st.sampled_from(NASTY + "abehinorstäéñ ") | st.characters(), max_size=40), max_size=4)
)
def test_arbitrary_unicode(real_tokenizer, known_set, texts):
    texts = ["".join(filter(known_set.__contains__, text)) for text in texts]
    compare_word_tokens(real_tokenizer, texts)
    check_spans(real_tokenizer, texts)
