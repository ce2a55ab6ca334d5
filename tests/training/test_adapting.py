"""Frozen layers and LoRA: what is trained and what is not, and that nothing of it is left in the model afterwards."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertConfig, BertEncoder
from keras_bert.encoder.weights import values_by_name
from keras_bert.optimizers import AdamW
from keras_bert.saved_model import export_serving
from keras_bert.training import adapting, fine_tune

from ..support import reviews, small
from ..support.messages import error_names
from ..support.reviews import classifier, examples

pytestmark = pytest.mark.slow

SETTINGS = {**reviews.SETTINGS, "frozen_layers": 0}
TEXTS = ["good plot", "bad", "dull warm cold"]


def names(variables):
    return {variable.path.split("/", 1)[1] for variable in variables}


def parts(variables):
    """Parts of the model that some of the variables are in."""
    return {name.split("/")[0].replace("kernel", "head") for name in names(variables)}


def changed(learner, before):
    after = values_by_name(learner.encoder)
    return {name for name in after if not np.array_equal(after[name], before[name])}


def let_lora_change_something(learner):
    generator = np.random.default_rng(0)
    for variable in learner.encoder.weights:
        if variable.name == "lora_kernel_b":
            variable.assign(generator.normal(size=variable.shape))


@pytest.fixture(scope="module")
def two_layers():
    """A model that tests leave as it is."""
    return classifier(num_layers=2)


def logits(learner):
    return learner(TEXTS).numpy()


def test_lora_changes_the_kernels_for_query_key_and_value_and_nothing_else_of_the_layers(untraced):
    learner = classifier()
    before = values_by_name(learner.encoder)
    head = learner.head.get_weights()
    trainable = names(learner.trainable_variables)
    fine_tune(learner, examples(8), **{**SETTINGS, "lora_rank": 2, "epochs": 1})
    kernel = "block_0/attention/qkv/kernel"
    assert changed(learner, before) == {kernel, "pooler/kernel", "pooler/bias"}
    assert np.linalg.matrix_rank(values_by_name(learner.encoder)[kernel] - before[kernel], tol=1e-5) == 2
    assert not any(map(np.array_equal, learner.head.get_weights(), head))
    # It is an ordinary model again, all of which can be trained.
    assert names(learner.trainable_variables) == trainable
    assert names(learner.weights) == trainable


def test_lora_in_a_keras_model_of_your_own(tmp_path, untraced):
    """Files that are written inside the block, and the model after it, answer as the model that was trained."""
    encoder = BertEncoder(BertConfig.tiny())
    ids = keras.Input([None], dtype="int32")
    model = keras.Model(ids, keras.layers.Dense(2)(encoder({"input_word_ids": ids})["pooled_output"]))
    before, trainable = values_by_name(encoder), names(model.trainable_variables)
    x, y = np.array([[2, 5, 6, 3], [2, 7, 8, 3]]), np.array([0, 1])
    with adapting(encoder, lora_rank=2):
        model.compile(AdamW(0.1), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
        model.fit(x, y, epochs=2, verbose=0)
        inside = model.predict(x, verbose=0)
        model.save(tmp_path / "inside.keras")
    kernel = "block_0/attention/qkv/kernel"
    change = {name: value - before[name] for name, value in values_by_name(encoder).items()}
    kernels = {kernel.replace("0", str(i)) for i in range(encoder.config.num_layers)}
    assert {name for name in change if change[name].any()} == {"pooler/kernel", "pooler/bias", *kernels}
    assert np.linalg.matrix_rank(change[kernel], tol=1e-5) == 2
    assert names(model.trainable_variables) == trainable
    model.save(tmp_path / "after.keras")
    loaded = [keras.saving.load_model(tmp_path / f"{name}.keras", compile=False) for name in ("inside", "after")]
    for each in (model, *loaded):
        assert names(each.trainable_variables) == trainable
        np.testing.assert_allclose(each(x), inside, atol=1e-5)


def test_lora_learns():
    learner = classifier(num_layers=2)
    x, y = examples()
    history = fine_tune(learner, (x, y), (x, y), lora_rank=2, **{**SETTINGS, "epochs": 6})
    assert history[-1]["loss"] < history[0]["loss"] / 2
    accuracy = np.mean([answer["label"] == label for answer, label in zip(learner.classify(x), y, strict=True)])
    assert accuracy == max(epoch["val_accuracy"] for epoch in history) > 0.9
    before = values_by_name(learner.encoder)
    fine_tune(learner, (x, y), lora_rank=1, **{**SETTINGS, "epochs": 1})  # and once more
    assert "block_0/attention/qkv/kernel" in changed(learner, before)


def test_answers_are_those_of_the_model_as_it_is():
    """Also where they were traced before LoRA was there, and where they were traced with it."""
    learner = classifier()
    first = learner.classify(TEXTS)
    traced = tf.function(lambda: learner(tf.constant(TEXTS)))
    with adapting(learner, lora_rank=2):
        assert learner.classify(TEXTS) == first  # B starts at zero
        let_lora_change_something(learner)
        changed = learner.classify(TEXTS)
        assert max(abs(a["probability"] - b["probability"]) for a, b in zip(changed, first, strict=True)) > 1e-3
        inside = logits(learner)
        np.testing.assert_allclose(traced(), inside, atol=1e-5)
    np.testing.assert_allclose(logits(learner), inside, atol=1e-5)
    np.testing.assert_allclose(traced(), inside, atol=1e-5)
    for answer, other in zip(learner.classify(TEXTS), changed, strict=True):
        assert answer == {"label": other["label"], "probability": pytest.approx(other["probability"], abs=1e-5)}


def test_files_hold_the_merged_kernels(tmp_path):
    """Also those that a callback writes."""
    learner = classifier()
    with adapting(learner, lora_rank=2):
        let_lora_change_something(learner)
        learner.save_preset(tmp_path / "preset")
        learner.save_checkpoint(tmp_path / "tf1", "tf1")
        learner.save(tmp_path / "model.keras")
    want = values_by_name(learner.encoder)
    for encoder in (
        BertEncoder.from_preset(tmp_path / "preset"),
        BertEncoder.from_preset(tmp_path / "tf1"),
        keras.saving.load_model(tmp_path / "model.keras").encoder,
    ):
        for name, value in values_by_name(encoder).items():
            np.testing.assert_allclose(value, want[name], atol=1e-6)


def test_a_saved_model_holds_the_merged_kernels(tmp_path):
    learner = classifier()
    with adapting(learner, lora_rank=2):
        let_lora_change_something(learner)
        export_serving(learner, tmp_path)
    serve = tf.saved_model.load(tmp_path / "1").signatures["serving_default"]
    want = tf.nn.softmax(logits(learner))
    np.testing.assert_allclose(serve(text=tf.constant(TEXTS))["probabilities"], want, atol=1e-5)


def test_mixed_precision_rounds_no_kernel():
    learner = classifier()
    config = learner.encoder.config
    learner = BertClassifier(BertEncoder(config, dtype="mixed_bfloat16"), learner.preprocessor, learner.labels)
    dense = learner.encoder.blocks[0].attention.qkv
    before = dense.kernel.numpy()
    with adapting(learner, lora_rank=2):
        let_lora_change_something(learner)
        expected = before + dense.lora_kernel_a.numpy() @ dense.lora_kernel_b.numpy()
    np.testing.assert_allclose(dense.kernel, expected, atol=1e-6)


def test_another_alpha_is_heeded():
    learner = classifier()
    dense = learner.encoder.blocks[0].attention.qkv
    dense.enable_lora(2, lora_alpha=8)
    let_lora_change_something(learner)
    want = dense.kernel.numpy()
    values = values_by_name(learner.encoder)
    assert not any("lora" in name for name in values)
    np.testing.assert_allclose(values["block_0/attention/qkv/kernel"], want, atol=1e-6)
    with error_names(ValueError, "LoRA", "already enabled", "merge"), adapting(learner, lora_rank=2):
        pass


def test_lora_of_an_embedding_is_merged(tmp_path, untraced):
    encoder = small.encoder(num_layers=1)
    words = encoder.embeddings.word_embeddings
    words.enable_lora(2, lora_alpha=8)
    words.lora_embeddings_b.assign(np.ones(words.lora_embeddings_b.shape))
    want = words.embeddings.numpy()
    encoder.save_preset(tmp_path)
    np.testing.assert_allclose(BertEncoder.from_preset(tmp_path).embeddings.word_embeddings.embeddings, want, atol=1e-6)


def test_frozen_layers_are_not_trained(two_layers):
    with adapting(two_layers, frozen_layers=1):
        assert parts(two_layers.encoder.trainable_variables) == {"block_1", "pooler"}
    with adapting(two_layers, frozen_layers=2):
        assert parts(two_layers.encoder.trainable_variables) == {"pooler"}
    assert parts(two_layers.encoder.trainable_variables) == {"embeddings", "block_0", "block_1", "pooler"}


def test_both(two_layers):
    with adapting(two_layers, frozen_layers=1, lora_rank=2):
        lora = {name for name in names(two_layers.encoder.trainable_variables) if not name.startswith("pooler")}
        assert lora == {f"block_1/attention/qkv/lora_kernel_{x}" for x in "ab"}
        optimizer = AdamW(1.0, layer_decay=0.5, num_layers=2)
        optimizer.build(two_layers.trainable_variables)
        rates = zip(two_layers.trainable_variables, optimizer._rate_factors, strict=True)
        found = {variable.path.split("/")[1]: rate for variable, rate in rates if "encoder" in variable.path}
        assert found == {"block_1": 0.5, "pooler": 1.0}


def test_what_was_frozen_before_stays_frozen():
    learner = classifier()
    learner.encoder.blocks[0].intermediate.trainable = False
    learner.encoder.pooler.trainable = False
    trainable = names(learner.trainable_variables)
    for settings in ({"frozen_layers": 1}, {"lora_rank": 2}):
        with pytest.raises(KeyError), adapting(learner, **settings):  # whatever happens inside
            raise KeyError
        assert names(learner.trainable_variables) == trainable
        assert not any("lora" in variable.path for variable in learner.variables)


def test_shared_layers_are_frozen_together():
    """ALBERT's: four layers, two after two of the same weights."""
    learner = classifier(config={"family": "albert", "num_layers": 4, "num_groups": 2})
    with adapting(learner, frozen_layers=2):
        assert parts(learner.encoder.trainable_variables) == {"block_1", "pooler"}
    with error_names(ValueError, "frozen_layers", 1, "layers 1 and 2 share", "0, 2 or 4"):
        fine_tune(learner, examples(), **SETTINGS | {"frozen_layers": 1})
    with adapting(learner, lora_rank=1):
        assert len(learner.encoder.trainable_variables) == 2 * 2 + 2
