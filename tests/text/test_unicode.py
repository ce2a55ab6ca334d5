"""The graph tokenizer and the plain-Python reference give the same pieces and spans, whatever the text."""

import os
import subprocess
import sys
import unicodedata

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from keras_bert.text import WordPieceTokenizer
from keras_bert.text.normalization import BertNormalizer

from . import reference

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SETTINGS = {
    "uncased": {},
    "cased": {"lowercase": False},
    "uncased, accents kept": {"strip_accents": False},
    "cased, accents stripped": {"lowercase": False, "strip_accents": True},
    "cjk not split": {"split_on_cjk": False},
}

SENTENCES = [
    "The quick brown fox doesn't jump over 3.5 “lazy” dogs — or does it?",
    "Übergrößenträger füßen auf Straßenbahnschienen; ÄÖÜ, ß und ẞ.",
    "Dès Noël où un zéphyr haï me vêt de glaçons würmiens, je dîne d’exquis rôtis de bœuf.",
    "El pingüino Wenceslao hizo kilómetros; ¿qué vive allí? ¡Él, solo, año tras año!",
    "Příliš žluťoučký kůň úpěl ďábelské ódy. Łódź, Kraków.",
    "Pijamalı hasta yağız şoföre çabucak güvendi: İSTANBUL, IĞDIR, ığdır.",
    "Ξεσκεπάζω τὴν ψυχοφθόρα βδελυγμία. ΟΔΥΣΣΕΥΣ ΣΟΦΟΣ, Σ.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю. ЙОД, Ёж.",
    "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر، كِتَابٌ.",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה, בְּרֵאשִׁית",
    "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश किया।",
    "আমি কাঁচ খেতে পারি, তাতে আমার কোনো ক্ষতি হয় না।",
    "நான் கண்ணாடி சாப்பிடுவேன், அதனால் எனக்கு ஒரு கேடும் வராது.",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "我能吞下玻璃而不伤身体。漢字、𠀀𪚥與標點！",
    "いろはにほへと ちりぬるを。ガラスは食べられます、ﾊﾝｶｸ。",
    "나는 유리를 먹을 수 있어요. 그래도 아프지 않아요",
    "Tôi có thể ăn thủy tinh mà không hại gì. Đường Nguyễn Huệ",
    "👩‍👩‍👧‍👦 family, 🇫🇷 flag, 👍🏽 thumbs, ❤️ heart, 1️⃣ keycap, 🏴󠁧󠁢󠁥󠁮󠁧󠁿 tag",
    "soft\u00adhyphen zero\u200bwidth\ufeff nbsp\u00a0here line\u2028para\u2029 nel\x85 tab\tnew\r\nline \0nul \ufffd",
    "e\u0301 vs é, a\u0323\u0302\u0301b, \u0301leading, x\u0300\u0301\u0302\u0303 \u0344 A\u030a Å Å K ſ ﬁ ㎏ ½ ² ªº",
]


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


def compare(tokenizer, texts):
    """Holds ids and offsets to the reference."""
    setting = {
        "lowercase": tokenizer.lowercase,
        "strip_accents": tokenizer.strip_accents,
        "split_on_cjk": tokenizer.split_on_cjk,
        "max_chars": tokenizer.max_chars_per_word,
    }
    strips = tokenizer.lowercase if tokenizer.strip_accents is None else tokenizer.strip_accents
    vocabulary = {piece: index for index, piece in enumerate(tokenizer.vocabulary)}
    ids, starts, ends = tokenizer.tokenize_with_offsets(texts)
    assert tokenizer.tokenize(texts).to_list() == ids.to_list()
    for text, *got in zip(texts, ids.to_list(), starts.to_list(), ends.to_list(), strict=True):
        want = reference.tokenize(text, vocabulary, **setting)
        assert got[0] == [vocabulary[piece] for piece, _, _ in want], ascii(text)
        byte = [0]
        for char in text:
            byte.append(byte[-1] + len(char.encode()))
        assert got[1] == [byte[first] for _, first, _ in want], ascii(text)
        stops = [last + 1 for _, _, last in want]
        if strips:  # stripped accents belong to the letter before them
            stops = [_after_marks(text, stop) for stop in stops]
        assert got[2] == [byte[stop] for stop in stops], ascii(text)


def _after_marks(text, stop):
    while stop < len(text) and unicodedata.category(text[stop]) == "Mn":
        stop += 1
    return stop


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_character(known, setting):
    setting = SETTINGS[setting]
    strip = setting.get("strip_accents", setting.get("lowercase", True))
    pieces = {char for char, _ in reference.normalize(known, setting.get("lowercase", True), strip)}
    pieces = sorted(pieces.union("abcde") - set(" \t\n\r"))
    tokenizer = WordPieceTokenizer(SPECIAL + pieces + ["##" + piece for piece in pieces], **setting)
    # Inside, before, alone and after. Every fifth for the settings that no published model has: it takes a while.
    chars = known if setting in ({}, {"lowercase": False}) else known[::5]
    for i in range(0, len(chars), 20_000):
        compare(tokenizer, [f"a{c}b {c}c d {c} e{c}" for c in chars[i : i + 20_000]])


def test_no_character_hides_a_long_word(known):
    """Rows that skip the count of characters really have no long words."""
    chars = [char for char in known if char < "\u4e10"]
    pieces = sorted({char for char, _ in reference.normalize("a" + "".join(chars))} - set(" \t\n\r"))
    vocabulary = SPECIAL + pieces + ["##" + piece for piece in pieces]
    texts = [f"aaa{c}aaa" for c in chars]
    plain = BertNormalizer(lowercase=True, strip_accents=True, max_chars_per_word=3).plain_rows(tf.constant(texts))
    texts = [text for text, skips in zip(texts, plain.numpy(), strict=True) if skips]
    assert len(texts) > 100
    compare(WordPieceTokenizer(vocabulary, max_chars_per_word=3), texts)


@pytest.mark.parametrize("setting", SETTINGS)
def test_sentences_in_many_languages(vocabulary, setting):
    compare(WordPieceTokenizer(vocabulary, **SETTINGS[setting]), [*SENTENCES, "", " ", " ".join(SENTENCES)])


@pytest.mark.parametrize("name", ["uncased", "cased", "multi_cased", "chinese"])
def test_sentences_with_real_vocabularies(shared_data, name):
    path = shared_data / f"vocabs/bert_{name}_vocab.txt"
    compare(WordPieceTokenizer(path, lowercase=name in ("uncased", "chinese")), SENTENCES)


def test_a_real_book(shared_data, tokenizer):
    book = shared_data / "gutenberg/A-Tale-of-Two-Cities_98.txt"
    compare(tokenizer, book.read_text("utf-8").split("\n\n")[:1500])


# Characters with a rule of their own come up more often than chance would have it.
NASTY = "ΣσςİIıßẞÅÅKſﬁé\u0301\u0307\u0323\u0344\u200b\u200d\u00ad\ufeff\0\ufffd\x7f\x85\u2028\u00a0\u3000\u180e"
NASTY += "一〇々가각ﾊ豈𠀀😀🏽\ue000.,'’-_[]#$^`~中 \t\n\raAbB19"


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(data=st.data())
def test_arbitrary_unicode(tokenizer, known, data):
    allowed = frozenset(known)
    chars = st.sampled_from(NASTY) | st.sampled_from("abehinorstäéñ ") | st.characters().filter(allowed.__contains__)
    texts = data.draw(st.lists(st.text(chars, max_size=40), min_size=1, max_size=4))
    compare(tokenizer, texts)
    check_spans(tokenizer, texts)


def check_spans(tokenizer, texts):
    """What the offsets cut out of the text is, normalized, what the piece says."""
    ids, starts, ends = (ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts))
    for text, *spans in zip(texts, ids, starts, ends, strict=True):
        before = 0
        for piece_id, start, end in zip(*spans, strict=True):
            cut = text.encode()[start:end].decode()
            assert start >= before or unicodedata.decomposition(cut) or unicodedata.category(cut[0]) == "Lo"
            before = max(before, start)
            if piece_id != tokenizer.unk_token_id:
                piece = tokenizer.vocabulary[piece_id].removeprefix("##")
                normalized = "".join(char for char, _ in reference.normalize(cut))
                assert piece.replace("ς", "σ") in normalized.replace("ς", "σ"), ascii(text)


def test_spans_of_real_text(tokenizer):
    check_spans(tokenizer, SENTENCES)


@pytest.mark.slow
@pytest.mark.parametrize("locale", ["tr_TR.UTF-8", "lt_LT.UTF-8"])
def test_locale_does_not_matter(locale, tokenizer):
    """ICU's lower-casing follows the process's locale, in which a Turkish I becomes a dotless ı."""
    code = """
import sys
from keras_bert.text import WordPieceTokenizer
pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "i", "##\u0307", "##\u0300", "ì", "ĩ", "ı", "j", "į"]
for strip in (True, False):
    print(WordPieceTokenizer(pieces, strip_accents=strip).tokenize(["I İ Ì Ĩ Į i J ı", "é I"]).to_list())
"""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "LC_ALL": locale}
    result = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True, text=True)
    stripped, kept = result.stdout.splitlines()[-2:]
    assert stripped == "[[5, 5, 5, 5, 5, 5, 11, 10], [1, 5]]"
    assert kept == "[[5, 5, 6, 8, 9, 12, 5, 11, 10], [1, 5]]"
