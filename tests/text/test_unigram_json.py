"""A `tokenizer.json` of type Unigram alone, as transformers 5 saves ALBERT's and XLM-RoBERTa's tokenizers."""

import json
import re

import pytest

from keras_bert.formats.tokenizers.sentencepiece_model import read_model
from keras_bert.formats.tokenizers.unigram import json_of_model
from keras_bert.text import SentencePieceTokenizer, load_tokenizer

from ..support.messages import error_names
from ..support.tokenization import ALBERT_SYMBOLS, UNIGRAM_TEXTS, UNLIKE

SETTINGS = [{}, {"lowercase": False}, {"strip_accents": False}]


def save_json(path, model, family="albert-transformers", lowercase=True, strip_accents=True):
    path.mkdir(parents=True, exist_ok=True)
    content = json_of_model(model.read_bytes(), family, lowercase, strip_accents)
    (path / "tokenizer.json").write_text(json.dumps(content))
    return content


@pytest.mark.parametrize("family", ["xlm-roberta", "camembert"])
def test_models_of_fairseq_are_those_they_were_made_of(family, xlm_model, tmp_path, untraced):
    save_json(tmp_path, xlm_model, family, False, False)
    rebuilt = load_tokenizer(tmp_path)
    original = SentencePieceTokenizer(xlm_model, family)
    assert (rebuilt.family, rebuilt.vocabulary) == (family, original.vocabulary)
    found, expected = (each.tokenize_with_offsets(UNIGRAM_TEXTS) for each in (rebuilt, original))
    assert [each.to_list() for each in found] == [each.to_list() for each in expected]
    found, expected = read_model(rebuilt.model), read_model(original.model)
    assert found.normalizer_spec.precompiled_charsmap == expected.normalizer_spec.precompiled_charsmap
    found, expected = ([(each.piece, each.score, each.type) for each in model.pieces] for model in (found, expected))
    assert found == expected


def test_the_first_tokens_of_camembert_have_the_scores_that_transformers_gives_them(xlm_model, tmp_path):
    """`CamembertConverter.vocab` there: one is hidden."""
    vocabulary = save_json(tmp_path, xlm_model, "camembert", False, False)["model"]["vocab"]
    scores = {"<s>NOTUSED": 0, "<pad>": 0, "</s>NOTUSED": 0, "<unk>": 0, "<unk>NOTUSED": -100}
    assert dict(vocabulary[:5]) == scores


@pytest.mark.parametrize("setting", SETTINGS)
def test_albert_is_the_model_it_was_made_of(albert_model, tmp_path, setting, untraced):
    save_json(tmp_path, albert_model, **setting)
    rebuilt = load_tokenizer(tmp_path)
    original = SentencePieceTokenizer(albert_model, "albert-transformers", **setting)
    assert rebuilt.get_config() | {"model_file": ""} == original.get_config() | {"model_file": ""}
    assert rebuilt.tokenize(UNIGRAM_TEXTS).to_list() == original.tokenize(UNIGRAM_TEXTS).to_list()


def test_symbols_are_words_of_their_own(albert_model, untraced):
    """And `` and '' are one; a comma stays with its digit."""
    tokenizer = SentencePieceTokenizer(albert_model, "albert-transformers")
    ids, starts, ends = (each.numpy().tolist() for each in tokenizer.tokenize_with_offsets("(dogs).x-y ``a'' 2010,"))
    tokens = [tokenizer.vocabulary[i] for i in ids]
    assert [token for token in tokens if token in ALBERT_SYMBOLS] == ["(", ")", ".", "-", '"', '"']
    assert tokens[-1] == "▁2010,"
    spans = [(start, end) for token, start, end in zip(tokens, starts, ends, strict=True) if token in ALBERT_SYMBOLS]
    assert spans == [(0, 1), (5, 6), (6, 7), (8, 9), (11, 13), (14, 16)]
    aware = SentencePieceTokenizer(albert_model, "albert-transformers", special_tokens_in_text=True)
    assert [aware.vocabulary[i] for i in aware.tokenize("[MASK].[SEP]").numpy()] == ["[MASK]", ".", "[SEP]"]


def test_saved_and_read_again(albert_model, tmp_path, untraced):
    tokenizer = SentencePieceTokenizer(albert_model, "albert-transformers", lowercase=False)
    SentencePieceTokenizer(albert_model).save_preset(tmp_path)
    with error_names(FileExistsError, tmp_path, "spiece.model", "overwrite"):
        tokenizer.save_preset(tmp_path)
    tokenizer.save_preset(tmp_path, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokenizer.json", "tokenizer_config.json"]
    again = load_tokenizer(tmp_path)
    assert again.get_config() | {"model_file": ""} == tokenizer.get_config() | {"model_file": ""}
    assert again.tokenize(UNIGRAM_TEXTS).to_list() == tokenizer.tokenize(UNIGRAM_TEXTS).to_list()
    third = SentencePieceTokenizer.from_config(again.get_config())
    assert third.tokenize(UNIGRAM_TEXTS).to_list() == again.tokenize(UNIGRAM_TEXTS).to_list()


def test_older_spelling(xlm_model, tmp_path, untraced):
    """transformers 4: a normalizer that is no sequence, Metaspace with add_prefix_space, a mask that is normalized."""
    content = save_json(tmp_path, xlm_model, "xlm-roberta", False, False)
    (content["normalizer"],) = content["normalizer"]["normalizers"]
    metaspace = {"type": "Metaspace", "replacement": "▁", "str_rep": "▁", "add_prefix_space": True}
    content["pre_tokenizer"]["pretokenizers"][1] = metaspace
    content["added_tokens"][-1] |= {"normalized": True, "lstrip": False}
    del content["model"]["byte_fallback"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    original = SentencePieceTokenizer(xlm_model, "xlm-roberta")
    assert load_tokenizer(tmp_path).tokenize(UNIGRAM_TEXTS).to_list() == original.tokenize(UNIGRAM_TEXTS).to_list()


@pytest.mark.slow
def test_a_hundred_thousand_tokens(xlm_model, tmp_path, untraced):
    """The work grows with the vocabulary, not with its square, which would take hours."""
    content = save_json(tmp_path, xlm_model, "xlm-roberta", False, False)
    mask = content["model"]["vocab"].pop()
    more = [(f"{chr(0x4E00 + i % 20000)}{i}", -20.0) for i in range(100_000)]
    content["model"]["vocab"] += [*more, mask]
    content["added_tokens"][-1]["id"] = len(content["model"]["vocab"]) - 1
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    assert load_tokenizer(tmp_path).vocabulary_size > 100_000


def test_a_vocabulary_of_no_known_family(xlm_model, tmp_path):
    content = save_json(tmp_path, xlm_model, "xlm-roberta", False, False)
    content["model"]["vocab"].append(("more", -20.0))
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    described = "xlm-roberta (begins with <s>, <pad>, </s>, <unk> and ends with <mask>)"
    with pytest.raises(ValueError, match=re.escape(described)):
        load_tokenizer(tmp_path)


# -- Live


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


OLD_SETTINGS = [{}, {"do_lower_case": False}, {"keep_accents": True}, {"do_lower_case": False, "keep_accents": True}]
CASES = [("xlm_model", "xlm-roberta", {}), ("xlm_model", "camembert", {})]
CASES += [("published", "albert-transformers", setting) for setting in OLD_SETTINGS]


@pytest.mark.parity
@pytest.mark.parametrize(("model", "family", "setting"), CASES)
def test_same_as_transformers(model, family, setting, request, shared_data, tmp_path, auto_tokenizer):
    path = request.getfixturevalue(model)
    theirs = saved_by_transformers(path, family, tmp_path / "theirs", **setting)
    book = (shared_data / "gutenberg/A-Tale-of-Two-Cities_98.txt").read_text("utf-8").split("\n\n")[:800]
    accents = model == "xlm_model" or setting.get("keep_accents")
    texts = [text for text in [*UNIGRAM_TEXTS, *book] if not (accents and UNLIKE.search(text)) and "[CLS]" not in text]
    assert len(texts) > 800
    assert differences(tmp_path / "theirs", theirs, texts) == []
    # What they save again, and what we save of it, is the same.
    theirs.save_pretrained(tmp_path / "again")
    load_tokenizer(tmp_path / "again").save_preset(tmp_path / "ours")
    ours = auto_tokenizer(tmp_path / "ours")
    assert ours(texts)["input_ids"] == theirs(texts)["input_ids"]
    # Beside the model, the file is obeyed too.
    (tmp_path / "theirs" / path.name).write_bytes(path.read_bytes())
    assert differences(tmp_path / "theirs", theirs, texts) == []


@pytest.mark.parity
def test_debertas_file_is_not_followed_in_how_it_splits(shared_data, tmp_path, auto_tokenizer):
    """It gives other ids than the sentencepiece library; but a file that lower-cases is refused."""
    published = shared_data / "modern" / "deberta-v3-base"
    auto_tokenizer(published).save_pretrained(tmp_path)
    (tmp_path / "spm.model").write_bytes((published / "spm.model").read_bytes())
    assert load_tokenizer(tmp_path).get_config() == load_tokenizer(published).get_config()
    content = json.loads((tmp_path / "tokenizer.json").read_text())
    content["normalizer"]["normalizers"].insert(0, {"type": "Lowercase"})
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with error_names(ValueError, tmp_path / "tokenizer.json", "normalizer", "contradict"):
        load_tokenizer(tmp_path)
