"""Google's TensorFlow 1 checkpoints, by the names that Google's code gives its variables."""

import dataclasses
import shutil

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import formats
from keras_bert.checkpoint_table import GOOGLE_CONFIGS
from keras_bert.formats.tensorflow import tf1
from keras_bert.tasks import BertMaskedLM

from ..support.checkpoints import CONFIGS, random_weights, read_all, same
from ..support.messages import error_names, warning_names
from ..support.reference.encoder import forward

# As `tf.train.list_variables` prints them for Google's files: (sizes in letters, see models.py) V 30, H 12, I 20, P 16.
ALBERT = "bert/encoder/transformer/group_1/inner_group_0"
NAMES = {
    "bert": {
        "bert/embeddings/word_embeddings": (30, 12),
        "bert/embeddings/position_embeddings": (16, 12),
        "bert/embeddings/token_type_embeddings": (2, 12),
        "bert/embeddings/LayerNorm/gamma": (12,),
        "bert/encoder/layer_1/attention/self/value/kernel": (12, 12),
        "bert/encoder/layer_0/attention/self/query/bias": (12,),
        "bert/encoder/layer_0/attention/output/dense/kernel": (12, 12),
        "bert/encoder/layer_0/attention/output/LayerNorm/beta": (12,),
        "bert/encoder/layer_1/intermediate/dense/kernel": (12, 20),
        "bert/encoder/layer_1/output/dense/kernel": (20, 12),
        "bert/encoder/layer_1/output/LayerNorm/gamma": (12,),
        "bert/pooler/dense/kernel": (12, 12),
        "cls/predictions/transform/dense/kernel": (12, 12),
        "cls/predictions/transform/LayerNorm/gamma": (12,),
        "cls/predictions/output_bias": (30,),
        "cls/seq_relationship/output_weights": (2, 12),
        "cls/seq_relationship/output_bias": (2,),
    },
    "albert": {
        "bert/embeddings/word_embeddings": (30, 6),
        "bert/encoder/embedding_hidden_mapping_in/kernel": (6, 12),
        f"{ALBERT}/attention_1/self/query/kernel": (12, 12),
        f"{ALBERT}/attention_1/output/dense/kernel": (12, 12),
        f"{ALBERT}/LayerNorm/gamma": (12,),
        f"{ALBERT}/ffn_1/intermediate/dense/kernel": (12, 20),
        f"{ALBERT}/ffn_1/intermediate/output/dense/kernel": (20, 12),
        f"{ALBERT}/LayerNorm_1/beta": (12,),
        "cls/predictions/transform/dense/kernel": (12, 6),
    },
    "electra": {
        "electra/embeddings/LayerNorm/gamma": (6,),
        "electra/embeddings_project/kernel": (6, 12),
        "electra/encoder/layer_1/attention/self/key/bias": (12,),
        "discriminator_predictions/dense/kernel": (12, 12),
        "discriminator_predictions/dense_1/kernel": (12, 1),
    },
}
HEADS = {
    "bert": [("masked_lm", "next_sentence"), ("sequence",), ("spans",)],
    "albert": [("masked_lm", "next_sentence"), ("sequence",), ("spans",)],
    "electra": [("replaced_tokens",), ("masked_lm",)],
}


def test_the_names_of_configurations_are_those_of_the_families():
    assert [*GOOGLE_CONFIGS] == [f"{family}_config.json" for family in tf1.TABLES]


def tensors_in(directory, name="bert_model.ckpt"):
    reader = tf.train.load_checkpoint(str(directory / name))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def save(path, tensors):
    names, slices = list(tensors), [""] * len(tensors)
    tf.raw_ops.SaveV2(prefix=str(path), tensor_names=names, shape_and_slices=slices, tensors=[*tensors.values()])


def shapes_in(directory):
    reader = tf.train.load_checkpoint(str(next(directory.glob("*.index"))).removesuffix(".index"))
    return {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()}


@pytest.mark.parametrize(
    ("family", "heads"), [(family, heads) for family, combinations in HEADS.items() for heads in ((), *combinations)]
)
def test_round_trip(family, heads, tmp_path):
    config, weights = CONFIGS[family], random_weights(CONFIGS[family], *heads)
    if family == "electra":
        config = dataclasses.replace(config, activation="gelu")
    formats.write(tmp_path, config, weights, format="tf1")
    assert not list(tmp_path.glob(".*"))  # nothing unfinished
    read_format, read_config, read_weights = read_all(tmp_path)
    assert (read_format, read_config) == ("tf1", config)
    assert same(read_weights, weights)


@pytest.mark.parametrize("family", NAMES)
def test_names(family, tmp_path):
    config = dataclasses.replace(CONFIGS[family], activation="gelu" if family == "electra" else "gelu_tanh")
    formats.write(tmp_path, config, random_weights(config, *HEADS[family][0]), format="tf1")
    written = shapes_in(tmp_path)
    assert NAMES[family].items() <= written.items()
    assert family != "bert" or len(written) == 5 + 2 * 16 + 2 + 5 + 2
    files = ["config.json", "model.ckpt.data-00000-of-00001", "model.ckpt.index"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{family}_{name}" for name in files]


def test_kernels_are_not_transposed_but_output_weights_are(tmp_path):
    weights = random_weights(CONFIGS["bert"], "next_sentence")
    formats.write(tmp_path, CONFIGS["bert"], weights, format="tf1")
    tensors, qkv = tensors_in(tmp_path), weights["encoder"]["block_1/attention/qkv/kernel"]
    np.testing.assert_array_equal(tensors["bert/encoder/layer_1/attention/self/key/kernel"], qkv[:, 12:24])
    expected = weights["next_sentence"]["logits/kernel"].T
    np.testing.assert_array_equal(tensors["cls/seq_relationship/output_weights"], expected)


@pytest.mark.parametrize("own_embeddings", [False, True])
def test_an_electra_file_holds_two_models(own_embeddings, tmp_path):
    """Generator and discriminator share the embeddings, unless they do not."""
    small = dataclasses.replace(CONFIGS["electra"], activation="gelu")
    large = dataclasses.replace(small, hidden_size=24, intermediate_size=40)
    generator, discriminator = random_weights(small, "masked_lm"), random_weights(large, "replaced_tokens", seed=1)
    tensors = {}
    for name, config, weights in (("small", small, generator), ("large", large, discriminator)):
        if not own_embeddings:
            shared = {k: v for k, v in generator["encoder"].items() if "embeddings/" in k and "projection" not in k}
            weights["encoder"] |= shared
        formats.write(tmp_path / name, config, weights, format="tf1")
        for key, value in tensors_in(tmp_path / name, "electra_model.ckpt").items():
            renamed = key.replace("electra/", "generator/") if own_embeddings and name == "small" else key
            tensors[renamed] = value
    for name, expected in (("small", generator), ("large", discriminator)):
        for path in (tmp_path / name).glob("*.ckpt.*"):
            path.unlink()
        save(tmp_path / name / "model.ckpt-1000000", tensors | {"global_step": np.array(1_000_000)})
        assert same(read_all(tmp_path / name)[2], expected)


def test_optimizer_slots_are_neither_missing_nor_unexpected(tmp_path):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"]), format="tf1")
    tensors = tensors_in(tmp_path)
    slots = {f"{name}/{slot}": value for name, value in tensors.items() for slot in ("adam_m", "adam_v")}
    others = {"global_step": np.array(3), "stranger": np.ones(2, "float32")}
    save(tmp_path / "bert_model.ckpt", tensors | slots | others)
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert (checkpoint.missing, checkpoint.unexpected) == ([], ["stranger"])


def test_what_the_code_would_compute_otherwise_is_said(tmp_path):
    config = dataclasses.replace(CONFIGS["bert"], activation="gelu", layer_norm_epsilon=1e-5)
    for words in (["exact gelu", "Google's code", "tanh"], ["1e-05", "Google's code", "1e-12"]):
        with warning_names(*words):
            formats.write(tmp_path, config, random_weights(config), format="tf1", overwrite=True)


def test_families_and_heads_that_google_never_had(tmp_path):
    with error_names(ValueError, "TensorFlow 1", "bert, albert, electra", "roberta"):
        formats.write(tmp_path, CONFIGS["roberta"], random_weights(CONFIGS["roberta"]), format="tf1")
    with error_names(ValueError, "bert", "no tokens", "masked_lm"):
        formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"], "tokens"), format="tf1")
    assert not list(tmp_path.iterdir())


def test_nothing_is_overwritten_unasked(tmp_path):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"]), format="tf1")
    with error_names(FileExistsError, tmp_path, "bert_config.json, bert_model.ckpt.index", "overwrite"):
        formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"], seed=1), format="tf1")
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"], seed=1), format="tf1", overwrite=True)
    assert same(read_all(tmp_path)[2], random_weights(CONFIGS["bert"], seed=1))


def test_several_checkpoints_in_one_directory(tmp_path):
    weights = random_weights(CONFIGS["bert"])
    formats.write(tmp_path, CONFIGS["bert"], weights, format="tf1")
    for path in list(tmp_path.glob("bert_model.ckpt.*")):
        shutil.copy(path, tmp_path / path.name.replace("bert_model.ckpt", "model.ckpt-5"))
    (tmp_path / "checkpoint").write_bytes(b"\xff\xfe")  # not text, so that it chooses none
    for _ in range(2):
        with error_names(ValueError, tmp_path, "bert_model.ckpt, model.ckpt-5", "keep one"):
            formats.open_checkpoint(tmp_path)
        (tmp_path / "checkpoint").unlink(missing_ok=True)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"\nall_model_checkpoint_paths: "x"\n')
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.path.name == "model.ckpt-5.index"
        assert same({"encoder": checkpoint.read("encoder")}, weights)


@pytest.mark.parametrize(
    ("name", "shape", "words"),
    [
        ("bert/embeddings/position_embeddings", [], ["bert/embeddings/position_embeddings", "()", "matrix"]),
        ("bert/embeddings/token_type_embeddings", [12], ["bert/embeddings/token_type_embeddings", "(12,)", "matrix"]),
        ("bert/encoder/layer_0/attention/self/query/kernel", [12, 5, 4], ["hidden_size 12", "num_heads 5"]),
    ],
)
def test_shapes_that_make_no_configuration(name, shape, words, tmp_path):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"]), format="tf1")
    (tmp_path / "bert_config.json").unlink()
    save(tmp_path / "bert_model.ckpt", tensors_in(tmp_path) | {name: np.zeros(shape, np.float32)})
    with error_names(ValueError, tmp_path / "bert_model.ckpt.index", *words):
        formats.open_checkpoint(tmp_path)


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_an_index_alone_has_every_name_and_shape(family, tmp_path):
    weights = random_weights(CONFIGS[family], "masked_lm", "next_sentence")
    formats.write(tmp_path, CONFIGS[family], weights, format="tf1")
    (data,) = tmp_path.glob("*.data-*")
    data.unlink()
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert (checkpoint.format, checkpoint.config) == ("tf1", CONFIGS[family])
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
        assert checkpoint.heads == {"masked_lm", "next_sentence"}
        for part, values in weights.items():
            shapes = {name: value.shape for name, value in values.items()}
            assert dict(checkpoint.weights(part).shapes) == shapes
        with pytest.raises(FileNotFoundError, match=rf"{tmp_path}/\w+\.ckpt\.index has no values: there is no"):
            checkpoint.read("encoder")


@pytest.fixture
def published(shared_data):
    return shared_data / "checkpoint-formats"


@pytest.mark.parametrize(
    ("name", "family", "layers", "hidden"),
    [
        ("google-uncased_L-8_H-512_A-8-index-only", "bert", 8, 512),
        ("google-albert_base_zh-index-only", "albert", 12, 768),
    ],
)
def test_every_name_and_shape_of_published_checkpoints(published, name, family, layers, hidden):
    with formats.open_checkpoint(published / name) as checkpoint:
        config = checkpoint.config
        assert checkpoint.format == "tf1"
        assert (config.family, config.num_layers, config.hidden_size) == (family, layers, hidden)
        assert config.activation == {"bert": "gelu_tanh", "albert": "relu"}[family]
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
        assert checkpoint.heads == {"masked_lm", "next_sentence"}
        mapped = {part: checkpoint.weights(part) for part in ("encoder", *checkpoint.heads)}  # checks the shapes
        shapes = shapes_in(published / name)
        slots = [key for key in shapes if key.endswith(("/adam_m", "/adam_v", "global_step"))]
        of_ours = sum(np.prod(shape) for weights in mapped.values() for shape in weights.shapes.values())
        assert of_ours == sum(np.prod(shapes[key]) for key in shapes if key not in slots)
        with error_names(FileNotFoundError, checkpoint.path, "no values", "data-…-of-…"):
            checkpoint.read("encoder")


@pytest.mark.slow
def test_a_whole_checkpoint_against_the_papers_formulas(published):
    directory = published / "tf1-keras-bert-tiny-random"
    model = BertMaskedLM.from_preset(directory)
    config = model.encoder.config
    reader = tf.train.load_checkpoint(str(directory / "bert_model.ckpt"))
    weights = {}  # under Hugging Face's names, which the formulas are written in
    for name in reader.get_variable_to_shape_map():
        if name.startswith("bert/") and "adam" not in name:
            value = reader.get_tensor(name)
            new = name.removeprefix("bert/").replace("/layer_", "/layer/").replace("/", ".")
            new = new.replace("kernel", "weight").replace("gamma", "weight").replace("LayerNorm.beta", "LayerNorm.bias")
            new = f"{new}.weight" if new.endswith("embeddings") else new
            weights[new] = value.T if name.endswith("kernel") else value
    ids, types = np.array([3, 14, 1, 5, 9, 2, 6]), np.array([0, 0, 0, 1, 1, 1, 1])
    pooled, layers, _ = forward(config, weights, ids, types)
    outputs = model.encoder({"input_word_ids": ids[None], "input_type_ids": types[None]})
    np.testing.assert_allclose(outputs["pooled_output"][0], pooled, atol=1e-5)
    for ours, theirs in zip(outputs["encoder_outputs"], layers, strict=True):
        np.testing.assert_allclose(ours[0], theirs, atol=1e-5)
