"""What programs of TF Hub's users do with a preprocessor and an encoder, in Keras 2, without our code.

    TF_USE_LEGACY_KERAS=1 python legacy_client.py EXPORTS SCRATCH CHECK...

`EXPORTS` holds `preprocessor`, `encoder` and `without_dropout`, an encoder. The check `reloading` deletes it, because
what a user saves must not need it. Each `CHECK` is a function below. test_tf_hub_clients.py runs this in a process of
its own, whose two CPU devices stand for two GPUs. Prints one JSON object a line: `{"name of the check": its findings}`.
"""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub
import tensorflow_text  # noqa: F401  the operations

GOOD = ["good film", "love the plot", "great music , great story", "very warm"]
BAD = ["bad", "hate it", "dull , not good , cold", "not watchable"]
TEXTS, LABELS = (GOOD + BAD) * 2, [1.0] * 4 + [0.0] * 4 + [1.0] * 4 + [0.0] * 4
NAMES = ("input_word_ids", "input_mask", "input_type_ids")


def dataset():
    return tf.data.Dataset.from_tensor_slices((TEXTS, LABELS)).shuffle(16, seed=0).batch(8)


def classifier(exports, trainable=True, dropout=0.1, encoder="encoder"):
    tf.keras.utils.set_random_seed(0)  # it does not reach the dropout of a SavedModel
    text = tf.keras.layers.Input(shape=(), dtype=tf.string)
    encoder_inputs = hub.KerasLayer(str(exports / "preprocessor"))(text)
    encoder = hub.KerasLayer(str(exports / encoder), trainable=trainable)
    net = tf.keras.layers.Dropout(dropout)(encoder(encoder_inputs)["pooled_output"])
    return tf.keras.Model(text, tf.keras.layers.Dense(1, name="classifier")(net)), encoder


def compiled(model, rate=2e-3):  # at larger rates, what dropout draws makes the loss leap
    loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
    model.compile(tf.keras.optimizers.legacy.Adam(rate), loss, metrics=[tf.metrics.BinaryAccuracy(threshold=0.0)])
    return model


def save(model, path):
    model.save(path, include_optimizer=False)
    predictions = model.predict(TEXTS, verbose=0)
    np.save(path.with_suffix(".npy"), predictions)
    return predictions


def loss_of(predictions):
    """Without dropout, unlike the losses of training."""
    return float(tf.keras.losses.BinaryCrossentropy(from_logits=True)(np.float32(LABELS)[:, None], predictions))


def changed(before, after):
    return sum(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def fine_tuning(exports, scratch):
    model, encoder = classifier(exports)
    before, untrained = encoder.get_weights(), model.predict(TEXTS, verbose=0)
    compiled(model).fit(dataset(), epochs=80, verbose=0)
    predictions = save(model, scratch / "classifier")
    return {
        "losses": [loss_of(untrained), loss_of(predictions)],
        "accuracy": model.evaluate(dataset(), verbose=0)[1],
        "weights": len(before),
        "weights changed": changed(before, encoder.get_weights()),
        "trainable": len(model.trainable_variables),
        "quiet": bool(np.array_equal(predictions, model.predict(TEXTS, verbose=0))),
    }


def frozen(exports, scratch):
    model, encoder = classifier(exports, trainable=False)
    before = encoder.get_weights()
    compiled(model).fit(dataset(), epochs=1, verbose=0)
    return {"weights changed": changed(before, encoder.get_weights()), "trainable": len(model.trainable_variables)}


def pairs(exports, scratch):
    preprocessor = hub.load(str(exports / "preprocessor"))
    premise, hypothesis = (tf.keras.layers.Input(shape=(), dtype=tf.string) for _ in range(2))
    tokenize = hub.KerasLayer(preprocessor.tokenize)
    pack = hub.KerasLayer(preprocessor.bert_pack_inputs, arguments={"seq_length": 12})
    packed = pack([tokenize(premise), tokenize(hypothesis)])
    outputs = hub.KerasLayer(str(exports / "encoder"))(packed)["pooled_output"]
    model = tf.keras.Model([premise, hypothesis], {**packed, "pooled_output": outputs})
    got = model.predict([np.array(GOOD), np.array(BAD)], verbose=0)
    return {name: got[name].tolist() for name in NAMES} | {"pooled_output": list(got["pooled_output"].shape)}


def masked_lm(exports, scratch):
    encoder = hub.load(str(exports / "encoder"))
    inputs = {name: tf.keras.layers.Input(shape=(None,), dtype=tf.int32, name=name) for name in NAMES}
    inputs["masked_lm_positions"] = tf.keras.layers.Input(shape=(2,), dtype=tf.int32, name="masked_lm_positions")
    layer = hub.KerasLayer(encoder.mlm, trainable=True)
    model = tf.keras.Model(inputs, layer(inputs)["mlm_logits"])
    model.compile("sgd", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    values = {name: np.ones((4, 6), np.int32) for name in NAMES} | {"masked_lm_positions": np.ones((4, 2), np.int32)}
    losses = model.fit(values, np.ones((4, 2), np.int32), epochs=3, verbose=0).history["loss"]
    return {"losses": losses, "trainable": len(model.trainable_variables)}


def mirrored(exports, scratch):
    """On two devices, the preprocessor once inside of the strategy's scope, as part of the model, and once outside."""
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    with strategy.scope():
        # Dropout draws other numbers in every run on devices.
        model, encoder = classifier(exports, dropout=0.0, encoder="without_dropout")
        compiled(model, 5e-3)
    inside = model.fit(dataset(), epochs=8, verbose=0).history["loss"]
    copies = [
        bool(np.array_equal(*(copy.numpy() for copy in strategy.experimental_local_results(variable))))
        for variable in encoder.trainable_variables
    ]
    save(model, scratch / "mirrored")

    preprocessor = hub.load(str(exports / "preprocessor"))
    packed = dataset().map(lambda texts, labels: (preprocessor(texts), labels)).repeat()  # a new iterator takes seconds
    with strategy.scope():
        inputs = {name: tf.keras.layers.Input(shape=(None,), dtype=tf.int32, name=name) for name in NAMES}
        outputs = hub.KerasLayer(str(exports / "without_dropout"), trainable=True)(inputs)["pooled_output"]
        model = compiled(tf.keras.Model(inputs, tf.keras.layers.Dense(1)(outputs)), 5e-3)
    outside = model.fit(packed, epochs=8, steps_per_epoch=2, verbose=0).history["loss"]
    return {"inside": inside, "outside": outside, "replicas": strategy.num_replicas_in_sync, "copies": copies}


def reloading(exports, scratch):
    shutil.rmtree(exports)
    findings = {}
    for file in scratch.glob("*.npy"):
        saved, expected = file.with_suffix(""), np.load(file)
        model = tf.keras.models.load_model(saved)
        (served,) = tf.saved_model.load(str(saved)).signatures["serving_default"](tf.constant(TEXTS)).values()
        difference = float(np.abs(model.predict(TEXTS, verbose=0) - expected).max())
        before = model.get_weights()
        compiled(model).fit(dataset(), epochs=2, verbose=0)
        findings[saved.name] = {
            "difference": difference,
            "difference, served": float(np.abs(served - expected).max()),
            "loss": loss_of(model.predict(TEXTS, verbose=0)),
            "trainable": len(model.trainable_variables),
            "changed": changed(before, model.get_weights()),
        }
    return findings


def main():
    exports, scratch, *checks = sys.argv[1:]
    (cpu,) = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
    tf.keras.utils.set_random_seed(0)
    for check in checks:
        print(json.dumps({check: globals()[check](Path(exports), Path(scratch))}), flush=True)
    print(json.dumps({"our modules": [name for name in sys.modules if name.startswith("keras_bert")]}))


if __name__ == "__main__":
    main()
