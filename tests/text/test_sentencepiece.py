"""SentencePieceTokenizer: google/sentencepiece's ids, with what ALBERT and XLM-RoBERTa do around it; offsets; files."""

import json
import re
import unicodedata

import hypothesis
import keras
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from keras_bert.text import SentencePieceTokenizer

from .test_unicode import SENTENCES

ODD = [
    "",
    " ",
    "a  b",
    "in 2010, 1, x92000, 1,2,3, the",
    "a\x1cb\x85c\x0bd",
    "ÉÀ½ İ ÄΣ ΟΔΟΣ 3,\u00a0",
    "``a''",
    "½",
    "\u0301",
]
ODD += ["line \0nul\0", "\u0301 a\u0301", "İÌÍĨĮ", "[CLS]a[SEP] <s>", "\u200ba", "K ſ ㎏ 漢字"]


@pytest.fixture(scope="module")
def albert_model(shared_data):
    return shared_data / "vocabs/albert_spiece.model"


@pytest.fixture(scope="module")
def albert(albert_model):
    return SentencePieceTokenizer(albert_model)


@pytest.fixture(scope="module")
def small_model(tmp_path_factory):
    """A model with XLM-RoBERTa's own layout: <unk>, <s>, </s> first."""
    spm = pytest.importorskip("sentencepiece", reason="needs sentencepiece to train a small model")
    path = tmp_path_factory.mktemp("model") / "sentencepiece.bpe.model"
    options = {"unk_id": 0, "bos_id": 1, "eos_id": 2, "pad_id": -1, "minloglevel": 2, "character_coverage": 1.0}
    texts = iter([*SENTENCES, *(word for text in SENTENCES for word in text.split())] * 5)
    spm.SentencePieceTrainer.train(
        sentence_iterator=texts, model_prefix=str(path)[: -len(".model")], vocab_size=600, **options
    )
    return path


@pytest.fixture(scope="module")
def small(small_model):
    return SentencePieceTokenizer(small_model, family="xlm-roberta")


def prepared(text, lowercase=True, strip_accents=True):
    """What google-research/albert makes of a text before SentencePiece sees it."""
    if strip_accents:
        text = unicodedata.normalize("NFKD", " ".join(text.split()))
        text = "".join(char for char in text if not unicodedata.combining(char))
    return text.lower() if lowercase else text


def albert_pieces(model, text, **setting):
    """Pieces, those that end in a digit and a comma taken apart."""
    for piece in model.encode(prepared(text, **setting), out_type=str):
        if re.search(r"\d,$", piece):
            number = model.encode(piece[:-1].replace("▁", ""), out_type=str)
            if not piece.startswith("▁"):
                number[0] = number[0].removeprefix("▁")
            yield from [part for part in number if part]
            yield ","
        else:
            yield piece


def check_spans(tokenizer, texts):
    """Spans are in order and within the text, and the text of a piece is what its span says, where that is plain."""
    ids, starts, ends = (ragged.to_list() for ragged in tokenizer.tokenize_with_offsets(texts))
    assert tokenizer.tokenize(texts).to_list() == ids
    for text, *spans in zip(texts, ids, starts, ends, strict=True):
        before = 0
        for piece_id, start, end in zip(*spans, strict=True):
            assert before <= start <= end <= len(text.encode()), ascii(text)
            before = start
            cut = text.encode()[start:end].decode()  # and whole characters
            if text.isascii() and text.isprintable() and piece_id != tokenizer.unk_token_id:
                piece = tokenizer.vocabulary[piece_id].replace("▁", "")
                assert (cut.strip().lower() if tokenizer.lowercase else cut.strip()) == piece


SETTINGS = [{}, {"lowercase": False}, {"strip_accents": False}]


def test_ids_of_the_original(shared_data, albert_model):
    """The vectors were made with accents kept."""
    vectors = json.loads((shared_data / "verified_vectors.json").read_text("utf-8"))["albert_spiece.model"]
    tokenizer = SentencePieceTokenizer(albert_model, strip_accents=False)
    for text, ids in vectors.items():
        assert tokenizer.tokenize(text).numpy().tolist() == ids


@pytest.mark.parametrize("setting", SETTINGS)
def test_albert_is_sentencepiece_after_preparation(shared_data, albert_model, setting):
    spm = pytest.importorskip("sentencepiece", reason="needs sentencepiece, the reference")
    model = spm.SentencePieceProcessor(model_file=str(albert_model))
    book = (shared_data / "gutenberg/A-Tale-of-Two-Cities_98.txt").read_text("utf-8").split("\n\n")[:500]
    texts = [*SENTENCES, *ODD, *book]
    tokenizer = SentencePieceTokenizer(albert_model, **setting)
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        assert ids == [model.piece_to_id(piece) for piece in albert_pieces(model, text, **setting)], ascii(text)
    check_spans(tokenizer, texts)


def is_known(char):
    """Whether both Python's and TensorFlow's version of Unicode have the character."""
    in_python = unicodedata.category(char) not in ("Cs", "Cn")
    return in_python and (tf.strings.unicode_script(ord(char)) != 103 or unicodedata.category(char) == "Co")


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.lists(st.text(st.sampled_from("abe 12,É½\u0301\0\u200b`.漢") | st.characters()), max_size=4))
def test_arbitrary_unicode(albert, texts):
    """Normalization and spans; where two segmentations are equally likely, versions of SentencePiece differ."""
    texts = ["".join(filter(is_known, text)) for text in texts]
    normalized = albert._normalizer(tf.constant(texts, tf.string)).numpy()
    for text, got in zip(texts, normalized, strict=True):
        # SentencePiece makes one space of several, and the stand-in for U+0000 is as unknown as it.
        got = " ".join(got.decode().replace("\ue000", "\0").split())
        assert got == " ".join(prepared(text.replace("\ue000", "\0")).split()), ascii(text)
    check_spans(albert, texts)


def test_offsets_of_expanded_and_stripped_characters(albert):
    text = "Crème  Brûlée ﬁx 2010, e\u0301x"
    _, starts, ends = albert.tokenize_with_offsets(text)
    cut = [text.encode()[a:b].decode() for a, b in zip(starts, ends, strict=True)]
    assert cut == ["Crè", "me", "Brû", "lée", "ﬁx", "2010", ",", "e\u0301x"]


def test_layout_of_xlm_roberta(small, small_model):
    spm = pytest.importorskip("sentencepiece")
    model = spm.SentencePieceProcessor(model_file=str(small_model))
    assert small.vocabulary[:4] == ["<s>", "<pad>", "</s>", "<unk>"]
    assert small.vocabulary[-1] == "<mask>"
    assert small.vocabulary_size == model.vocab_size() + 2
    names = ("cls", "pad", "sep", "unk", "mask")
    assert [getattr(small, f"{name}_token_id") for name in names] == [0, 1, 2, 3, small.vocabulary_size - 1]
    texts = [*SENTENCES, *ODD, "\U0001f98a unknown"]
    for text, ids in zip(texts, small.tokenize(texts).to_list(), strict=True):
        assert ids == [3 if i == 0 else i + 1 for i in model.encode(text)], ascii(text)
    check_spans(small, texts)


def test_special_tokens_in_text(albert, albert_model):
    aware = SentencePieceTokenizer(albert_model, special_tokens_in_text=True)
    text = "Paris is  [MASK] of France.[SEP]"
    ids, starts, ends = aware.tokenize_with_offsets([text, ""])
    parts = [albert.tokenize(part).numpy().tolist() for part in ("Paris is", "of France.")]
    assert ids.to_list() == [[*parts[0], 4, *parts[1], 3], []]
    cut = [text[a:b] for i, a, b in zip(ids[0], starts[0], ends[0], strict=True) if i in (3, 4)]
    assert cut == ["[MASK]", "[SEP]"]
    assert 4 not in albert.tokenize(text).numpy()


def test_a_nul_beside_a_special_token(albert, albert_model):
    aware = SentencePieceTokenizer(albert_model, special_tokens_in_text=True)
    text = "line \0nul\0[MASK]b"
    ids, starts, ends = (each.numpy().tolist() for each in aware.tokenize_with_offsets(text))
    assert ids == [*albert.tokenize("line \0nul\0").numpy(), 4, *albert.tokenize("b").numpy()]
    assert (starts[-2:], ends[-2:]) == ([10, 16], [16, 17])


def test_detokenize(albert, small):
    assert albert.detokenize(albert.tokenize(["This is a  Test, naïve", ""])).numpy().tolist() == [
        b"this is a test, naive",
        b"",
    ]
    text = "Съешь же ещё этих мягких французских булок"
    assert small.detokenize(small.tokenize(text)).numpy().decode() == text
    assert small.detokenize([0, *small.tokenize(text).numpy(), 2, 1]).numpy().decode() == text


def test_words(albert):
    (words,) = albert.group_by_word(albert.tokenize(["unaffable you, ok", ""]))
    assert [[len(word) > 1 for word in row] for row in words.to_list()] == [[True, True, False], []]


@pytest.mark.parametrize("text", [b"\xff", b"caf\xe9", b"\xed\xa0\x80"])
def test_what_is_not_utf8(albert, text):
    with pytest.raises(ValueError, match="not valid UTF-8 .*: the text in row 1"):
        albert.tokenize(["a", text])
    with pytest.raises(tf.errors.InvalidArgumentError, match="not valid UTF-8"):
        tf.function(albert.tokenize)(tf.constant([text]))


@pytest.mark.parametrize("text", ["hello wörld " * 800_000, "x" * 100_000, "漢" * 100_000], ids=["words", "x", "漢"])
def test_long_texts(albert, text):
    _, starts, ends = albert.tokenize_with_offsets(text)
    assert (starts[0], ends[-1]) == (0, len(text.rstrip().encode()))


def test_config_round_trip(albert_model):
    tokenizer = SentencePieceTokenizer(albert_model, lowercase=False, special_tokens_in_text=True)
    config = keras.saving.serialize_keras_object(tokenizer)
    again = keras.saving.deserialize_keras_object(json.loads(json.dumps(config)))
    assert again.get_config() == tokenizer.get_config()
    assert again.tokenize(SENTENCES).to_list() == tokenizer.tokenize(SENTENCES).to_list()


def test_preset_round_trip(albert_model, small, tmp_path):
    tokenizer = SentencePieceTokenizer(albert_model, lowercase=False, strip_accents=False)
    tokenizer.save_preset(tmp_path / "albert")
    assert SentencePieceTokenizer.from_preset(tmp_path / "albert").get_config() == tokenizer.get_config()
    assert (tmp_path / "albert/spiece.model").read_bytes() == albert_model.read_bytes()
    small.save_preset(tmp_path / "small")
    assert SentencePieceTokenizer.from_preset(tmp_path / "small").get_config() == small.get_config()
    with pytest.raises(FileExistsError, match=r"already has sentencepiece\.bpe\.model"):
        small.save_preset(tmp_path / "small")
    (tmp_path / "small/tokenizer_config.json").write_text('{"tokenizer_class": "T5TokenizerFast"}')
    with pytest.raises(ValueError, match="asks for T5Tokenizer; supported with SentencePiece: AlbertTokenizer, XLMR"):
        SentencePieceTokenizer.from_preset(tmp_path / "small")


def test_bad_models(albert_model, tmp_path):
    with pytest.raises(FileNotFoundError, match="no SentencePiece model at"):
        SentencePieceTokenizer(tmp_path / "none.model")
    for content, message in ((b"", "is empty"), (b"\xff" * 50, "is not a SentencePiece model")):
        (tmp_path / "bad.model").write_bytes(content)
        with pytest.raises(ValueError, match=message):
            SentencePieceTokenizer(tmp_path / "bad.model")
    with pytest.raises(ValueError, match="is not a SentencePiece model"):
        SentencePieceTokenizer(albert_model.read_bytes()[:5000])
    with pytest.raises(ValueError, match="family is 't5'; expected one of albert, albert-transformers, xlm-r"):
        SentencePieceTokenizer(albert_model, family="t5")


def test_a_model_of_another_family(small_model):
    with pytest.raises(ValueError, match=r"has no \[CLS\]|has no <pad>|has no \[SEP\]"):
        SentencePieceTokenizer(small_model, family="albert")


# What transformers does otherwise: it drops U+0085, splits at U+001C to U+001F and U+000B as SentencePiece, not Python,
# does, strips every kind of mark, makes " of two ', and normalizes letters with marks by the cluster.
DIFFERENT = re.compile("[\x0b\x1c-\x1f\x85\u200b]|\u0301b|\u20e3|``|\\'\\'|[\u0900-\u0dff\u0e00-\u0e7f]")


@pytest.mark.parity
@pytest.mark.parametrize("family", ["albert", "xlm-roberta"])
def test_same_as_hugging_face(shared_data, family, request, tmp_path):
    """What we save, read by transformers."""
    transformers = pytest.importorskip("transformers")
    ours = request.getfixturevalue("albert" if family == "albert" else "small")
    ours.save_preset(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    book = (shared_data / "gutenberg/A-Tale-of-Two-Cities_98.txt").read_text("utf-8").split("\n\n")[:1500]
    texts = [text for text in [*SENTENCES, *ODD, *book] if not DIFFERENT.search(text)]
    texts = [text for text in texts if not any(token in text for token in ours.special_tokens.values())]
    assert len(texts) > 1300
    ids = ours.tokenize(texts).to_list()
    differ = [
        (text, row)
        for text, row in zip(texts, ids, strict=True)
        if theirs(text, add_special_tokens=False)["input_ids"] != row
    ]
    assert differ == []
