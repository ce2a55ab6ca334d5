"""How alike two sentences are, as a number: fine-tune on pairs, look at the answers, save.

python examples/pair_similarity.py [--train FILE --eval FILE --columns sentence1 sentence2 score] [--no-header]

Without files it learns from the handful of pairs below, scored from 0 (nothing in common) to 5 (the same), as STS-B is.
STS-B as CSV, which has no header, is read with `--no-header --columns 1 2 3`. At the end, the same model as a plain
functional Keras model of two string inputs.
"""

import argparse

import keras
import tensorflow as tf

from keras_bert import AdamW, BertClassifier, BertEncoder, BertPreprocessor
from keras_bert.data import read_table
from keras_bert.training import evaluate, fine_tune

PRESET = "all-MiniLM-L6-v2"
PAIRS = [
    ("A man is playing a flute.", "A man plays the flute.", 5.0),
    ("A plane is taking off.", "An air plane is taking off.", 5.0),
    ("Three men are playing chess.", "Two men are playing chess.", 2.6),
    ("A man is slicing a tomato.", "A woman is slicing an onion.", 2.2),
    ("A girl is brushing her hair.", "The price of oil fell again.", 0.0),
    ("A dog runs on the beach.", "The parliament will vote on Monday.", 0.0),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a CSV, TSV or JSON lines file")
    parser.add_argument("--eval", help="the same, to measure with")
    parser.add_argument("--columns", nargs=3, default=["sentence1", "sentence2", "score"])
    parser.add_argument("--no-header", action="store_true", help="columns go by number, from 1")
    parser.add_argument("--epochs", type=int, help="default: 3, or 30 without --train")
    arguments = parser.parse_args()

    def read(path):
        names = ("text_column", "text_pair_column", "label_column")
        columns = dict(zip(names, arguments.columns, strict=True))
        return read_table(path, **columns, label_kind="number", header=not arguments.no_header).xy

    firsts, seconds, scores = map(list, zip(*PAIRS, strict=True))
    train = read(arguments.train) if arguments.train else ((firsts, seconds), scores)
    dev = read(arguments.eval) if arguments.eval else None
    epochs = arguments.epochs or (3 if arguments.train else 30)

    keras.utils.set_random_seed(0)
    model = BertClassifier.from_preset(PRESET, labels=["score"], problem_type="regression", pairs=True)
    batch_size = 32 if len(train[1]) > 100 else 2
    history = fine_tune(model, train, dev, epochs=epochs, batch_size=batch_size, learning_rate=1e-4)
    losses = [each["loss"] for each in history]  # squared errors, divided by the variance of the scores
    print(f"loss: {losses[0]:.2f} in the first epoch, {losses[-1]:.2f} in the last")
    if dev:
        print(evaluate(model, *dev))
    shown = (["A man is playing a flute.", "A dog runs on the beach."], ["A man plays the flute.", "Oil is cheap."])
    for first, second, answer in zip(*shown, model.classify(*shown), strict=True):
        print(f"{answer['score']:.1f}  {first} | {second}")

    model.save_preset("saved_models/pair_similarity", overwrite=True)

    # The same in Keras's own words: two inputs, packed into one row, `[CLS] first [SEP] second [SEP]`.
    pair = [keras.Input(shape=(), dtype="string", name=name) for name in ("first", "second")]
    inputs = BertPreprocessor.from_preset(PRESET, sequence_length=None)(pair)
    pooled = BertEncoder.from_preset(PRESET)(inputs)["pooled_output"]
    functional = keras.Model(pair, keras.layers.Dense(1)(keras.layers.Dropout(0.1)(pooled)))
    functional.compile(AdamW(1e-4), "mse")
    texts, targets = [tf.constant(column) for column in train[0]], model.targets(train[1])
    losses = functional.fit(texts, targets, batch_size, epochs, verbose=0).history["loss"]
    predicted = functional.predict([tf.constant(column) for column in shown], verbose=0)
    print(f"functional model: squared error {losses[0]:.2f} to {losses[-1]:.2f}")
    print(f"functional model: {predicted[0, 0]:.1f} and {predicted[1, 0]:.1f} for the same two pairs")


if __name__ == "__main__":
    main()
