"""The files of sentence-transformers: what is read, and that nothing in them that changes a vector is passed over."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert import choices, presets
from keras_bert.config import BertConfig
from keras_bert.formats import Preset
from keras_bert.formats.libraries import cross_encoder, modules, sentence_transformers
from keras_bert.formats.libraries.sentence_transformers import Settings
from keras_bert.tasks import BertSentenceEncoder
from keras_bert.tasks.registry import task_of

from ..support import small
from ..support.data import change_json
from ..support.messages import error_names

PROMPTS = {"query": "query: ", "none": "", "later": None}
MODEL, POOLING, LENGTH = "config_sentence_transformers.json", "1_Pooling/config.json", "sentence_bert_config.json"


@pytest.fixture
def directory(tmp_path):
    sentence_transformers.write(tmp_path, Settings("mean", 24), BertConfig(hidden_size=12))
    return tmp_path


def change_modules(directory, function):
    """Rewrites `modules.json` by way of `function`, which changes the list in place."""
    modules = json.loads((directory / "modules.json").read_text())
    function(modules)
    (directory / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize("similarity", sentence_transformers.SIMILARITIES)
@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", choices.POOLINGS)
def test_round_trip(pooling, normalize, similarity, tmp_path):
    prompts = {"query": "query: ", "none": ""}
    settings = Settings(pooling, 24, normalize, None, prompts, "query", normalize, similarity)
    sentence_transformers.write(tmp_path, settings, BertConfig(hidden_size=12))
    assert sentence_transformers.read(Preset(tmp_path)) == settings
    assert sentence_transformers.read_weights(Preset(tmp_path)) == {}
    assert json.loads((tmp_path / MODEL).read_text())["similarity_fn_name"] == similarity  # the library's key
    sentence_transformers.write(tmp_path, settings._replace(truncate_dim=3), BertConfig(hidden_size=12))
    assert sentence_transformers.read(Preset(tmp_path)).similarity == ("cosine" if normalize else similarity)


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("activation", modules.DENSE_ACTIVATIONS)
def test_a_dense_layer(activation, use_bias, tmp_path):
    dense = {"units": 3, "activation": activation, "use_bias": use_bias}
    weights = {"kernel": np.arange(36, dtype=np.float32).reshape(12, 3), "bias": np.ones(3, np.float32)}
    settings = Settings("mean", 24, dense=dense)
    sentence_transformers.write(tmp_path, settings, BertConfig(hidden_size=12), weights)
    assert sentence_transformers.read(Preset(tmp_path)) == settings
    found = sentence_transformers.read_weights(Preset(tmp_path))
    assert list(found) == (["kernel", "bias"] if use_bias else ["kernel"])
    for name, value in found.items():
        np.testing.assert_array_equal(value, weights[name])
    assert load_file(tmp_path / "2_Dense" / "model.safetensors")["linear.weight"].shape == (3, 12)
    change_json(tmp_path, "2_Dense/config.json", out_features=4)
    with error_names(ValueError, tmp_path / "2_Dense/model.safetensors", "(3, 12)", "(4, 12)"):
        sentence_transformers.read_weights(Preset(tmp_path))
    (tmp_path / "2_Dense" / "model.safetensors").unlink()
    with error_names(FileNotFoundError, tmp_path / "2_Dense", "model.safetensors or pytorch_model.bin"):
        sentence_transformers.read_weights(Preset(tmp_path))


@pytest.mark.parametrize("value", [None, ...])
def test_a_dense_layer_has_tanh_if_its_file_names_no_activation(value, tmp_path):
    """As torch's `Dense(activation_function=Tanh())` of the library has by default."""
    dense = {"units": 3, "activation": "linear", "use_bias": False}
    weights = {"kernel": np.ones((12, 3), np.float32)}
    sentence_transformers.write(tmp_path, Settings("mean", 24, dense=dense), BertConfig(hidden_size=12), weights)
    path = tmp_path / "2_Dense/config.json"
    values = {**json.loads(path.read_text()), "activation_function": value}
    path.write_text(json.dumps({key: each for key, each in values.items() if each is not ...}))
    assert sentence_transformers.read(Preset(tmp_path)).dense["activation"] == "tanh"


def test_the_published_directory_that_is_always_installed():
    found = sentence_transformers.read(Preset(presets.resolve("all-MiniLM-L6-v2")))
    assert found == Settings("mean", 256)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_a_directory_of_version_5(pooling, tmp_path):
    """Its modules have other packages, its pooling one name, and its length only the tokenizer says."""
    kinds = ["base.modules.transformer.Transformer"]
    kinds += [f"sentence_transformer.modules.{kind.lower()}.{kind}" for kind in ("Pooling", "Normalize")]
    paths = ["", "1_Pooling", "2_Normalize"]
    modules = [
        {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.{kind}"}
        for i, (path, kind) in enumerate(zip(paths, kinds, strict=True))
    ]
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    change_json(tmp_path, POOLING, embedding_dimension=12, pooling_mode=pooling, include_prompt=True)
    modality = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    transformer = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"}
    change_json(tmp_path, LENGTH, modality_config=modality, **transformer)
    prompts = {"prompts": {"document": "", "query": ""}, "default_prompt_name": None}
    change_json(tmp_path, MODEL, model_type="SentenceTransformer", **prompts)
    change_json(tmp_path, "tokenizer_config.json", model_max_length=384)
    expected = Settings(pooling, 384, prompts={"document": "", "query": ""})
    assert sentence_transformers.read(Preset(tmp_path)) == expected
    assert not cross_encoder.read(Preset(tmp_path)).is_declared


@pytest.mark.parametrize(
    ("name", "pooling", "length", "normalize"),
    [
        ("all-mpnet-base-v2", "mean", 384, True),
        ("all-mpnet-base-v2-st5.5", "mean", 384, True),  # whose length only the tokenizer says
        ("bge-m3-st5.5", "cls", 8192, True),
        ("e5-small-v2", "mean", 512, True),
        ("bge-small-en-v1.5-setfit", "cls", 512, True),
        ("multilingual-e5-large-instruct", "mean", 512, True),
    ],
)
def test_published_directories(shared_data, name, pooling, length, normalize):
    found = sentence_transformers.read(Preset(shared_data / "modern" / name))
    assert (found.pooling, found.max_length, found.normalize) == (pooling, length, normalize)
    assert (found.dense, found.default_prompt, found.include_prompt) == (None, None, True)


def test_published_directories_that_are_refused(shared_data):
    with error_names(ValueError, "modules.json", "Transformer, Pooling, Pooling, Normalize"):
        sentence_transformers.read(Preset(shared_data / "modern" / "noinstruct-small-two-poolings"))
    with error_names(ValueError, "modules.json", "custom_st.Transformer"):
        sentence_transformers.read(Preset(shared_data / "modern" / "eurobert-jina-v5-nano"))


def test_a_directory_without_modules(tmp_path):
    assert sentence_transformers.read(Preset(tmp_path)) == Settings("mean", None)
    change_json(tmp_path, "tokenizer_config.json", model_max_length=int(1e30))
    assert sentence_transformers.read(Preset(tmp_path)).max_length == 10**9


@pytest.mark.parametrize(
    ("name", "values"),
    [
        (MODEL, {"similarity_fn_name": None, "prompts": None}),
        (MODEL, {"model_type": "SentenceTransformer", "default_prompt_name": None}),
        (POOLING, {"include_prompt": True, "embedding_dimension": 12}),
        (POOLING, {"pooling_mode": ["mean"]}),
        (POOLING, {"pooling_mode_mean_tokens": False}),  # the library then takes the mean
        (LENGTH, {"transformer_task": "feature-extraction", "unpad_inputs": None}),
        ("2_Normalize/config.json", {"module_input_name": "sentence_embedding"}),
    ],
)
def test_settings_that_change_nothing(name, values, directory):
    change_json(directory, name, **values)
    assert sentence_transformers.read(Preset(directory)) == Settings("mean", 24)


@pytest.mark.parametrize(
    ("name", "values", "words"),
    [
        (
            *(MODEL, {"default_prompt_name": "passage", "prompts": PROMPTS}),
            ["default_prompt_name", "'passage'", "query, none, later"],
        ),
        (MODEL, {"model_type": "SparseEncoder"}, ["'SparseEncoder'", "BertSparseEncoder.from_preset"]),
        (MODEL, {"model_type": "Other"}, ["'Other'", "CrossEncoder, SparseEncoder, MultiVectorEncoder"]),
        (POOLING, {"pooling_mode": "sum"}, ["pooling sum", "mean"]),
        (POOLING, {"pooling_mode": 1}, [1, "pooling_mode", "a string or a list"]),
        (LENGTH, {"max_seq_length": 0}, ["max_seq_length", "0 tokens", 3]),
    ],
)
def test_settings_that_would_change_a_vector_are_refused(name, values, words, directory):
    change_json(directory, name, **values)
    with error_names(ValueError, directory / name, *words):
        sentence_transformers.read(Preset(directory))


def test_a_cross_encoder_is_refused_before_its_settings(directory):
    change_json(directory, MODEL, model_type="CrossEncoder")
    change_json(directory, LENGTH, transformer_task="sequence-classification")
    with error_names(ValueError, "'CrossEncoder'", "BertReranker.from_preset"):
        sentence_transformers.read(Preset(directory))


def test_prompts(directory):
    change_json(directory, MODEL, prompts=PROMPTS, default_prompt_name="later")
    found = sentence_transformers.read(Preset(directory))
    assert (found.prompts, found.default_prompt) == ({"query": "query: ", "none": "", "later": ""}, "later")


def test_the_file_of_another_family(directory):
    (directory / LENGTH).rename(directory / "sentence_roberta_config.json")
    assert sentence_transformers.read(Preset(directory)).max_length == 24


def test_lower_case_that_the_tokenizer_makes_and_a_length_with_a_point(directory):
    change_json(directory, LENGTH, do_lower_case=True, max_seq_length=3.0)  # the least
    change_json(directory, "tokenizer_config.json", do_lower_case=True)
    length = sentence_transformers.read(Preset(directory)).max_length
    assert (length, type(length)) == (3, int)


@pytest.mark.parametrize(
    ("kinds", "paths", "words"),
    [
        ([], [], ["nothing", "Transformer, Pooling, Dense, Normalize", "order"]),
        (["Pooling", "Transformer"], ["1_Pooling", ""], ["Pooling, Transformer", "order"]),
        (["Transformer", "Pooling", "Pooling"], ["", "a", "b"], ["Transformer, Pooling, Pooling", "order"]),
        (["Transformer", "Pooling", "CNN"], ["", "1_Pooling", "2_CNN"], ["Transformer, Pooling, CNN", "order"]),
        (["Transformer", "Pooling", "Normalize", "Dense"], ["", "a", "b", "c"], ["Pooling, Normalize, Dense", "order"]),
        (["their.Transformer", "Pooling"], ["", "1_Pooling"], ["their.Transformer, Pooling", "order"]),
        (["Transformer", "Pooling"], ["../model", "1_Pooling"], ["path of Transformer", "'../model'"]),
        (["Transformer", "Pooling"], ["", "../1_Pooling"], ["path of Pooling", "'../1_Pooling'"]),
        (["Transformer", "Pooling"], ["", 1], [1, "[1].path", "string"]),
    ],
)
def test_other_modules_are_refused(kinds, paths, words, directory):
    types = [kind if "." in kind else f"sentence_transformers.models.{kind}" for kind in kinds]
    modules = [{"type": kind, "path": path} for kind, path in zip(types, paths, strict=True)]
    (directory / "modules.json").write_text(json.dumps(modules))
    with error_names(ValueError, directory / "modules.json", *words):
        sentence_transformers.read(Preset(directory))


def test_a_transformer_in_a_folder_of_its_own(tmp_path):
    """As the library wrote it before version 1.2."""
    dense = {"units": 5, "activation": "tanh", "use_bias": True}
    encoder = BertSentenceEncoder(small.encoder(), small.preprocessor(), dense=dense, prompts={"query": "a film "})
    encoder.save_preset(tmp_path / "model")
    change_modules(tmp_path / "model", lambda modules: modules[0].update(path="0_Transformer"))
    (tmp_path / "model/0_Transformer").mkdir()
    for path in list((tmp_path / "model").iterdir()):
        if path.is_file() and path.name not in ("modules.json", MODEL):
            path.rename(tmp_path / "model/0_Transformer" / path.name)
    with Preset.open(tmp_path / "model") as preset:
        assert preset.directory == tmp_path / "model/0_Transformer"
        assert task_of(preset) is BertSentenceEncoder
    again = BertSentenceEncoder.from_preset(tmp_path / "model")
    assert small.same(again, encoder)
    again.save_preset(tmp_path / "copy")
    assert small.same(BertSentenceEncoder.from_preset(tmp_path / "copy"), encoder)


def test_a_transformer_without_its_folder(directory):
    change_modules(directory, lambda modules: modules[0].update(path="0_Transformer"))
    with error_names(FileNotFoundError, "Transformer", directory / "0_Transformer/config.json"):
        sentence_transformers.read(Preset(directory))


@pytest.mark.parametrize(
    "package", ["sentence_transformers.models", "sentence_transformers.sentence_transformer.modules.dropout"]
)
def test_dropout_changes_no_vector(package, directory):
    before = sentence_transformers.read(Preset(directory))
    dropout = {"idx": 2, "name": "2", "path": "2_Dropout", "type": f"{package}.Dropout"}
    change_modules(directory, lambda modules: modules.insert(2, dropout))
    change_json(directory, "2_Dropout/config.json", dropout=0.1)
    assert sentence_transformers.read(Preset(directory)) == before


def test_a_module_without_its_file(directory):
    (directory / POOLING).unlink()
    with error_names(FileNotFoundError, directory / POOLING):
        sentence_transformers.read(Preset(directory))
