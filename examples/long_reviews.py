"""Reviews longer than a row: what is lost where their end is cut off, and reading them whole, in windows.

python examples/long_reviews.py [--train FOLDER --eval FOLDER]

A folder holds one of texts for each class: `good/*.txt`, `bad/*.txt`. Without folders it learns from the reviews below,
which tell the story first and say at the end what they think of it, with rows too short for both. At the end, the same
model as a plain functional Keras model.
"""

import argparse

import keras
import tensorflow as tf
from keras import ops

from keras_bert import AdamW, BertClassifier, BertEncoder, BertPreprocessor
from keras_bert.data import read_folders
from keras_bert.training import evaluate, fine_tune

PRESET = "all-MiniLM-L6-v2"
STORIES = [
    "A widow opens a small bakery in a village by the sea, and the man who lights the lamps comes every day for bread.",
    "Two brothers drive a truck through the desert, with a load that neither of them has looked at, and little water.",
    "An old teacher gets a letter from a pupil of long ago, and takes the night train to a city that she never liked.",
    "In a future without birds, a boy finds an egg on the roof of his school, and hides it in the pocket of his coat.",
]
VERDICTS = {
    "good": [
        "It is a wonderful film, warm and funny, and I loved it.",
        "What a joy to watch, and how well they act!",
        "I would see it again tomorrow.",
        "Lovely pictures, a clever script, a perfect ending.",
    ],
    "bad": [
        "It is a boring, awful mess of a film, and I hated it.",
        "What a bore to sit through, and how badly they act!",
        "I wanted my money back after an hour.",
        "Ugly pictures, a stupid script, a terrible ending.",
    ],
}


@keras.saving.register_keras_serializable(package="examples")
class OverWindows(keras.layers.Layer):
    """Ids of windows, int32 `[batch, windows, seq_length]` each -> their mean `pooled_output`, `[batch, hidden]`."""

    def __init__(self, encoder, **kwargs):
        super().__init__(**kwargs)
        self.encoder = encoder

    def call(self, inputs, training=None):
        batch, windows, length = ops.shape(inputs["input_mask"])
        rows = {name: ops.reshape(ids, (-1, length)) for name, ids in inputs.items()}
        pooled = self.encoder(rows, training=training)["pooled_output"]  # [batch * windows, hidden]
        pooled = ops.reshape(pooled, (batch, windows, pooled.shape[-1]))
        is_window = ops.cast(inputs["input_mask"][..., :1], pooled.dtype)  # 0 where there is nothing but padding
        return ops.sum(pooled * is_window, axis=1) / ops.sum(is_window, axis=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a folder of folders of texts")
    parser.add_argument("--eval", help="the same, to measure with")
    parser.add_argument("--sequence-length", type=int, help="of a row, in tokens; default: 128, or 24 without --train")
    parser.add_argument("--epochs", type=int, help="default: 3, or 24 without --train")
    arguments = parser.parse_args()

    def read(path):
        return read_folders(path).xy

    few = [(" ".join(parts), label) for label in VERDICTS for parts in zip(STORIES, VERDICTS[label], strict=True)]
    texts, labels = read(arguments.train) if arguments.train else map(list, zip(*few, strict=True))
    dev = read(arguments.eval) if arguments.eval else None
    length = arguments.sequence_length or (128 if arguments.train else 24)
    batch_size = 32 if len(texts) > 100 else 4
    epochs = arguments.epochs or (3 if arguments.train else 24)

    for long_text in ("truncate", "windows"):
        keras.utils.set_random_seed(0)
        options = {"labels": sorted(set(labels)), "sequence_length": length, "long_text": long_text}
        model = BertClassifier.from_preset(PRESET, **options)
        fine_tune(model, (texts, labels), dev, epochs=epochs, batch_size=batch_size, learning_rate=1e-4)
        print(f"{long_text}: {evaluate(model, *(dev or (texts, labels)))}")
    for text in [f"{STORIES[0]} {verdict}" for verdict in ("What a lovely, funny film.", "What an awful bore.")]:
        answer = model.classify([text])[0]
        print(f"{answer['label']} ({answer['probability']:.2f})  {text[:40]} ... {text[-26:]}")

    model.save_preset("saved_models/long_reviews", overwrite=True)  # its windows too: from_preset reads as it did

    # The same in Keras's own words: with a stride, the preprocessor gives windows that begin `stride` tokens apart.
    review = keras.Input(shape=(), dtype="string")
    windows = BertPreprocessor.from_preset(PRESET, sequence_length=length, stride=length // 2)(review)
    pooled = OverWindows(BertEncoder.from_preset(PRESET))(windows)
    functional = keras.Model(review, keras.layers.Dense(len(model.labels))(keras.layers.Dropout(0.1)(pooled)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    functional.compile(AdamW(1e-4), loss, metrics=["accuracy"])
    functional.fit(tf.constant(texts), model.targets(labels), batch_size, epochs, verbose=0)
    right = functional.predict(tf.constant(texts), verbose=0).argmax(-1) == model.targets(labels)
    print(f"functional model: {right.mean():.2f} of the reviews it has seen are right")


if __name__ == "__main__":
    main()
