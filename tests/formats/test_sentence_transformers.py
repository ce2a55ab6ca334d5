"""The files of sentence-transformers: what is read, and that nothing in them that changes a vector is passed over."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert import presets
from keras_bert.formats import Preset, cross_encoder, sentence_transformers
from keras_bert.formats.sentence_transformers import SentenceSettings
from keras_bert.tasks import BertSentenceEncoder
from keras_bert.tasks.table import task_of

from ..support import small

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


@pytest.mark.parametrize("normalize", [True, False])
@pytest.mark.parametrize("pooling", sentence_transformers.POOLINGS)
def test_round_trip(pooling, normalize, tmp_path):
    prompts = {"query": "query: ", "none": ""}
    settings = SentenceSettings(pooling, 24, normalize, None, prompts, "query", include_prompt=normalize)
    sentence_transformers.write(tmp_path, 12, settings)
    assert sentence_transformers.read(Preset(tmp_path)) == settings
    assert sentence_transformers.read_dense_weights(Preset(tmp_path)) == {}


@pytest.mark.parametrize("similarity", sentence_transformers.SIMILARITIES)
def test_a_similarity(similarity, tmp_path):
    settings = SentenceSettings("mean", 24, similarity=similarity)
    sentence_transformers.write(tmp_path, 12, settings)
    assert sentence_transformers.read(Preset(tmp_path)) == settings
    written = json.loads((tmp_path / "config_sentence_transformers.json").read_text())
    assert written["similarity_fn_name"] == similarity  # the library's key


@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("activation", sentence_transformers.DENSE_ACTIVATIONS)
def test_a_dense_layer(activation, use_bias, tmp_path):
    dense = {"units": 3, "activation": activation, "use_bias": use_bias}
    weights = {"kernel": np.arange(36, dtype=np.float32).reshape(12, 3), "bias": np.ones(3, np.float32)}
    settings = SentenceSettings("mean", 24, dense=dense)
    sentence_transformers.write(tmp_path, 12, settings, dense_weights=weights)
    assert sentence_transformers.read(Preset(tmp_path)) == settings
    found = sentence_transformers.read_dense_weights(Preset(tmp_path))
    assert list(found) == (["kernel", "bias"] if use_bias else ["kernel"])
    for name, value in found.items():
        np.testing.assert_array_equal(value, weights[name])
    assert load_file(tmp_path / "2_Dense" / "model.safetensors")["linear.weight"].shape == (3, 12)
    change(tmp_path, "2_Dense/config.json", out_features=4)
    with pytest.raises(ValueError, match=r"model\.safetensors has .*\(3, 12\).*config\.json says .*\(4, 12\)"):
        sentence_transformers.read_dense_weights(Preset(tmp_path))
    (tmp_path / "2_Dense" / "model.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"2_Dense has no model\.safetensors or pytorch_model\.bin"):
        sentence_transformers.read_dense_weights(Preset(tmp_path))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"activation_function": "their_package.Swish"}, "activation_function is 'their_package.Swish'; supported are"),
        ({"use_residual": True}, "use_residual is True; only False is supported"),
        ({"module_input_name": "token_embeddings"}, "module_input_name is 'token_embeddings'; only"),
        ({"out_features": "3"}, "has '3' in out_features; expected a whole number"),
    ],
)
def test_dense_layers_that_are_refused(values, message, tmp_path):
    dense = {"units": 3, "activation": "tanh", "use_bias": False}
    settings = SentenceSettings("mean", 24, dense=dense)
    sentence_transformers.write(tmp_path, 12, settings, dense_weights={"kernel": np.zeros((12, 3), np.float32)})
    change(tmp_path, "2_Dense/config.json", **values)
    with pytest.raises(ValueError, match=message):
        sentence_transformers.read(Preset(tmp_path))


def test_the_published_directory_that_is_always_installed():
    found = sentence_transformers.read(Preset(presets.resolve("all-MiniLM-L6-v2")))
    assert found == SentenceSettings("mean", 256)


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
    change(tmp_path, "1_Pooling/config.json", embedding_dimension=12, pooling_mode=pooling, include_prompt=True)
    modality = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
    transformer = {"transformer_task": "feature-extraction", "module_output_name": "token_embeddings"}
    change(tmp_path, "sentence_bert_config.json", modality_config=modality, **transformer)
    prompts = {"prompts": {"document": "", "query": ""}, "default_prompt_name": None}
    change(tmp_path, "config_sentence_transformers.json", model_type="SentenceTransformer", **prompts)
    change(tmp_path, "tokenizer_config.json", model_max_length=384)
    expected = SentenceSettings(pooling, 384, prompts={"document": "", "query": ""})
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
    with pytest.raises(ValueError, match="asks for Transformer, Pooling, Pooling, Normalize; supported are"):
        sentence_transformers.read(Preset(shared_data / "modern" / "noinstruct-small-two-poolings"))
    with pytest.raises(ValueError, match=r"asks for custom_st\.Transformer; supported are"):
        sentence_transformers.read(Preset(shared_data / "modern" / "eurobert-jina-v5-nano"))


def test_a_directory_without_modules(tmp_path):
    assert sentence_transformers.read(Preset(tmp_path)) == SentenceSettings("mean", None)
    change(tmp_path, "tokenizer_config.json", model_max_length=int(1e30))
    assert sentence_transformers.read(Preset(tmp_path)).max_length == 10**9


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("config_sentence_transformers.json", {"similarity_fn_name": None, "prompts": None}),
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
    assert sentence_transformers.read(Preset(directory)) == SentenceSettings("mean", 24)


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        (
            "config_sentence_transformers.json",
            {"default_prompt_name": "passage", "prompts": PROMPTS},
            "default_prompt_name is 'passage', but its prompts are query, none, later",
        ),
        ("config_sentence_transformers.json", {"truncate_dim": 8}, "truncate_dim is 8; only None is supported"),
        *(
            (
                "config_sentence_transformers.json",
                {"similarity_fn_name": name},
                f"similarity_fn_name is '{name}'; supported are cosine and dot; to compare .*, put it there",
            )
            for name in ("euclidean", "manhattan", "cos_sim")
        ),
        (
            "config_sentence_transformers.json",
            {"model_type": "SparseEncoder"},
            "model_type is 'SparseEncoder', not SentenceTransformer; load it with BertSparseEncoder.from_preset$",
        ),
        (
            "config_sentence_transformers.json",
            {"model_type": "MultiVectorEncoder"},
            "'MultiVectorEncoder', not SentenceTransformer; also supported are CrossEncoder, SparseEncoder$",
        ),
        (
            "config_sentence_transformers.json",
            {"prompts": ["a"]},
            r"has \['a'\] in prompts; expected an object or null",
        ),
        ("1_Pooling/config.json", {"include_prompt": 0}, "has 0 in include_prompt; expected true or false or null"),
        ("1_Pooling/config.json", {"pooling_mode": ["mean", "cls"]}, r"asks for the pooling \['mean', 'cls'\]"),
        ("1_Pooling/config.json", {"pooling_mode": "sum"}, "asks for the pooling sum; expected one"),
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
        (
            "sentence_bert_config.json",
            {"max_seq_length": 0},
            "the maximum length, max_seq_length, is 0 tokens; expected at least 3",
        ),
    ],
)
def test_settings_that_would_change_a_vector_are_refused(name, values, message, directory):
    change(directory, name, **values)
    with pytest.raises(ValueError, match=message) as raised:
        sentence_transformers.read(Preset(directory))
    assert str(directory / name) in str(raised.value)


def test_a_cross_encoder_is_told_before_its_settings(directory):
    change(directory, "config_sentence_transformers.json", model_type="CrossEncoder")
    change(directory, "sentence_bert_config.json", transformer_task="sequence-classification")
    with pytest.raises(ValueError, match="'CrossEncoder', not SentenceTransformer; load it with BertReranker.from_pre"):
        sentence_transformers.read(Preset(directory))


def test_prompts(directory):
    change(directory, "config_sentence_transformers.json", prompts=PROMPTS, default_prompt_name="later")
    found = sentence_transformers.read(Preset(directory))
    assert (found.prompts, found.default_prompt) == ({"query": "query: ", "none": "", "later": ""}, "later")


def test_the_file_of_another_family(directory):
    (directory / "sentence_bert_config.json").rename(directory / "sentence_roberta_config.json")
    assert sentence_transformers.read(Preset(directory)).max_length == 24


def test_lower_case_that_the_tokenizer_makes(directory):
    change(directory, "sentence_bert_config.json", do_lower_case=True)
    change(directory, "tokenizer_config.json", do_lower_case=True)
    assert sentence_transformers.read(Preset(directory)).max_length == 24


@pytest.mark.parametrize(
    ("kinds", "paths", "message"),
    [
        ([], [], "asks for nothing; supported are Transformer, Pooling, Dense, Normalize, each once, in"),
        (["Pooling", "Transformer"], ["1_Pooling", ""], "asks for Pooling, Transformer; supported are"),
        (["Transformer", "Pooling", "Pooling"], ["", "a", "b"], "asks for Transformer, Pooling, Pooling; supported"),
        (["Transformer", "Pooling", "CNN"], ["", "1_Pooling", "2_CNN"], "asks for Transformer, Pooling, CNN; "),
        (["Transformer", "Pooling", "Normalize", "Dense"], ["", "a", "b", "c"], "Pooling, Normalize, Dense; supported"),
        (["Transformer", "Pooling"], ["../model", "1_Pooling"], "the path of Transformer is '../model'"),
        (["Transformer", "Pooling"], ["", "../1_Pooling"], "the path of Pooling is '../1_Pooling'"),
        (["Transformer", "Pooling"], ["", 1], r"has 1 in \[1\]\.path; expected a string"),
    ],
)
def test_other_modules_are_refused(kinds, paths, message, directory):
    types = [f"sentence_transformers.models.{kind}" for kind in kinds]
    modules = [{"type": kind, "path": path} for kind, path in zip(types, paths, strict=True)]
    (directory / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=message):
        sentence_transformers.read(Preset(directory))


def test_modules_of_somebody_else_are_refused(directory):
    modules = json.loads((directory / "modules.json").read_text())
    modules[0]["type"] = "their_package.Transformer"
    (directory / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(ValueError, match=r"asks for their_package.Transformer, Pooling, Normalize"):
        sentence_transformers.read(Preset(directory))


def move_transformer(directory):
    """Moves the files of the model into a folder of its own, as the library did before version 1.2."""
    modules = json.loads((directory / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (directory / "modules.json").write_text(json.dumps(modules))
    (directory / "0_Transformer").mkdir()
    for path in list(directory.iterdir()):
        if path.is_file() and path.name not in ("modules.json", "config_sentence_transformers.json"):
            path.rename(directory / "0_Transformer" / path.name)


def test_a_transformer_in_a_folder_of_its_own(tmp_path):
    dense = {"units": 5, "activation": "tanh", "use_bias": True}
    encoder = BertSentenceEncoder(small.encoder(), small.preprocessor(), dense=dense, prompts={"query": "a film "})
    encoder.save_preset(tmp_path / "model")
    texts = ["the dog sat", "a film"]
    expected = encoder.encode(texts, prompt="query")
    move_transformer(tmp_path / "model")
    with Preset.open(tmp_path / "model") as preset:
        assert preset.directory == tmp_path / "model/0_Transformer"
        assert task_of(preset) is BertSentenceEncoder
    again = BertSentenceEncoder.from_preset(tmp_path / "model")
    np.testing.assert_array_equal(again.encode(texts, prompt="query"), expected)
    again.save_preset(tmp_path / "copy")
    np.testing.assert_array_equal(
        BertSentenceEncoder.from_preset(tmp_path / "copy").encode(texts, prompt="query"), expected
    )


def test_a_transformer_without_its_folder(directory):
    modules = json.loads((directory / "modules.json").read_text())
    modules[0]["path"] = "0_Transformer"
    (directory / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(FileNotFoundError, match=r"asks for Transformer, which needs .*0_Transformer/config\.json"):
        sentence_transformers.read(Preset(directory))


@pytest.mark.parametrize(
    "package", ["sentence_transformers.models", "sentence_transformers.sentence_transformer.modules.dropout"]
)
def test_dropout_changes_no_vector(package, directory):
    before = sentence_transformers.read(Preset(directory))
    modules = json.loads((directory / "modules.json").read_text())
    modules.insert(2, {"idx": 2, "name": "2", "path": "2_Dropout", "type": f"{package}.Dropout"})
    (directory / "modules.json").write_text(json.dumps(modules))
    change(directory, "2_Dropout/config.json", dropout=0.1)
    assert sentence_transformers.read(Preset(directory)) == before


def test_a_length_with_a_point_is_whole(directory):
    change(directory, "sentence_bert_config.json", max_seq_length=24.0)
    length = sentence_transformers.read(Preset(directory)).max_length
    assert (length, type(length)) == (24, int)


def test_a_module_without_its_file(directory):
    (directory / "1_Pooling/config.json").unlink()
    with pytest.raises(FileNotFoundError, match=r"1_Pooling/config.json"):
        sentence_transformers.read(Preset(directory))
