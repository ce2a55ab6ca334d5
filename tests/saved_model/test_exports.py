"""export_preprocessor and export_encoder: what is on disk, what can be chosen, and what is refused.

That the numbers are right is shown in test_golden_export.py, what can be called in tests/contract.
"""

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder, BertPreprocessor
from keras_bert.saved_model import export_encoder, export_preprocessor
from keras_bert.saved_model.hub_export import _make_bert_pack_inputs
from keras_bert.tasks import BertMaskedLM

from ..support import small
from ..support.messages import error_names

TEXTS = ["The film [MASK] was dull", "", "good"]
PACKED = {
    "input_word_ids": [[2, 75, 76, 3], [2, 77, 3, 0]],
    "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
    "input_type_ids": [[0, 0, 1, 1], [0, 0, 0, 0]],
}
PACKED = {name: tf.constant(value) for name, value in PACKED.items()}
WITH_POSITIONS = {**PACKED, "masked_lm_positions": tf.constant([[1], [2]])}


def masked_lm(**options):
    """Of one layer, with dropout."""
    keras.utils.set_random_seed(0)
    config = dataclasses.replace(small.CONFIG, num_layers=1, initializer_range=0.3)
    return BertMaskedLM(BertEncoder(config, **options))


def close(a, b, atol=1e-5):
    tf.nest.assert_same_structure(a, b)
    for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=atol)


@pytest.fixture
def existing(tmp_path):
    """What is a SavedModel by its looks."""
    (tmp_path / "exported/variables").mkdir(parents=True)
    (tmp_path / "exported/saved_model.pb").write_bytes(b"old")
    return tmp_path / "exported"


# What is on disk


@pytest.mark.parametrize("kind", ["preprocessor", "encoder"])
def test_nothing_inside_points_outside(exported, kind):
    """No path of this machine, nothing of Keras or Python, in any file."""
    checkout, directory = Path(__file__).parents[2], exported(kind)
    outside = [checkout, directory, directory.resolve(), sys.prefix, sys.base_prefix, Path.home(), ".py"]
    names = [b"keras_bert", b"PyFunc", b"Lambda", b"keras_api", b"_tf_keras"]
    files = [file for file in directory.rglob("*") if file.is_file()]
    assert {file.name for file in files} >= {"saved_model.pb", "variables.index"}
    for file in files:
        content = file.read_bytes()
        for text in (*(str(path).encode() for path in outside if len(str(path)) > 1), *names):
            assert text not in content, (file.name, text)


CLIENT = """
import json, sys
import tensorflow as tf, tensorflow_text
preprocessor, encoder = (tf.saved_model.load(f"{sys.argv[1]}/{name}") for name in ("preprocessor", "encoder"))
packed = preprocessor(tf.constant(json.loads(sys.argv[2])))
tokens = open(preprocessor.vocab_file.asset_path.numpy().decode()).read().split()
ours = [name for name in sys.modules if name.split(".")[0] == "keras_bert"]
outputs = [tensor.numpy().tolist() for tensor in (packed["input_word_ids"], encoder(packed)["default"])]
print(json.dumps([*outputs, tokens, ours]))
"""


@pytest.mark.slow
def test_copied_moved_and_in_another_process(exported, loaded, tmp_path):
    for kind in ("preprocessor", "encoder"):
        shutil.copytree(exported(kind), tmp_path / "here" / kind)
    shutil.move(tmp_path / "here", tmp_path / "there, with a space")
    command = [sys.executable, "-I", "-c", CLIENT, "there, with a space", json.dumps(TEXTS)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    ids, pooled, tokens, ours = json.loads(result.stdout.splitlines()[-1])
    packed = loaded(exported("preprocessor"))(tf.constant(TEXTS))
    np.testing.assert_array_equal(ids, packed["input_word_ids"])
    np.testing.assert_allclose(pooled, loaded(exported("encoder"))(packed)["default"], atol=1e-5)
    assert tokens == small.VOCABULARY
    assert ours == []


@pytest.mark.slow
def test_loaded_and_saved_again(exported, tmp_path):
    for kind in ("preprocessor", "encoder"):
        shutil.copytree(exported(kind), tmp_path / "first" / kind)
        loaded = tf.saved_model.load(tmp_path / "first" / kind)
        tf.saved_model.save(loaded, str(tmp_path / "again" / kind), signatures=loaded.signatures)
    shutil.rmtree(tmp_path / "first")
    old, new = (
        [tf.saved_model.load(find(kind)) for kind in ("preprocessor", "encoder")]
        for find in (exported, (tmp_path / "again").joinpath)
    )
    texts = tf.constant(TEXTS)
    close(new[0](texts), old[0](texts))
    assert new[0].tokenize(texts).to_list() == old[0].tokenize(texts).to_list()
    assert new[0].tokenize_with_offsets(texts)[1].to_list() == old[0].tokenize_with_offsets(texts)[1].to_list()
    close(new[0].tokenize.get_special_tokens_dict(), old[0].tokenize.get_special_tokens_dict())
    for length in ({}, {"seq_length": 6}):
        segments = [old[0].tokenize(texts)] * 2
        close(new[0].bert_pack_inputs(segments, **length), old[0].bert_pack_inputs(segments, **length))
    path = new[0].vocab_file.asset_path.numpy().decode()
    assert path.startswith(str(tmp_path / "again"))
    assert Path(path).read_text("utf-8").split() == small.VOCABULARY
    close(new[1](PACKED), old[1](PACKED))
    close(new[1](PACKED, training=False), old[1](PACKED))
    close(new[1].mlm(WITH_POSITIONS), old[1].mlm(WITH_POSITIONS))
    trained = new[1](PACKED, training=True), new[1].mlm(WITH_POSITIONS, training=True)
    assert all(np.abs(outputs["pooled_output"] - old[1](PACKED)["pooled_output"]).max() > 0.01 for outputs in trained)
    assert len(new[1].trainable_variables) == len(old[1].trainable_variables)


def stored(directory):
    """Names and values of the variables on disk."""
    reader = tf.train.load_checkpoint(str(directory / "variables/variables"))
    names = [name for name in reader.get_variable_to_shape_map() if name.endswith("VARIABLE_VALUE")]
    return {name: reader.get_tensor(name) for name in names if "save_counter" not in name}  # of every checkpoint


def size(directory):
    return (directory / "variables/variables.data-00000-of-00001").stat().st_size


def test_each_weight_is_on_disk_once(exported):
    weights = small.weights()
    values = stored(exported("encoder"))
    assert len(values) == len(weights) - 4 * small.CONFIG.num_layers  # query, key and value are one
    assert sum(value.size for value in values.values()) == sum(value.size for value in weights.values())
    count = sum(value.nbytes for value in weights.values())
    assert count < size(exported("encoder")) < count + 10_000  # the rest is the names
    assert stored(exported("preprocessor")) == {}


# What can be chosen


@pytest.mark.slow
def test_an_encoder_alone_without_pooler_frozen_in_half_the_size(tmp_path):
    encoder = small.encoder(num_layers=1, pooler=False)
    encoder.trainable = False
    before, outputs = encoder.get_weights(), encoder(PACKED)
    export_encoder(encoder, str(tmp_path / "not/there/yet"), dtype="bfloat16")
    for old, new in zip(before, encoder.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    encoder(PACKED, training=True)  # nor are the copies still in place of its weights

    encoder.set_weights([value - 1 for value in before])  # what comes later does not reach the export
    assert np.abs(encoder(PACKED)["sequence_output"] - outputs["sequence_output"]).max() > 0.5
    loaded = tf.saved_model.load(tmp_path / "not/there/yet")
    close(loaded(PACKED), outputs, atol=0.1)  # each weight is off by up to one part in 256
    assert {variable.dtype for variable in loaded.variables} == {tf.bfloat16}
    assert 2 * encoder.count_params() < size(tmp_path / "not/there/yet") < 2 * encoder.count_params() + 10_000
    assert {tensor.dtype for tensor in tf.nest.flatten(loaded(PACKED))} == {tf.float32}
    assert not hasattr(loaded, "mlm")
    assert not any("pooler" in variable.name for variable in loaded.variables)
    assert len(loaded.trainable_variables) == len(loaded.variables) == len(before)  # who loads it, chooses


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "dtype", "stored", "tolerance"),
    [("mixed_float16", "float16", tf.float16, 2e-2), ("bfloat16", None, tf.bfloat16, 0.15)],
)
def test_policies_and_half_the_size_with_a_head(tmp_path, policy, dtype, stored, tolerance):
    model = masked_lm(dtype=policy)
    export_encoder(model, tmp_path / "encoder", dtype=dtype)
    encoder = tf.saved_model.load(tmp_path / "encoder")
    assert {variable.dtype for variable in encoder.mlm.variables} == {stored}
    assert 2 * model.count_params() < size(tmp_path / "encoder") < 2 * model.count_params() + 10_000
    outputs = found, predicted = encoder(PACKED), encoder.mlm(WITH_POSITIONS)
    assert {tensor.dtype for tensor in tf.nest.flatten(outputs)} == {tf.float32}  # as TF Hub's interface asks
    # The graph is optimized as a whole, and rounds elsewhere than the same operations one by one.
    expected = tf.nest.map_structure(lambda tensor: tf.cast(tensor, tf.float32), model.encoder(PACKED))
    close(found, expected, tolerance)
    close(predicted["mlm_logits"], tf.cast(model(WITH_POSITIONS), tf.float32), 5 * tolerance)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("length", "truncation", "special_tokens", "words"),
    [(6, "waterfall", False, "good [ mask ] film"), (None, "error", True, "good [MASK] film")],
)
def test_preprocessors_of_every_kind(tmp_path, length, truncation, special_tokens, words):
    options = {"max_sequence_length": 24, "pad_to_multiple_of": 4}
    tokenizer = small.tokenizer(special_tokens_in_text=special_tokens)
    preprocessor = BertPreprocessor(tokenizer, length, truncation, **options)
    export_preprocessor(preprocessor, tmp_path)
    loaded = tf.saved_model.load(tmp_path)
    text = tf.constant(["good [MASK] film"])
    tokens = [[tokenizer.vocabulary[number] for number in word] for word in loaded.tokenize(text).to_list()[0]]
    assert ["".join(token.removeprefix("##") for token in word) for word in tokens] == words.split()
    close(loaded(text), preprocessor(text))
    short = ["good film", ""]
    close(loaded(tf.constant(short)), preprocessor(short))
    assert loaded.signatures["serving_default"].structured_outputs["input_mask"].shape.as_list() == [None, length]
    long = tf.constant(["the film was not good " * 9])
    if truncation == "error":
        with error_names(tf.errors.InvalidArgumentError, "too long", "truncation is error"):
            loaded(long)
        with error_names(tf.errors.InvalidArgumentError, "too long", "truncation is error"):
            loaded.bert_pack_inputs([loaded.tokenize(long)] * 2, seq_length=12)
    else:
        close(loaded(long), preprocessor(long))


def test_packing_cuts_as_the_preprocessor_does():
    ids = tf.ragged.constant([list(range(10, 30))], row_splits_dtype=tf.int64)
    preprocessor = BertPreprocessor(small.tokenizer(), 12, "waterfall")
    packed = _make_bert_pack_inputs(preprocessor).__call__([ids, ids], tf.constant(12))
    close(packed, preprocessor.pack((ids, ids)))
    assert packed["input_type_ids"].numpy().sum() == 1  # the first text has all of the room


# What is refused


def test_weights_that_float16_cannot_hold(tmp_path):
    model = masked_lm()
    values = model.encoder.pooler.kernel.numpy()
    values[3, 4] = 70_000
    model.encoder.pooler.kernel.assign(values)
    with error_names(ValueError, "pooler/kernel", "7e+04", "float16", "bfloat16"):
        export_encoder(model, tmp_path / "encoder", dtype="float16")
    with error_names(ValueError, "dtype", "'int8'", "float32, float16, bfloat16"):
        export_encoder(model, tmp_path / "encoder", dtype="int8")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("model", [keras.Sequential([keras.layers.Dense(1)]), "all-MiniLM-L6-v2", None])
def test_what_is_no_encoder(model, tmp_path):
    with error_names(TypeError, type(model).__name__, "BertEncoder", "BertMaskedLM"):
        export_encoder(model, tmp_path / "encoder")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("export", [export_preprocessor, export_encoder])
def test_what_is_there_is_not_replaced(existing, tmp_path, export):
    """It is if it is a SavedModel, and with overwrite=True: as in the fixture `exported`."""
    what = small.preprocessor() if export is export_preprocessor else BertEncoder(BertConfig(15, 8, 1, 1, 8))
    with error_names(FileExistsError, existing, "overwrite"):
        export(what, existing)
    assert (existing / "saved_model.pb").read_bytes() == b"old"
    shutil.rmtree(existing)
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis/chapter 1").write_text("In the beginning")
    with error_names(FileExistsError, tmp_path / "thesis", "no saved_model.pb", "not replaced"):
        export(what, tmp_path / "thesis", overwrite=True)
    with error_names(FileExistsError, tmp_path / "thesis/chapter 1", "not replaced"):
        export(what, tmp_path / "thesis/chapter 1", overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["thesis", "chapter 1"]


class BrokenPreprocessor(BertPreprocessor):
    def call(self, texts):
        raise RuntimeError("broken on purpose")


class BrokenEncoder(BertEncoder):
    def call(self, inputs, training=None):
        raise RuntimeError("broken on purpose")


@pytest.mark.parametrize("export", [export_preprocessor, export_encoder])
def test_a_failure_leaves_nothing_half_written(existing, export):
    broken = (
        BrokenPreprocessor(small.tokenizer(), sequence_length=8)
        if export is export_preprocessor
        else BrokenEncoder(BertConfig(15, 8, 1, 1, 8))
    )
    for directory in (existing, existing.with_name("new")):
        with error_names(RuntimeError, "on purpose"):
            export(broken, directory, overwrite=True)
    assert [path.name for path in existing.parent.iterdir()] == ["exported"]
    assert sorted(path.name for path in existing.iterdir()) == ["saved_model.pb", "variables"]
    assert (existing / "saved_model.pb").read_bytes() == b"old"


def test_bad_text_is_named_by_its_row(exported, loaded):
    with error_names(tf.errors.InvalidArgumentError, "not valid UTF-8", "in row] [1]"):
        loaded(exported("preprocessor"))(tf.constant(["a", b"\xff\xfe"]))
