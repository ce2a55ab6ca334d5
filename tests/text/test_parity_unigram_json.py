"""A `tokenizer.json` of type Unigram, as transformers 5 writes it, against transformers itself."""

import hypothesis
import pytest
from hypothesis import strategies as st

from keras_bert.text import load_tokenizer

from ..support.tokenization import UNIGRAM_TEXTS, UNLIKE, is_known


def saved_by_transformers(model, family, path, **settings):
    transformers = pytest.importorskip("transformers")
    names = {"xlm-roberta": "XLMRobertaTokenizer", "camembert": "CamembertTokenizer"}
    kind = getattr(transformers, names.get(family, "AlbertTokenizer"))
    kind.from_pretrained(model.parent, **settings).save_pretrained(path)
    assert sorted(file.name for file in path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    return transformers.AutoTokenizer.from_pretrained(path)


def differences(path, theirs, texts):
    ours = load_tokenizer(path)
    rows = zip(texts, ours.tokenize(texts).to_list(), theirs(texts, add_special_tokens=False)["input_ids"], strict=True)
    return [(text, row) for text, row, want in rows if row != want]


@pytest.fixture(scope="module")
def published(shared_data, tmp_path_factory):
    """The published ALBERT's model, in a directory of its own."""
    path = tmp_path_factory.mktemp("published") / "spiece.model"
    path.write_bytes((shared_data / "vocabs/albert_spiece.model").read_bytes())
    return path


SETTINGS = [{}, {"do_lower_case": False}, {"keep_accents": True}, {"do_lower_case": False, "keep_accents": True}]
CASES = [("xlm_model", "xlm-roberta", {}), ("xlm_model", "camembert", {})]
CASES += [("published", "albert-transformers", setting) for setting in SETTINGS]


@pytest.mark.parity
@pytest.mark.parametrize(("model", "family", "setting"), CASES)
def test_same_as_transformers(model, family, setting, request, shared_data, tmp_path):
    theirs = saved_by_transformers(request.getfixturevalue(model), family, tmp_path / "theirs", **setting)
    book = (shared_data / "gutenberg/A-Tale-of-Two-Cities_98.txt").read_text("utf-8").split("\n\n")[:800]
    accents = model == "xlm_model" or setting.get("keep_accents")
    texts = [text for text in [*UNIGRAM_TEXTS, *book] if not (accents and UNLIKE.search(text)) and "[CLS]" not in text]
    assert len(texts) > 800
    assert differences(tmp_path / "theirs", theirs, texts) == []
    # What they save again, and what we save of it, is the same.
    theirs.save_pretrained(tmp_path / "again")
    load_tokenizer(tmp_path / "again").save_preset(tmp_path / "ours")
    transformers = pytest.importorskip("transformers")
    ours = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert ours(texts)["input_ids"] == theirs(texts)["input_ids"]


@pytest.fixture(scope="module")
def of_transformers(published, tmp_path_factory):
    path = tmp_path_factory.mktemp("theirs") / "albert"
    theirs = saved_by_transformers(published, "albert-transformers", path)
    return load_tokenizer(path), theirs


@pytest.mark.parity
@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(st.lists(st.text(st.sampled_from("abt 12,.-('`\"É½\u0301\0\u200b漢Σ") | st.characters()), max_size=4))
def test_arbitrary_unicode(of_transformers, texts):
    ours, theirs = of_transformers
    texts = ["".join(char for char in text if is_known(char) and char not in "▁\1") for text in texts]
    ids = ours.tokenize([*texts, ""]).to_list()
    for text, row in zip(texts, ids, strict=False):
        if "<" in text:  # the name of a special token in capitals is that token there, once it is lower-cased
            continue
        assert row == theirs(text, add_special_tokens=False)["input_ids"], ascii(text)
