"""What the TensorFlow classes of transformers wrote: names, copies, and which of several files is read."""

import json
import shutil
from functools import partial
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertMultipleChoice,
    BertNextSentence,
    BertQuestionAnswerer,
    BertTokenClassifier,
    formats,
)
from keras_bert.encoder.weights import load_weights
from keras_bert.formats import Preset, hugging_face
from keras_bert.formats.tensorflow import saved_model
from keras_bert.formats.tensorflow.old_transformers import spelled, table_of
from keras_bert.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.heads import ClassifierHead

from ..support import transformers4
from ..support.checkpoints import CONFIGS, random_weights, read_all, same
from ..support.messages import error_names
from ..support.old_models import tensorflow_names

CLASSES = {
    "encoder": BertEncoder,
    "masked_lm": BertMaskedLM,
    "pretraining": partial(BertPretrainer.from_preset, sequence_length=12),
    "next_sentence": BertNextSentence,
    "sequence": BertClassifier,
    "tokens": BertTokenClassifier,
    "spans": BertQuestionAnswerer,
    "choices": BertMultipleChoice,
}


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    return transformers4.unpack(tmp_path_factory.mktemp("transformers4"))


def same_outputs(ours, expected, mask):
    assert ours.keys() == expected.keys()
    for name, value in expected.items():
        rows = mask.astype(bool) if value.shape[: mask.ndim] == mask.shape else ...
        np.testing.assert_allclose(np.asarray(ours[name])[rows], value[rows], rtol=0, atol=1e-5, err_msg=name)


# Each head of BERT and a classifier of each family are quick tests.
QUICK = [name for name in transformers4.names() if name.startswith("bert-") or "-sequence" in name]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in transformers4.names()]
)
def test_outputs_are_those_of_the_old_library(models, name, untraced):
    inputs, expected = transformers4.arrays(models / name)
    with formats.open_checkpoint(models / name) as checkpoint:
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
    same_outputs(outputs(models / name, inputs), expected, inputs["attention_mask"])


def outputs(directory, inputs):
    """Our outputs under the names of the old library."""
    packed = {ours: inputs[theirs] for theirs, ours in transformers4.INPUTS.items() if theirs in inputs}
    head = next(part for part in directory.name.split("-") if part in CLASSES)
    if directory.name == "electra-pretraining":
        return {"logits": replaced_tokens(directory, packed)}
    make = getattr(CLASSES[head], "from_preset", CLASSES[head])
    if head in ("masked_lm", "pretraining"):
        packed["masked_lm_positions"] = np.tile(np.arange(12, dtype="int32"), (2, 1))
    found = (model := make(directory))(packed)
    if head == "encoder":
        pooled = {"pooler_output": found["pooled_output"]} if model.config.pooler else {}
        return {"last_hidden_state": found["sequence_output"], **pooled}
    if head == "spans":
        return {"start_logits": found[..., 0], "end_logits": found[..., 1]}
    if head == "pretraining":
        order = "sop_logits" if model.encoder.config.family == "albert" else "seq_relationship_logits"
        return {"prediction_logits": found["masked_lm"], order: found["next_sentence"]}
    return {"logits": found}


def replaced_tokens(directory, inputs):
    """The head of a discriminator, which no task has."""
    with Preset.open(directory) as preset:
        encoder = BertEncoder.from_preset(preset)
        head = ClassifierHead(encoder.config, "replaced_tokens", 1)
        head.build()
        load_weights(head, preset.checkpoint, "replaced_tokens")
    return head(encoder(inputs)["sequence_output"])[..., 0]


@pytest.mark.parametrize(
    ("family", "name", "expected"),
    [
        ("bert", "bert/tf_bert_model_3/bert/encoder/layer_._1/output/dense/bias", "encoder.layer.1.output.dense.bias"),
        ("bert", "bert/encoder/layer_._0/output/LayerNorm/gamma:0", "encoder.layer.0.output.LayerNorm.weight"),
        ("bert", "bert/bert/embeddings/word_embeddings/weight:0", "embeddings.word_embeddings.weight"),
        ("bert", "a_users_model/bert/pooler/dense/bias", "pooler.dense.bias"),
        ("bert", "tf_bert_for_pre_training/mlm___cls/predictions/bias", "cls.predictions.bias"),
        ("bert", "nsp___cls/seq_relationship/kernel:0", "cls.seq_relationship.weight"),
        ("bert", "cls/predictions/transform/LayerNorm/beta:0", "cls.predictions.transform.LayerNorm.bias"),
        ("albert", "predictions/decoder/bias:0", "predictions.decoder.bias"),
        ("deberta-v2", "deberta/deberta/encoder/rel_embeddings.weight:0", "encoder.rel_embeddings.weight"),
        ("bert", "bert/encoder/layer_._9/output/dense/kernel:0", "encoder.layer.9.output.dense.weight"),
        ("bert", "dense/dense/kernel:0", "dense/dense/kernel:0"),
    ],
)  # fmt: skip
def test_names(family, name, expected):
    file = SimpleNamespace(path="tf_model.h5", names={name}, size=None)
    assert spelled(file, CONFIGS[family], table_of(formats.FAMILIES[family]))[1] == {expected: name}


CONFIG = CONFIGS["bert"]
WEIGHTS = random_weights(CONFIG, "masked_lm")
WORDS = "mlm___cls/model/bert/embeddings/word_embeddings/weight:0"


@pytest.fixture
def preset(tmp_path):
    """A directory with `tf_model.h5`, and a function that changes its arrays first."""
    formats.write(tmp_path, CONFIG, WEIGHTS)
    arrays = tensorflow_names(tmp_path)
    arrays[WORDS] = arrays["bert/model/bert/embeddings/word_embeddings/weight:0"]
    (tmp_path / "model.safetensors").unlink()

    def write(**changes):
        with h5py.File(tmp_path / "tf_model.h5", "w") as file:
            for name, value in {**arrays, **changes}.items():
                file[name] = value
        return tmp_path

    write()
    return write


def test_a_variable_of_two_layers_is_one(preset):
    directory = preset()
    assert same(read_all(directory)[2], WEIGHTS)
    other = np.ones((CONFIG.vocab_size, CONFIG.hidden_size), "float32")
    for changed in (other, other[:2]):
        with (
            error_names(ValueError, "tf_model.h5", WORDS, "differs"),
            formats.open_checkpoint(preset(**{WORDS: changed})) as file,
        ):
            file.read("encoder")


def test_a_second_encoder_is_named(preset):
    name = "query/model_1/bert/pooler/dense/bias:0"
    with formats.open_checkpoint(preset(**{name: np.ones(12, "float32")})) as checkpoint:
        assert checkpoint.unexpected == [name]


@pytest.mark.parametrize("name", ["pytorch_model.bin", "pytorch_model.bin.index.json", "flax_model.msgpack"])
def test_no_torch_is_needed_beside_it(preset, name):
    directory = preset()
    (directory / name).write_bytes(b"never looked at")
    assert same(read_all(directory)[2], WEIGHTS)


def test_what_is_written_has_the_names_of_torch(preset, tmp_path):
    BertMaskedLM.from_preset(preset()).save_preset(tmp_path / "new")
    assert same(read_all(tmp_path / "new")[2], WEIGHTS)
    assert "bert.encoder.layer.0.output.dense.weight" in load_file(tmp_path / "new" / "model.safetensors")


@pytest.mark.parametrize("kind", ["sequence", "token"])
def test_the_scope_of_variables_tells_the_head(tmp_path, kind):
    """Old configurations name no class, or that of another model."""
    formats.write(tmp_path, CONFIG, random_weights(CONFIG, "sequence"))
    arrays = tensorflow_names(tmp_path)
    save_file(
        {name.replace("/model/", f"/tf_bert_for_{kind}_classification_1/"): value for name, value in arrays.items()},
        tmp_path / "model.safetensors",
    )
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architectures": ["BertForMultipleChoice"]}))
    with formats.open_checkpoint(tmp_path) as checkpoint:
        assert checkpoint.heads == {{"token": "tokens"}.get(kind, kind)}


def test_the_version_that_the_handle_names_is_read(models, tmp_path):
    shutil.copytree(models / "bert-encoder-saved-model", tmp_path / "a")
    versions = tmp_path / "a" / "saved_model"
    for version in ("9", "10"):
        shutil.copytree(versions / "1", versions / version)
    (versions / "11").mkdir()  # one that is not written yet
    for handle, version in {"a": "10", "a/saved_model/1": "1"}.items():
        with formats.open_checkpoint(tmp_path / handle) as checkpoint:
            assert checkpoint.path == versions / version / "variables" / "variables.index"


def test_a_saved_model_that_was_moved_has_its_configuration(models, tmp_path):
    """As in the folder of TF Serving. Keras 2 stored it, or config.json is copied there."""
    old = models / "bert-encoder-saved-model"
    moved = shutil.copytree(old / "saved_model" / "1", tmp_path / "bert" / "7")
    expected = read_all(old)
    assert same(read_all(moved)[2], expected[2])
    assert Preset(moved).config == Preset(old).config
    (moved / "keras_metadata.pb").write_bytes(b"")
    with error_names(ValueError, moved, "transformers", "config.json"):
        read_all(moved)
    shutil.copy(old / "config.json", moved)
    assert read_all(moved)[1] == expected[1]


OTHER_JSON = ("model_type", ["model_type"], {"model_type": 1}, {"config": "model_type"}, {"config": ["model_type"]})
OTHER_JSON += ({"config": {"config": "model_type"}}, {"config": {"config": ["model_type"]}})


@pytest.mark.parametrize("text", [*map(json.dumps, OTHER_JSON), '{"model_type"', "[" * 100_000 + '"model_type"'])
def test_a_saved_model_with_other_metadata(tmp_path, text):
    def message(field, content):  # whose length has three bytes of seven bits
        return (
            bytes([8 * field + 2, *(len(content) >> shift & 127 | 128 for shift in (0, 7)), len(content) >> 14])
            + content
        )

    path = tmp_path / "keras_metadata.pb"
    path.write_bytes(message(1, message(5, text.encode())))
    if text in map(json.dumps, OTHER_JSON):
        assert saved_model.stored_config(tmp_path) is None
    else:
        with error_names(ValueError, path, "JSON"):
            saved_model.stored_config(tmp_path)


@pytest.mark.parametrize(
    ("held", "words"),
    [
        (["tf_model.h5"], ["no config.json", "tf_model.h5"]),
        (["config.json"], ["tf_model.h5", "model.safetensors", "without weights"]),
        (["config.json", "flax_model.msgpack"], ["Flax", "from_flax=True"]),
    ],
)
def test_a_directory_that_cannot_be_read_says_what_it_lacks(tmp_path, held, words):
    for name in held:
        (tmp_path / name).write_text(json.dumps(hugging_face.values_of(CONFIG)))
    with error_names(FileNotFoundError, tmp_path, *words):
        formats.open_checkpoint(tmp_path)


def test_weights_of_another_family_are_refused(preset):
    """A configuration of transformers 2 may lack the family."""
    path = preset() / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "roberta"}))
    with error_names(ValueError, "tf_model.h5", "bert", "model_type", "'roberta'"):
        formats.open_checkpoint(path.parent)
