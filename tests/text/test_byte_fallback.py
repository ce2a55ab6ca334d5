"""SentencePiece as in DeBERTa: characters that the model does not have become the tokens of their bytes."""

import json
import math

import pytest

from keras_bert.formats.tokenizers.sentencepiece_model import CONTROL, NORMAL, UNKNOWN, unigram_model
from keras_bert.text import SentencePieceTokenizer, load_tokenizer

from ..support import tokenization
from ..support.messages import error_names
from ..support.tokenization import NASTY, UNIGRAM_TEXTS, check_sentencepiece_spans, random_texts

TEXTS = [text for text in [*UNIGRAM_TEXTS, *random_texts(NASTY + "𓀀▁ж", 80, 30)] if "\0" not in text]
PROBE = "Hello, world!  It's 2026: naïve café 日本語 \n\n    indented"
IDS = [5365, 261, 447, 300, 325, 280, 268, 39119, 294, 34972, 15924, 507, 100868, 89387, 83248]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("deberta") / "spm.model"
    path.write_bytes(tokenization.train_deberta())
    return path


@pytest.fixture(scope="module")
def tokenizer(model):
    return load_tokenizer(model.parent)


@pytest.fixture
def theirs(model):
    library = pytest.importorskip("sentencepiece")
    return library.SentencePieceProcessor(model_proto=model.read_bytes())


def test_same_as_sentencepiece(tokenizer, theirs):
    ids = tokenizer.tokenize(TEXTS).to_list()
    assert ids == theirs.encode(TEXTS)
    tokens = {tokenizer.vocabulary[i] for row in ids for i in row}
    assert "<0xF0>" in tokens
    assert "[UNK]" not in tokens
    got = [text.decode() for text in tokenizer.detokenize(ids).numpy()]
    assert got == theirs.decode(ids)
    assert (tokenizer.mask_token_id, tokenizer.vocabulary_size) == (850, 851)


def test_of_equal_scores_either_may_be_taken_and_no_other():
    """Versions of the library decide ties in two ways, see `SentencePieceTokenizer`: so their scores are compared."""
    library = pytest.importorskip("sentencepiece")
    names = ("[PAD]", "[CLS]", "[SEP]")
    pieces = [(name, 0.0, CONTROL) for name in names] + [("[UNK]", 0.0, UNKNOWN), ("▁", -2.0, NORMAL)]
    pieces += [("3" * length, score, NORMAL) for length, score in ((1, -7.971008), (2, -11.7), (4, -14.874309))]
    model = unigram_model(pieces, b"")
    theirs = library.SentencePieceProcessor(model_proto=model)
    texts = ["3" * length for length in range(1, 60)]

    def scores(rows):
        return [math.fsum(map(theirs.get_score, row)) for row in rows]

    ours = SentencePieceTokenizer(model, family="deberta-v2").tokenize(texts).to_list()
    assert scores(ours) == pytest.approx(scores(theirs.encode(texts)), rel=1e-6)


def test_offsets(tokenizer):
    check_sentencepiece_spans(tokenizer, TEXTS)
    text = "a 𓀀b"
    ids, starts, ends = (each.numpy() for each in tokenizer.tokenize_with_offsets(text))
    cut = {tokenizer.vocabulary[i]: text.encode()[a:b].decode() for i, a, b in zip(ids, starts, ends, strict=True)}
    assert (cut["<0xF0>"], cut["<0x80>"]) == ("", "𓀀")  # the last of a character's tokens has its span


def test_saved_and_read(model, tokenizer, tmp_path, untraced):
    tokenizer.save_preset(tmp_path)
    assert (tmp_path / "spm.model").read_bytes() == model.read_bytes()
    again = load_tokenizer(tmp_path)
    assert again.get_config() == tokenizer.get_config()
    assert SentencePieceTokenizer.from_config(again.get_config()).tokenize("a 𓀀").numpy().tolist() == (
        tokenizer.tokenize("a 𓀀").numpy().tolist()
    )


@pytest.mark.parametrize("key", ["do_lower_case", "split_by_punct"])
def test_other_settings_are_refused(model, key, tmp_path):
    (tmp_path / "spm.model").write_bytes(model.read_bytes())
    config = {"tokenizer_class": "DebertaV2Tokenizer", "split_by_punct": False, key: True}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with error_names(ValueError, tmp_path / "tokenizer_config.json", key, True, False):
        load_tokenizer(tmp_path)


@pytest.mark.parity
def test_the_published_model(shared_data):
    library = pytest.importorskip("sentencepiece")
    path = shared_data / "modern/deberta-v3-base"
    ours, theirs = load_tokenizer(path), library.SentencePieceProcessor(str(path / "spm.model"))
    assert ours.tokenize(PROBE).numpy().tolist() == IDS
    assert (ours.cls_token_id, ours.sep_token_id, ours.unk_token_id, ours.mask_token_id) == (1, 2, 3, 128000)
    texts = [*TEXTS, *(shared_data / "gutenberg/Emma_158.txt").read_text("utf-8").split("\n")]
    assert ours.tokenize(texts).to_list() == theirs.encode(texts)
