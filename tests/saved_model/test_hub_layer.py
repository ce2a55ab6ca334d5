"""HubLayer: what it computes, around our exports, around TF Hub's own SavedModels, and around a toy."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import HubLayer

from ..support.hub import BAD, GOOD, IDS, NAMES, TEXTS


@pytest.fixture(scope="module")
def masked_lm(models):
    """Not to be trained."""
    return HubLayer(models["encoder"], endpoint="mlm")


def test_a_preprocessor_computes_what_the_saved_model_does(models, preprocessor, loaded):
    saved_model = loaded(models["preprocessor"])
    expected = saved_model(TEXTS)
    for texts in (TEXTS, GOOD + BAD, np.array(GOOD + BAD), tuple(GOOD + BAD), np.array(GOOD + BAD, object)):
        for name, ids in preprocessor(texts).items():
            np.testing.assert_array_equal(ids, expected[name])
    assert preprocessor([])["input_mask"].shape[0] == 0
    mapped = next(iter(tf.data.Dataset.from_tensors(TEXTS).map(preprocessor)))
    np.testing.assert_array_equal(mapped["input_word_ids"], expected["input_word_ids"])


def test_an_encoder_computes_what_the_saved_model_does(models, encoder, loaded):
    saved_model = loaded(models["encoder"])
    expected = saved_model({name: tf.constant(IDS[name], tf.int32) for name in NAMES})
    for kind in (np.int64, np.uint16, np.int32):
        outputs = encoder({name: IDS[name].astype(kind) for name in NAMES})
        assert outputs.keys() == expected.keys() == {"pooled_output", "sequence_output", "encoder_outputs", "default"}
        np.testing.assert_array_equal(outputs["encoder_outputs"][0], expected["encoder_outputs"][0])
        np.testing.assert_array_equal(outputs["pooled_output"], expected["pooled_output"])
    lists = {name: IDS[name].tolist() for name in NAMES} | {"input_mask": IDS["input_mask"] > 0}
    np.testing.assert_array_equal(encoder(lists)["sequence_output"], expected["sequence_output"])


@pytest.mark.parametrize(("batch", "length"), [(None, 9), (3, None)])
def test_shapes_are_known_beforehand(models, encoder, masked_lm, batch, length):
    tokens, size = next(weight.shape for weight in encoder.weights if "word" in weight.name)
    inputs = {name: keras.Input((length,), batch, dtype="int32") for name in NAMES}
    outputs = encoder(inputs)
    assert isinstance(outputs["encoder_outputs"], list)
    assert [each.shape for each in outputs["encoder_outputs"]] == [(batch, length, size)] * 2
    assert (outputs["sequence_output"].shape, outputs["pooled_output"].shape) == ((batch, length, size), (batch, size))
    assert outputs["pooled_output"].dtype == "float32"
    inputs["masked_lm_positions"] = keras.Input((5,), batch, dtype="int64")
    logits = masked_lm(inputs)["mlm_logits"]
    assert logits.shape in [(batch, 5, tokens), (batch, None, tokens)]


@pytest.mark.slow
def test_endpoints_of_a_preprocessor(models, loaded):
    saved_model = loaded(models["preprocessor"])
    tokenize = HubLayer(models["preprocessor"], endpoint="tokenize")
    pack = HubLayer(models["preprocessor"], endpoint="bert_pack_inputs", arguments={"seq_length": 9})
    tokens = saved_model.tokenize(TEXTS)
    assert tokenize(GOOD + BAD).to_list() == tokens.to_list()
    expected = saved_model.bert_pack_inputs([tokens, tokens], seq_length=tf.constant(9))
    np.testing.assert_array_equal(pack([tokens, tokens])["input_type_ids"], expected["input_type_ids"])
    assert pack([[[70], [71, 72]]])["input_word_ids"].numpy()[1, 1:3].tolist() == [71, 72]

    first, second = (keras.Input(shape=(), dtype="string") for _ in range(2))
    packed = pack([tokenize(first), tokenize(second)])
    assert packed["input_mask"].shape == (None, 9)
    model = keras.Model([first, second], packed)
    ids = model.predict([TEXTS, TEXTS], verbose=0)
    np.testing.assert_array_equal(ids["input_word_ids"], expected["input_word_ids"])


@pytest.mark.slow
def test_xla(without_dropout):
    """With the head, whose outputs have the encoder's among them."""
    layer = HubLayer(without_dropout["encoder"], endpoint="mlm")
    assert layer.supports_jit
    positions = "masked_lm_positions"
    values = {**{name: IDS[name] for name in NAMES}, positions: np.array([[1], [1]])}
    inputs = {name: keras.Input(value.shape[1:], dtype="int32", name=name) for name, value in values.items()}
    outputs = layer(inputs)
    model = keras.Model(inputs, {name: outputs[name] for name in ("pooled_output", "mlm_logits")})
    expected = {name: value.numpy() for name, value in layer(values).items() if name in model.output}
    model.compile("sgd", "mse", jit_compile=True)
    for name, value in model.predict(values, verbose=0).items():
        np.testing.assert_allclose(value, expected[name], atol=1e-4)
    layer.trainable = True
    assert np.all(np.isfinite(model.train_on_batch(values, expected)))


def test_endpoints(toy):
    assert HubLayer(toy, endpoint="double")([1.5]).numpy().tolist() == [3.0]
    assert HubLayer(toy, endpoint="number")(["no", "perhaps"]).numpy().tolist() == [1, -1]
    assert HubLayer(toy, endpoint="total")([[[1, 2], [3]], [[4], []]]).numpy().tolist() == [7, 3]


def test_no_xla_for_strings_and_ragged_tensors(toy, preprocessor):
    assert [HubLayer(toy, endpoint=name).supports_jit for name in ("double", "number", "total")] == [True, False, False]
    assert not preprocessor.supports_jit
    # A layer that is made anew knows it at once: its model is compiled before the SavedModel is there.
    config = keras.saving.serialize_keras_object(preprocessor)
    assert not keras.saving.deserialize_keras_object(config, safe_mode=False).supports_jit
