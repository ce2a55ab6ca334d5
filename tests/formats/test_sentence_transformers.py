"""The files of sentence-transformers: what is read, and that nothing in them that changes a vector is passed over."""

import json

import pytest

from keras_bert.formats import sentence_transformers
from keras_bert.formats.sentence_transformers import SentenceSettings

PROMPTS = {"query": "query: ", "none": "", "later": None}


@pytest.fixture
def directory(tmp_path):
    sentence_transformers.write(tmp_path, 12, SentenceSettings("mean", 24))
    return tmp_path


def change(directory, name, **values):
    """Changes keys of a JSON file, or makes it."""
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, **values}))


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "cls", "max"])
def test_round_trip(pooling, normalized, tmp_path):
    settings = SentenceSettings(pooling, 24, normalized)
    sentence_transformers.write(tmp_path, 12, settings)
    assert sentence_transformers.read(tmp_path) == settings


def test_a_directory_without_modules(tmp_path):
    assert sentence_transformers.read(tmp_path) == SentenceSettings("mean", None)
    change(tmp_path, "tokenizer_config.json", model_max_length=int(1e30))
    assert sentence_transformers.read(tmp_path).max_length == 10**9


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("config_sentence_transformers.json", {"similarity_fn_name": "dot", "prompts": PROMPTS}),
        ("config_sentence_transformers.json", {"default_prompt_name": "none", "prompts": PROMPTS}),
        ("config_sentence_transformers.json", {"default_prompt_name": "later", "prompts": PROMPTS}),
        ("config_sentence_transformers.json", {"model_type": "SentenceTransformer", "default_prompt_name": None}),
        ("1_Pooling/config.json", {"include_prompt": True, "embedding_dimension": 12}),
        ("1_Pooling/config.json", {"pooling_mode": ["mean"]}),
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": False}),  # the library then takes the mean
        ("sentence_bert_config.json", {"transformer_task": "feature-extraction", "unpad_inputs": None}),
        ("2_Normalize/config.json", {"module_input_name": "sentence_embedding"}),
    ],
)
def test_settings_that_change_nothing(name, values, directory):
    change(directory, name, **values)
    assert sentence_transformers.read(directory) == SentenceSettings("mean", 24)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "query", "prompts": PROMPTS},
            "default_prompt_name is 'query', which puts 'query: ' before every text",
        ),
        ("config_sentence_transformers.json", {"truncate_dim": 8}, "truncate_dim is 8; only None is supported"),
        ("config_sentence_transformers.json", {"model_type": "SparseEncoder"}, "model_type is 'SparseEncoder'; only"),
        (
            "config_sentence_transformers.json",
            {"prompts": ["a"]},
            r"has \['a'\] in prompts; expected an object or null",
        ),
        ("1_Pooling/config.json", {"include_prompt": False}, "include_prompt is False; only True is supported"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "cls"]}, r"asks for the pooling \['mean', 'cls'\]"),
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, "asks for the pooling lasttoken; supported is one"),
        ("1_Pooling/config.json", {"pooling_mode": 1}, "has 1 in pooling_mode; expected a string or a list or null"),
        ("1_Pooling/config.json", {"pooling_mode_max_tokens": True}, "asks for the pooling .*mean_tokens.*max_tokens"),
        ("1_Pooling/config.json", {"pooling_mode_weightedmean_tokens": True}, "asks for the pooling .*weightedmean"),
        ("2_Normalize/config.json", {"module_input_name": "token_embeddings"}, "module_input_name is 'token_embed"),
        ("sentence_bert_config.json", {"do_lower_case": True}, "do_lower_case is true, but the tokenizer keeps cap"),
        ("sentence_bert_config.json", {"transformer_task": "fill-mask"}, "transformer_task is 'fill-mask'; only 'feat"),
        ("sentence_bert_config.json", {"model_args": {"dtype": "half"}}, "model_args is {'dtype': 'half'}; only {}"),
        ("sentence_bert_config.json", {"tokenizer_name_or_path": "x"}, "tokenizer_name_or_path is 'x'; only None"),
        ("sentence_bert_config.json", {"modality_config": {"text": {"method": "get_text_features"}}}, "text is {'meth"),
        ("sentence_bert_config.json", {"max_seq_length": "24"}, "has '24' in max_seq_length; expected a whole number"),
        ("sentence_bert_config.json", {"max_seq_length": 0}, "the maximum length is 0 tokens; expected at least 1"),
    ],
)
def test_settings_that_would_change_a_vector_are_refused(name, values, message, directory):
    change(directory, name, **values)
    with pytest.raises(ValueError, match=message) as raised:
        sentence_transformers.read(directory)
    assert str(directory / name) in str(raised.value)


def test_the_file_of_another_family(directory):
    (directory / "sentence_bert_config.json").rename(directory / "sentence_roberta_config.json")
    assert sentence_transformers.read(directory).max_length == 24


def test_lower_case_that_the_tokenizer_makes(directory):
    change(directory, "sentence_bert_config.json", do_lower_case=True)
    change(directory, "tokenizer_config.json", do_lower_case=True)
    assert sentence_transformers.read(directory).max_length == 24


@pytest.mark.parametrize(
    ("kinds", "paths", "message"),
    [
        ([], [], "asks for nothing; supported are Transformer, Pooling, Normalize, in this order"),
        (["Pooling", "Transformer"], ["1_Pooling", ""], "asks for Pooling, Transformer; supported are"),
        (["Transformer", "Pooling", "Dense"], ["", "1_Pooling", "2_Dense"], "asks for Transformer, Pooling, Dense; "),
        (["Transformer", "Pooling"], ["0_Transformer", "1_Pooling"], "the path of Transformer is '0_Transformer'"),
        (["Transformer", "Pooling"], ["", "../1_Pooling"], "the path of Pooling is '../1_Pooling'"),
        (["Transformer", "Pooling"], ["", 1], r"has 1 in \[1\]\.path; expected a string"),
    ],
)
def test_other_modules_are_refused(kinds, paths, message, directory):
    types = [f"sentence_transformers.models.{kind}" for kind in kinds]
    modules = [{"type": kind, "path": path} for kind, path in zip(types, paths, strict=True)]
    (directory / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=message):
        sentence_transformers.read(directory)


def test_modules_of_somebody_else_are_refused(directory):
    modules = json.loads((directory / "modules.json").read_text())
    modules[0]["type"] = "their_package.Transformer"
    (directory / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=r"asks for their_package.Transformer, Pooling, Normalize"):
        sentence_transformers.read(directory)


def test_a_module_without_its_file(directory):
    (directory / "1_Pooling/config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"1_Pooling/config.json"):
        sentence_transformers.read(directory)
