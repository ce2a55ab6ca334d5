"""SentencePieceTokenizer: google/sentencepiece's ids, with what each family does around it; offsets; files."""

import json
import re

import hypothesis
import pytest
import tensorflow as tf
from hypothesis import strategies as st

from keras_bert.formats.tokenizers.unigram import json_for_texts, json_of_model
from keras_bert.runtimes import export_onnx
from keras_bert.text import BertPreprocessor, SentencePieceTokenizer, load_tokenizer
from keras_bert.text.arrays.preprocessor import ArrayPreprocessor

from ..support import small
from ..support.messages import error_names, warning_names
from ..support.texts import SENTENCES
from ..support.tokenization import (
    NASTY,
    ODD_PIECES,
    albert_pieces,
    check_sentencepiece_spans,
    is_known,
    prepared,
    random_texts,
    train_sentencepiece,
)

SETTINGS = [{}, {"lowercase": False}, {"strip_accents": False}]
# Characters that are normalized, or that end words, beside some that are not.
MANY = "abe 12,É½\u0301\0\u200b`.漢"


def compare(path, setting, texts):
    """Holds ids to google/sentencepiece's, after ALBERT's preparation."""
    library = pytest.importorskip("sentencepiece", reason="needs sentencepiece, the reference")
    model = library.SentencePieceProcessor(model_file=str(path))
    tokenizer = SentencePieceTokenizer(path, **setting)
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        assert ids == [model.piece_to_id(piece) for piece in albert_pieces(model, text, **setting)], ascii(text)
    check_sentencepiece_spans(tokenizer, texts)


@pytest.mark.parametrize("setting", SETTINGS)
def test_albert_is_sentencepiece_after_preparation(albert_model, setting, untraced):
    compare(albert_model, setting, [*SENTENCES, *ODD_PIECES])


def test_commas_behind_digits(albert, albert_model, untraced):
    """A number and its comma are pieces of their own, also where the model has them as one."""
    texts = ["in 2010, it", "1, 2, 12,", "x7, y77, x2010,", "1,2,3", "a,"]
    for row in albert.tokenize(texts).to_list():
        assert not any(re.search(r"\d,$", albert.vocabulary[i]) for i in row)
    assert {"▁2010,", "7,"} < {*albert.vocabulary}
    compare(albert_model, {}, texts)


def check_normalization(tokenizer, texts):
    normalized = tokenizer._normalizer(tf.constant(texts, tf.string))[0].numpy()
    for text, got in zip(texts, normalized, strict=True):
        # SentencePiece makes one space of several, and the stand-in for U+0000 is as unknown as it.
        got = " ".join(got.decode().replace("\ue000", "\0").split())
        assert got == " ".join(prepared(text.replace("\ue000", "\0")).split()), ascii(text)


def test_normalization_and_spans(albert):
    texts = [
        *SENTENCES,
        *ODD_PIECES,
        *random_texts(MANY + NASTY, 80),
        *(f"a{chr(c)}b" for c in [*range(1, 0x250), *range(0x2010, 0x2070)]),
    ]
    check_normalization(albert, texts)
    check_sentencepiece_spans(albert, texts)


def test_spans_begin_after_all_white_space(albert):
    spaces = [" ", "  ", "\t\n \r", "\x85", "\xa0 ", "\u1680", "\u2003\u200b", " \u200f", "\u2028"]
    texts = [f"ab{space}ab" for space in [*spaces, "\u3000 \ufeff", "é ’ "]]
    ids, starts, ends = (each.to_list() for each in albert.tokenize_with_offsets(texts))
    for text, row_ids, row_starts, row_ends in zip(texts, ids, starts, ends, strict=True):
        last_word = max(i for i, token in enumerate(row_ids) if albert.begins_word[token])
        assert text.encode()[row_starts[last_word] : row_ends[-1]] == b"ab", ascii(text)


def test_spans_of_a_row_do_not_depend_on_other_rows(albert):
    texts = ["ab’ ab", "A", "\n\tqab", "\n\t½", "é\u0301  Ab", ""]
    together = zip(*(each.to_list() for each in albert.tokenize_with_offsets(texts)), strict=True)
    for text, spans in zip(texts, together, strict=True):
        assert spans == tuple(each.numpy().tolist() for each in albert.tokenize_with_offsets(text)), ascii(text)


def test_offsets_of_expanded_and_stripped_characters(albert):
    text = "Crème  Brûlée ﬁx 2010, e\u0301x"
    ids, starts, ends = (each.numpy().tolist() for each in albert.tokenize_with_offsets(text))
    begins = albert.begins_word.numpy()
    words = [i for i, id_ in enumerate(ids) if begins[id_]]
    firsts, lasts = [starts[i] for i in words], [ends[i - 1] for i in (*words[1:], len(ids))]
    cut = [text.encode()[first:last].decode() for first, last in zip(firsts, lasts, strict=True)]
    assert [each.strip() for each in cut] == ["Crème", "Brûlée", "ﬁx", "2010,", "e\u0301x"]


@pytest.mark.parametrize(
    ("family", "shift", "special", "further"),
    [("xlm_roberta", 1, [0, 1, 2, 3], []), ("camembert", 4, [5, 1, 6, 3], [0, 2, 4])],
)
def test_layouts_of_fairseq(family, shift, special, further, xlm_model, request, untraced):
    """Ids are larger than the model's; `almanach/camembert-base` has 32,000 pieces and 32,005 ids."""
    tokenizer = request.getfixturevalue(family)
    spm = pytest.importorskip("sentencepiece")
    model = spm.SentencePieceProcessor(model_file=str(xlm_model))
    assert tokenizer.vocabulary_size == model.vocab_size() + shift + 1
    ids = [getattr(tokenizer, f"{name}_token_id") for name in ("cls", "pad", "sep", "unk", "mask")]
    assert ids == [*special, tokenizer.vocabulary_size - 1]
    assert tokenizer.special_ids == {*ids, *further}
    assert [tokenizer.vocabulary[i] for i in ids] == ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    texts = [*SENTENCES, *ODD_PIECES, "\U0001f98a unknown"]
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        assert ids == [3 if i == 0 else i + shift for i in model.encode(text)], ascii(text)
    check_sentencepiece_spans(tokenizer, texts)


def test_special_tokens_in_text(albert, albert_model, untraced):
    aware = SentencePieceTokenizer(albert_model, special_tokens_in_text=True)
    text = "Paris is  [MASK] of France.[SEP]"
    ids, starts, ends = aware.tokenize_with_offsets([text, ""])
    parts = [albert.tokenize(part).numpy().tolist() for part in ("Paris is", "of France.")]
    assert ids.to_list() == [[*parts[0], 4, *parts[1], 3], []]
    cut = [text[a:b] for i, a, b in zip(ids[0], starts[0], ends[0], strict=True) if i in (3, 4)]
    assert cut == ["[MASK]", "[SEP]"]
    assert 4 not in albert.tokenize(text).numpy()
    text = "line \0nul\0[MASK]a"
    ids, starts, ends = (each.numpy().tolist() for each in aware.tokenize_with_offsets(text))
    assert ids == [*albert.tokenize("line \0nul\0").numpy(), 4, *albert.tokenize("a").numpy()]
    assert (starts[-2:], ends[-2:]) == ([10, 16], [16, 17])


def test_detokenize(albert, xlm_roberta):
    ids = albert.tokenize(["Dès  Noël, dogs jump", ""])
    assert albert.detokenize(ids).numpy().tolist() == [b"des noel, dogs jump", b""]
    text = "Съешь же ещё этих мягких французских булок"
    ids = xlm_roberta.tokenize(text).numpy()
    assert xlm_roberta.detokenize([0, *ids, 2, 1]).numpy().decode() == text


def test_words(albert):
    (words,) = albert.group_by_word(albert.tokenize(["quickjumps overzz quick", ""]))
    assert [[len(word) > 1 for word in row] for row in words.to_list()] == [[True, True, False], []]


@pytest.mark.parametrize("text", ["wörld " * 2000, "x" * 3000, "漢" * 3000], ids=["words", "x", "漢"])
def test_long_texts(albert, text):
    _, starts, ends = albert.tokenize_with_offsets(text)
    assert (starts[0], ends[-1]) == (0, len(text.rstrip().encode()))


# -- Files


def test_config_json_distinguishes_models_of_one_name(camembert, xlm_roberta, xlm_model, tmp_path):
    """`sentencepiece.bpe.model` is XLM-RoBERTa's or CamemBERT's; not all files name the tokenizer's class."""
    (tmp_path / "sentencepiece.bpe.model").write_bytes(xlm_model.read_bytes())
    assert load_tokenizer(tmp_path).get_config() == xlm_roberta.get_config()
    for family, tokenizer in {"camembert": camembert, "xlm-roberta": xlm_roberta}.items():
        (tmp_path / "config.json").write_text(json.dumps({"model_type": family}))
        assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "CamembertTokenizer"}')
    assert load_tokenizer(tmp_path).get_config() == camembert.get_config()


def test_preset_round_trip(albert_model, xlm_roberta, camembert, tmp_path):
    tokenizer = SentencePieceTokenizer(albert_model, lowercase=False, strip_accents=False)
    for name, each in {"albert": tokenizer, "xlm": xlm_roberta, "camembert": camembert}.items():
        each.save_preset(tmp_path / name)
        assert SentencePieceTokenizer.from_preset(tmp_path / name).get_config() == each.get_config()
    assert (tmp_path / "albert/spiece.model").read_bytes() == albert_model.read_bytes()
    with error_names(FileExistsError, "sentencepiece.bpe.model", "overwrite"):
        xlm_roberta.save_preset(tmp_path / "xlm")
    (tmp_path / "xlm/tokenizer_config.json").write_text('{"tokenizer_class": "T5TokenizerFast"}')
    with error_names(ValueError, "tokenizer_config.json", "T5Tokenizer", "AlbertTokenizer"):
        SentencePieceTokenizer.from_preset(tmp_path / "xlm")


# -- SentencePiece's own options, in `tokenizer.json`

NO_PREFIX, KEPT = {"add_dummy_prefix": False}, {"remove_extra_whitespaces": False}
SUFFIX, IDENTITY = {"treat_whitespace_as_suffix": True}, {"normalization_rule_name": "identity"}
SYMBOLS = {"user_defined_symbols": "<br>,[E1]"}
OPTIONS = {
    "usual": {},
    "no prefix": NO_PREFIX,
    "kept white space": KEPT,
    "suffix": SUFFIX,
    "suffix, kept white space": SUFFIX | KEPT,
    "identity": IDENTITY,
    "identity, kept white space, no prefix": IDENTITY | KEPT | NO_PREFIX,
    "nfkc": {"normalization_rule_name": "nfkc"},
    "folded": {"normalization_rule_name": "nmt_nfkc_cf"},
    "tokens that span words": {"split_by_whitespace": False},
    "tokens of spaces": {"allow_whitespace_only_pieces": True} | KEPT,
    "bytes": {"byte_fallback": True, "vocab_size": 850},
    "control symbols": {"control_symbols": "<lang>"},
    "user-defined symbols": SYMBOLS,
    "bpe": {"model_type": "bpe"},
    "bpe, bytes, no prefix": {"model_type": "bpe", "byte_fallback": True, "vocab_size": 850} | NO_PREFIX,
    "bpe, identity, suffix": {"model_type": "bpe"} | IDENTITY | SUFFIX,
    "bpe, tokens that span words": {"model_type": "bpe", "split_by_whitespace": False},
    "char": {"model_type": "char"},
    "char, kept white space": {"model_type": "char"} | KEPT,
}
REFUSED = {
    "word": ({"model_type": "word"}, "word"),
    "bpe, user-defined symbols": ({"model_type": "bpe"} | SYMBOLS, "user-defined symbols"),
}
OPTION_TEXTS = ["the slow river", " a  new   window ", "old\tnames\nof x", "", " ", "  ", "a<br>b [E1]c"]
OPTION_TEXTS += ["aaaaaaa baabaab", *random_texts("abdehilnorst  .,A1<½漢\t\u3000é", 60)]
# Text that spells tokens: a whole `tokenizer.json` finds them in it, and a SentencePiece model and our own code do not.
SPELLED = ["<s>a</s>", "<unk> <pad><mask>", "<lang> x", "<0x41>", "▁a ▁", "a\x85 b"]


def trained(**options):
    """A model with these options of the trainer."""
    sentences = [*SENTENCES, *(f"a{i} the river <br> [E1] aaaa abab ½ é 漢" for i in range(9))]
    return train_sentencepiece(sentences, hard_vocab_limit=False, **options)


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_tokenizer_json_says_what_the_model_says(options):
    """The reference is google/sentencepiece."""
    library = pytest.importorskip("sentencepiece")
    read = pytest.importorskip("tokenizers").Tokenizer.from_str
    model = trained(**options)
    theirs = library.SentencePieceProcessor(model_proto=model)
    whole = json_of_model(model, "xlm-roberta", lowercase=False, strip_accents=False)
    text_only, vocabulary, _, others = json_for_texts({"model_file": model, "family": "xlm-roberta"}, False)
    assert vocabulary[1] in others
    for content, texts in ((whole, OPTION_TEXTS), (text_only, OPTION_TEXTS + SPELLED)):
        found = read(json.dumps(content)).encode_batch(texts, add_special_tokens=False)
        expected = [[3 if i == 0 else i + 1 for i in row] for row in theirs.encode(texts)]
        rows = zip(texts, [each.ids for each in found], expected, strict=True)
        assert [(text, row, want) for text, row, want in rows if row != want] == []


@pytest.mark.parametrize(("options", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_no_tokenizer_json_can_say_is_said(options, reason, tmp_path):
    model = trained(**options)
    tokenizer = SentencePieceTokenizer(model, family="camembert")
    with warning_names(reason, "no tokenizer.json", "transformers"):
        tokenizer.save_preset(tmp_path)
    assert not (tmp_path / "tokenizer.json").exists()
    assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()
    small.write_preset(tmp_path)
    (tmp_path / "vocab.txt").unlink()
    with error_names(ValueError, reason, "no tokenizer.json"):
        ArrayPreprocessor.from_preset(tmp_path)
    with error_names(ValueError, reason, "no tokenizer.json"):
        export_onnx(small.encoder(num_layers=1), tmp_path / "out", preprocessor=BertPreprocessor(tokenizer))
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [IDENTITY | SUFFIX, {"model_type": "bpe"}], ids=["identity, suffix", "bpe"])
@pytest.mark.parity
def test_transformers_reads_the_options_that_we_save(options, tmp_path, auto_tokenizer):
    ours = SentencePieceTokenizer(trained(**options), family="camembert")
    ours.save_preset(tmp_path)
    assert load_tokenizer(tmp_path).get_config() == ours.get_config()
    theirs = auto_tokenizer(tmp_path)
    assert theirs(OPTION_TEXTS, add_special_tokens=False)["input_ids"] == ours.tokenize(OPTION_TEXTS).to_list()


# -- The published model, real books, anything at all


@pytest.fixture(scope="module")
def published_model(shared_data):
    return shared_data / "vocabs/albert_spiece.model"


@pytest.fixture(scope="module")
def published(published_model):
    return SentencePieceTokenizer(published_model)


def test_ids_of_the_original(shared_data, published_model, untraced):
    """The vectors were made with accents kept."""
    vectors = json.loads((shared_data / "verified_vectors.json").read_text("utf-8"))["albert_spiece.model"]
    tokenizer = SentencePieceTokenizer(published_model, strip_accents=False)
    assert tokenizer.tokenize([*vectors]).to_list() == [*vectors.values()]


@pytest.mark.slow
def test_a_real_book(shared_data, published_model):
    book = (shared_data / "gutenberg/A-Tale-of-Two-Cities_98.txt").read_text("utf-8").split("\n\n")[:500]
    compare(published_model, {}, [*SENTENCES, *ODD_PIECES, *book])


@pytest.mark.slow
@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.lists(st.text(st.sampled_from(MANY) | st.characters()), max_size=4))
def test_arbitrary_unicode(published, texts):
    """Normalization and spans; where two segmentations are equally likely, versions of SentencePiece differ."""
    texts = ["".join(filter(is_known, text)) for text in texts]
    check_normalization(published, texts)
    check_sentencepiece_spans(published, texts)


@pytest.mark.slow
def test_a_megabyte(published):
    _, starts, ends = published.tokenize_with_offsets("hello wörld " * 80_000)
    assert (starts[0], ends[-1]) == (0, 13 * 80_000 - 1)
