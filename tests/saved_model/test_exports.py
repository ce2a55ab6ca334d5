"""export_preprocessor and export_encoder: what is on disk, where it may go, and what is refused."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.protobuf import saved_model_pb2

from keras_bert import BertConfig, BertEncoder, BertPreprocessor
from keras_bert.saved_model import export_encoder, export_preprocessor
from keras_bert.tasks import BertMaskedLM
from keras_bert.text import WordPieceTokenizer

VOCABULARY = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcde", *(f"##{letter}" for letter in "abcde")]
TEXTS = ["ab c [MASK] dé", "", "a b c d e a b c d e"]
PACKED = {
    "input_word_ids": [[2, 5, 6, 3], [2, 7, 3, 0]],
    "input_mask": [[1, 1, 1, 1], [1, 1, 1, 0]],
    "input_type_ids": [[0, 0, 1, 1], [0, 0, 0, 0]],
}
PACKED = {name: tf.constant(value) for name, value in PACKED.items()}
WITH_POSITIONS = {**PACKED, "masked_lm_positions": tf.constant([[1], [2]])}


def small_model(**options):
    keras.utils.set_random_seed(0)
    config = BertConfig(
        vocab_size=15,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        intermediate_size=32,
        max_positions=24,
        initializer_range=0.5,
    )
    return BertMaskedLM(BertEncoder(config, **options))


@pytest.fixture(scope="module")
def preprocessor():
    return BertPreprocessor(WordPieceTokenizer(VOCABULARY), sequence_length=8)


@pytest.fixture(scope="module")
def model():
    return small_model()


@pytest.fixture(scope="module")
def exports(preprocessor, model, tmp_path_factory):
    directory = tmp_path_factory.mktemp("exports")
    export_preprocessor(preprocessor, directory / "preprocessor")
    export_encoder(model, directory / "encoder")
    return directory


def close(a, b, atol=1e-5):
    tf.nest.assert_same_structure(a, b)
    for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=atol)


def test_the_exports_compute_what_the_models_do(exports, preprocessor, model):
    close(tf.saved_model.load(exports / "preprocessor")(tf.constant(TEXTS)), preprocessor(TEXTS))
    encoder = tf.saved_model.load(exports / "encoder")
    close(encoder(PACKED), model.encoder(PACKED))
    close(encoder.mlm(WITH_POSITIONS)["mlm_logits"], model(WITH_POSITIONS))


def test_exporting_leaves_the_model_as_it_was(model, tmp_path):
    before = [value.copy() for value in model.get_weights()]
    export_encoder(model, tmp_path / "encoder")
    for old, new in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(old, new)
    model.encoder(PACKED, training=True)  # nor are the copies still in place of its weights


@pytest.mark.slow
def test_later_changes_of_the_model_do_not_reach_the_export(tmp_path):
    model = small_model()
    export_encoder(model, tmp_path / "encoder")
    before = model.encoder(PACKED)
    model.set_weights([value + 1 for value in model.get_weights()])
    close(tf.saved_model.load(tmp_path / "encoder")(PACKED), before)


@pytest.mark.parametrize("kind", ["preprocessor", "encoder"])
def test_nothing_inside_points_outside(exports, kind):
    """No path of this machine, nothing of Keras or Python, in any file."""
    checkout = Path(__file__).parents[2]
    outside = [checkout, exports, exports.resolve(), sys.prefix, sys.base_prefix, Path.home(), ".py"]
    names = [b"keras_bert", b"PyFunc", b"Lambda", b"keras_api", b"_tf_keras"]
    files = [file for file in (exports / kind).rglob("*") if file.is_file()]
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
pieces = open(preprocessor.vocab_file.asset_path.numpy().decode()).read().split()
ours = [name for name in sys.modules if name.split(".")[0] == "keras_bert"]
outputs = [tensor.numpy().tolist() for tensor in (packed["input_word_ids"], encoder(packed)["default"])]
print(json.dumps([*outputs, pieces, ours]))
"""


@pytest.mark.slow
def test_copied_moved_and_in_another_process(exports, preprocessor, model, tmp_path):
    shutil.copytree(exports, tmp_path / "here")
    shutil.move(tmp_path / "here", tmp_path / "there, with a space")
    command = [sys.executable, "-I", "-c", CLIENT, "there, with a space", json.dumps(TEXTS)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr[-2000:]
    ids, pooled, pieces, ours = json.loads(result.stdout.splitlines()[-1])
    packed = preprocessor(TEXTS)
    np.testing.assert_array_equal(ids, packed["input_word_ids"])
    np.testing.assert_allclose(pooled, model.encoder(packed)["default"], atol=1e-5)
    assert pieces == VOCABULARY
    assert ours == []


@pytest.mark.slow
def test_loaded_and_saved_again(exports, tmp_path):
    for kind in ("preprocessor", "encoder"):
        shutil.copytree(exports / kind, tmp_path / "first" / kind)
        loaded = tf.saved_model.load(tmp_path / "first" / kind)
        tf.saved_model.save(loaded, str(tmp_path / "again" / kind), signatures=loaded.signatures)
    shutil.rmtree(tmp_path / "first")
    old, new = (
        [tf.saved_model.load(directory / kind) for kind in ("preprocessor", "encoder")]
        for directory in (exports, tmp_path / "again")
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
    assert Path(path).read_text("utf-8").split() == VOCABULARY
    close(new[1](PACKED), old[1](PACKED))
    close(new[1](PACKED, training=False), old[1](PACKED))
    close(new[1].mlm(WITH_POSITIONS), old[1].mlm(WITH_POSITIONS))
    trained = new[1](PACKED, training=True), new[1].mlm(WITH_POSITIONS, training=True)
    assert all(np.abs(outputs["pooled_output"] - old[1](PACKED)["pooled_output"]).max() > 0.01 for outputs in trained)
    assert len(new[1].trainable_variables) == len(old[1].trainable_variables)


def functions_with(operation, directory):
    """How many functions of the graph have the operation."""
    saved = saved_model_pb2.SavedModel.FromString((directory / "saved_model.pb").read_bytes())
    functions = saved.meta_graphs[0].graph_def.library.function
    return sum(any(node.op == operation for node in function.node_def) for function in functions)


def test_the_graph_is_written_as_often_as_need_be(exports):
    """Or the file would be twice as large, and take twice as long to write and to load."""
    # Training, not training, and the signature, for which TensorFlow traces anew. `.mlm` calls these.
    assert functions_with("Softmax", exports / "encoder") == 3
    # The call, the signature, and packing one segment and two. Packing words calls packing pieces.
    assert functions_with("RaggedTensorToTensor", exports / "preprocessor") == 4


def stored(directory):
    """Names and values of the variables on disk."""
    reader = tf.train.load_checkpoint(str(directory / "variables/variables"))
    names = [name for name in reader.get_variable_to_shape_map() if name.endswith("VARIABLE_VALUE")]
    return {name: reader.get_tensor(name) for name in names if "save_counter" not in name}  # of every checkpoint


def test_each_weight_is_on_disk_once(exports, model):
    values = stored(exports / "encoder")
    assert len(values) == len(model.weights)
    assert sum(value.size for value in values.values()) == model.count_params()
    size = (exports / "encoder/variables/variables.data-00000-of-00001").stat().st_size
    weights = 4 * model.count_params()
    assert weights < size < weights + 10_000  # the rest is the names
    assert stored(exports / "preprocessor") == {}


def test_variables_are_named_by_their_place_in_the_model(exports, model):
    encoder = tf.saved_model.load(exports / "encoder")
    names = [variable.name for variable in encoder.variables]
    assert names[0] == "embeddings/word/embeddings:0"
    assert "block_1/attention/qkv/kernel:0" in names
    assert {variable.name for variable in encoder.mlm.variables} - set(names) == {
        f"masked_lm_head/{name}:0" for name in ("bias", "norm/beta", "norm/gamma", "transform/bias", "transform/kernel")
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    # The significands have 11 and 8 bits: each weight is off by up to one part in 2,048 or 256, the outputs, of size 1
    # to 3 after two layers of large weights, by some ten times as much.
    ("dtype", "tolerance"),
    [("float16", 1e-2), ("bfloat16", 0.1), ("float32", 1e-5)],
)
def test_half_the_size(exports, model, tmp_path, dtype, tolerance):
    export_encoder(model, tmp_path / "encoder", dtype=dtype)
    encoder = tf.saved_model.load(tmp_path / "encoder")
    assert {variable.dtype for variable in encoder.mlm.variables} == {tf.as_dtype(dtype)}
    size, full = (
        (directory / "encoder/variables/variables.data-00000-of-00001").stat().st_size
        for directory in (tmp_path, exports)
    )
    saved = full - size
    assert saved == pytest.approx((4 - tf.as_dtype(dtype).size) * model.count_params(), abs=200)
    outputs = encoder.mlm(WITH_POSITIONS)
    assert {tensor.dtype for tensor in tf.nest.flatten(outputs)} == {tf.float32}
    close(encoder(PACKED), model.encoder(PACKED), tolerance)
    np.testing.assert_allclose(outputs["mlm_logits"], model(WITH_POSITIONS), rtol=tolerance, atol=5 * tolerance)


def test_weights_that_float16_cannot_hold(tmp_path):
    model = small_model()
    values = model.encoder.pooler.kernel.numpy()
    values[3, 4] = 70_000
    model.encoder.pooler.kernel.assign(values)
    with pytest.raises(ValueError, match=r"^pooler/kernel holds 7e\+04, more than float16 can hold; .*bfloat16"):
        export_encoder(model, tmp_path / "encoder", dtype="float16")
    assert list(tmp_path.iterdir()) == []
    export_encoder(model, tmp_path / "encoder", dtype="bfloat16")


def test_unknown_dtype(model, tmp_path):
    with pytest.raises(ValueError, match="dtype is 'int8'; weights can be stored as float32, float16, bfloat16"):
        export_encoder(model, tmp_path / "encoder", dtype="int8")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_dtype_policies(tmp_path, policy):
    model = small_model(dtype=policy)
    export_encoder(model, tmp_path / "encoder")
    encoder = tf.saved_model.load(tmp_path / "encoder")
    want = tf.bfloat16 if policy == "bfloat16" else tf.float32
    assert {variable.dtype for variable in encoder.variables} == {want}
    got, expected = encoder(PACKED), model.encoder(PACKED)
    assert {tensor.dtype for tensor in tf.nest.flatten(got)} == {tf.float32}  # as TF Hub's interface asks
    # The graph is optimized as a whole, and rounds elsewhere than the same operations one by one.
    expected = tf.nest.map_structure(lambda tensor: tf.cast(tensor, tf.float32), expected)
    close(got, expected, 2e-2 if policy == "mixed_float16" else 0.15)


def test_what_was_frozen_can_be_trained_again(tmp_path):
    model = small_model()
    model.encoder.trainable = False
    export_encoder(model, tmp_path / "encoder")
    encoder = tf.saved_model.load(tmp_path / "encoder")
    assert len(encoder.trainable_variables) == len(encoder.variables) == len(model.encoder.weights)


def test_an_encoder_without_head_or_pooler(tmp_path):
    encoder = BertEncoder(BertConfig(15, 16, 1, 2, 32, max_positions=24, pooler=False))
    export_encoder(encoder, tmp_path / "encoder")
    loaded = tf.saved_model.load(tmp_path / "encoder")
    assert not hasattr(loaded, "mlm")
    close(loaded(PACKED), encoder(PACKED))
    assert not any("pooler" in variable.name for variable in loaded.variables)


@pytest.mark.parametrize("model", [keras.Sequential([keras.layers.Dense(1)]), "all-MiniLM-L6-v2", None])
def test_what_is_no_encoder(model, tmp_path):
    message = f"got a {type(model).__name__}; export_encoder takes a BertEncoder or a BertMaskedLM"
    with pytest.raises(TypeError, match=message):
        export_encoder(model, tmp_path / "encoder")
    assert list(tmp_path.iterdir()) == []


def snapshot(directory):
    return {path.relative_to(directory): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def export(kind, what, directory, **options):
    (export_encoder if kind == "encoder" else export_preprocessor)(what[kind], directory, **options)


@pytest.fixture
def existing(tmp_path):
    """What is a SavedModel by its looks."""
    (tmp_path / "exported/variables").mkdir(parents=True)
    (tmp_path / "exported/saved_model.pb").write_bytes(b"old")
    return tmp_path / "exported"


@pytest.mark.parametrize("kind", ["preprocessor", "encoder"])
def test_replacing(exports, preprocessor, model, existing, kind):
    what, before = {"preprocessor": preprocessor, "encoder": model}, snapshot(existing)
    with pytest.raises(FileExistsError, match="exported exists; pass overwrite=True"):
        export(kind, what, existing)
    assert snapshot(existing) == before
    export(kind, what, existing, overwrite=True)
    assert snapshot(existing).keys() == snapshot(exports / kind).keys()
    assert (existing / "saved_model.pb").read_bytes() != b"old"
    assert [path.name for path in existing.parent.iterdir()] == ["exported"]


@pytest.mark.parametrize("kind", ["preprocessor", "encoder"])
def test_something_else_is_never_replaced(preprocessor, model, tmp_path, kind):
    what, directory = {"preprocessor": preprocessor, "encoder": model}, tmp_path / "thesis"
    directory.mkdir()
    (directory / "chapter 1").write_text("In the beginning")
    with pytest.raises(FileExistsError, match=r"thesis exists and holds no saved_model\.pb: .* not be replaced"):
        export(kind, what, directory, overwrite=True)
    assert [path.name for path in tmp_path.rglob("*")] == ["thesis", "chapter 1"]
    (tmp_path / "file").write_text("a file")
    with pytest.raises(FileExistsError, match="not be replaced"):
        export(kind, what, tmp_path / "file", overwrite=True)


def test_directories_are_made_and_empty_ones_filled(model, tmp_path):
    (tmp_path / "empty").mkdir()
    export_encoder(model, tmp_path / "empty")
    export_encoder(model, str(tmp_path / "not/there/yet"))
    assert snapshot(tmp_path / "empty").keys() == snapshot(tmp_path / "not/there/yet").keys()


@pytest.mark.parametrize("kind", ["preprocessor", "encoder"])
def test_a_failure_leaves_nothing_half_written(preprocessor, existing, kind):
    before = snapshot(existing)
    broken = {"preprocessor": broken_preprocessor(preprocessor), "encoder": broken_model()}
    with pytest.raises(RuntimeError, match="broken on purpose"):
        export(kind, broken, existing, overwrite=True)
    with pytest.raises(RuntimeError, match="broken on purpose"):
        export(kind, broken, existing.with_name("new"))
    assert snapshot(existing) == before
    assert [path.name for path in existing.parent.iterdir()] == ["exported"]


class BrokenPreprocessor(BertPreprocessor):
    def call(self, texts):
        raise RuntimeError("broken on purpose")


def broken_preprocessor(preprocessor):
    return BrokenPreprocessor(preprocessor.tokenizer, sequence_length=8)


class BrokenMaskedLM(BertMaskedLM):
    def logits(self, sequence_output, positions):
        raise RuntimeError("broken on purpose")


def broken_model():
    return BrokenMaskedLM(small_model().encoder)


@pytest.mark.parametrize(
    ("length", "truncation"),
    [
        (6, "waterfall"),
        pytest.param(None, "error", marks=pytest.mark.slow),
        pytest.param(None, "longest_first", marks=pytest.mark.slow),
        pytest.param(24, "round_robin", marks=pytest.mark.slow),
    ],
)
def test_preprocessors_of_every_kind(tmp_path, length, truncation):
    options = {"max_sequence_length": 24, "pad_to_multiple_of": 4}
    preprocessor = BertPreprocessor(WordPieceTokenizer(VOCABULARY), length, truncation, **options)
    export_preprocessor(preprocessor, tmp_path / "preprocessor")
    loaded = tf.saved_model.load(tmp_path / "preprocessor")
    short = ["ab c", ""]
    close(loaded(tf.constant(short)), preprocessor(short))
    assert loaded.signatures["serving_default"].structured_outputs["input_mask"].shape.as_list() == [None, length]
    long = ["a b c d e " * 9]
    segments = [loaded.tokenize(tf.constant(each)) for each in (long, TEXTS[2:])]
    if truncation == "error":
        with pytest.raises(tf.errors.InvalidArgumentError, match="too long, and truncation is error"):
            loaded(tf.constant(long))
        with pytest.raises(tf.errors.InvalidArgumentError, match="too long, and truncation is error"):
            loaded.bert_pack_inputs(segments, seq_length=12)
    else:
        close(loaded(tf.constant(long)), preprocessor(long))
        want = BertPreprocessor(preprocessor.tokenizer, 12, truncation)((long, TEXTS[2:]))
        close(loaded.bert_pack_inputs(segments, seq_length=12), want)


@pytest.mark.slow
def test_special_tokens_in_text(exports, tmp_path):
    tokenizer = WordPieceTokenizer(VOCABULARY, special_tokens_in_text=True)
    export_preprocessor(BertPreprocessor(tokenizer, sequence_length=8), tmp_path / "preprocessor")
    text = tf.constant(["ab [MASK] c"])
    left_out, taken = (tf.saved_model.load(directory / "preprocessor") for directory in (exports, tmp_path))
    assert left_out.tokenize(text).to_list() == [[[5, 11], [1], [1], [1], [7]]]
    assert taken.tokenize(text).to_list() == [[[5, 11], [4], [7]]]
    assert taken(text)["input_word_ids"].numpy().tolist() == [[2, 5, 11, 4, 7, 3, 0, 0]]


def test_bad_text_is_named_by_its_row(exports):
    loaded = tf.saved_model.load(exports / "preprocessor")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"not valid UTF-8.*in row\] \[1\]"):
        loaded(tf.constant(["a", b"\xff\xfe"]))
