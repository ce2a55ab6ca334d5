"""Training by JAX on all GPUs of a machine: ids made beforehand, and Keras's data parallelism.

KERAS_BACKEND=jax python examples/jax_data_parallel.py [--train PACKED.npz] [--epochs 6]

Texts become ids in TensorFlow; JAX trains with these, and needs no TensorFlow. To pack texts of your own, run first:

KERAS_BACKEND=tensorflow python examples/jax_data_parallel.py --pack FILE.tsv --train PACKED.npz

Without files it packs the handful of reviews below, in a process of its own. It runs on CPUs as well, and with
XLA_FLAGS=--xla_force_host_platform_device_count=2 as if there were two.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np

from keras_bert import BertEncoder, formats
from keras_bert.encoder.weights import values_by_name
from keras_bert.formats import hugging_face
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.training import AdamW, WarmupThenDecay

PRESET = "all-MiniLM-L6-v2"
OUTPUT = Path("saved_models/jax_data_parallel")
GOOD = ["a joy from start to finish", "warm, funny and wise", "I laughed and I cried", "a small miracle of a film"]
BAD = ["a bore", "cold, dull and far too long", "I wanted my money back", "two hours that never end"]


def pack(texts: list[str], labels: list[str], packed: Path) -> None:
    """Strings -> a file of ids. The tokenizer goes where the model will be."""
    from keras_bert import BertPreprocessor

    names = sorted(set(labels))
    preprocessor = BertPreprocessor.from_preset(PRESET, sequence_length=None)  # as long as the longest text
    ids = {name: np.array(values) for name, values in preprocessor(texts).items()}
    packed.parent.mkdir(parents=True, exist_ok=True)
    np.savez(packed, names=names, labels=[names.index(label) for label in labels], **ids)
    preprocessor.save_preset(OUTPUT, overwrite=True)


def train(packed: Path, epochs: int) -> None:
    """A file of ids -> a fine-tuned model. Each device has all weights, and its share of each batch."""
    devices = len(keras.distribution.list_devices())
    keras.distribution.set_distribution(keras.distribution.DataParallel())
    keras.utils.set_random_seed(0)
    ids = dict(np.load(packed))
    names, labels = ids.pop("names").tolist(), ids.pop("labels")
    rows = len(labels) // devices * devices  # JAX gives every device as many
    batch_size = devices * (16 if rows > 100 else max(4 // devices, 1))
    steps = epochs * -(-rows // batch_size)

    inputs = {name: keras.Input(values.shape[1:], dtype="int32", name=name) for name, values in ids.items()}
    encoder = BertEncoder.from_preset(PRESET)
    head = ClassifierHead(encoder.config, "sequence", units=len(names))
    model = keras.Model(inputs, head(encoder(inputs)["pooled_output"]))
    optimizer = AdamW(WarmupThenDecay(1e-4, steps // 10, steps), weight_decay=0.01, global_clipnorm=1.0)
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
    order = np.random.default_rng(0).permutation(len(labels))[:rows]
    ids = {name: values[order] for name, values in ids.items()}
    history = model.fit(ids, labels[order], batch_size=batch_size, epochs=epochs, verbose=0).history
    losses = " to ".join(f"{history['loss'][epoch]:.3f}" for epoch in (0, -1))
    print(f"{keras.backend.backend()}, {devices} devices: loss {losses}, accuracy {history['accuracy'][-1]:.2f}")

    parts = {"encoder": values_by_name(encoder), "sequence": values_by_name(head)}
    formats.write(OUTPUT, encoder.config, parts, overwrite=True, settings=hugging_face.label_entries(names))
    print(f"for TensorFlow: BertClassifier.from_preset({str(OUTPUT)!r})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", help="a CSV, TSV or JSON lines file to make --train of")
    parser.add_argument("--train", type=Path, help="a file of ids")
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()
    packed = arguments.train or OUTPUT / "packed.npz"

    if keras.backend.backend() == "tensorflow":
        from keras_bert.data import read_table

        examples = arguments.pack and read_table(arguments.pack, text_column="sentence", label_column="label")
        pack(*(examples.xy if examples else (GOOD + BAD, ["good"] * 4 + ["bad"] * 4)), packed)
        return
    if arguments.train is None:
        environment = {**os.environ, "KERAS_BACKEND": "tensorflow"}
        subprocess.run([sys.executable, __file__, "--train", packed], env=environment, check=True)
    train(packed, arguments.epochs)


if __name__ == "__main__":
    main()
