"""Sentiment of film reviews: fine-tune, look at the answers, save, and export to TF Serving.

python examples/sentiment.py [--train FILE --eval FILE --text-column sentence --label-column label]

Without files it learns from the handful of reviews below, which takes a minute and shows no more than that it works.
At the end, the same model as a plain functional Keras model, built from this package's layers.
"""

import argparse

import keras
import tensorflow as tf

from keras_bert import AdamW, BertClassifier, BertEncoder, BertPreprocessor
from keras_bert.data import read_table
from keras_bert.saved_model import export_serving
from keras_bert.training import evaluate, fine_tune

PRESET = "all-MiniLM-L6-v2"
GOOD = ["a joy from start to finish", "warm, funny and wise", "I laughed and I cried", "a small miracle of a film"]
BAD = ["a bore", "cold, dull and far too long", "I wanted my money back", "two hours that never end"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a CSV, TSV or JSON lines file")
    parser.add_argument("--eval", help="the same, to measure with")
    parser.add_argument("--text-column", default="sentence")
    parser.add_argument("--label-column", default="label")
    parser.add_argument("--epochs", type=int, default=6)
    arguments = parser.parse_args()

    def read(path):
        return read_table(path, text_column=arguments.text_column, label_column=arguments.label_column).xy

    train = read(arguments.train) if arguments.train else (GOOD + BAD, ["good"] * 4 + ["bad"] * 4)
    dev = read(arguments.eval) if arguments.eval else None

    keras.utils.set_random_seed(0)
    model = BertClassifier.from_preset(PRESET, labels=sorted(set(train[1])))
    batch_size = 32 if len(train[0]) > 100 else 4
    fine_tune(model, train, dev, epochs=arguments.epochs, batch_size=batch_size, learning_rate=1e-4)
    if dev:
        print(evaluate(model, *dev))
    for text in ("a warm and funny joy", "dull, and never ends"):
        answer = model.classify([text])[0]
        print(f"{answer['label']} ({answer['probability']:.2f})  {text}")

    model.save_preset("saved_models/sentiment", overwrite=True)
    print("for TF Serving:", export_serving(model, "saved_models/sentiment_serving"))

    # The same in Keras's own words. For training on more than a few texts, map the preprocessor over a tf.data.Dataset.
    texts = keras.Input(shape=(), dtype="string")
    inputs = BertPreprocessor.from_preset(PRESET, sequence_length=None)(texts)
    pooled = BertEncoder.from_preset(PRESET)(inputs)["pooled_output"]
    functional = keras.Model(texts, keras.layers.Dense(len(model.labels))(keras.layers.Dropout(0.1)(pooled)))
    functional.compile(AdamW(1e-4), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    history = functional.fit(tf.constant(train[0]), model.targets(train[1]), batch_size, arguments.epochs, verbose=0)
    print(f"functional model: loss {history.history['loss'][0]:.3f} to {history.history['loss'][-1]:.3f}")


if __name__ == "__main__":
    main()
