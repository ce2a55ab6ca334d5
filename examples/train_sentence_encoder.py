"""Train a sentence encoder on your own pairs: questions, and the texts that answer them.

python examples/train_sentence_encoder.py [--train FILE --query-column question --positive-column context] [--epochs N]

The file is CSV, TSV, JSON lines or Parquet. A tenth of its pairs is held out to measure with. Without a file, it learns
from the handful of pairs below, and measures on the same. In the shell, the same is `keras-bert finetune embed`.
"""

import argparse

import keras

from keras_bert import BertSentenceEncoder
from keras_bert.data import read_columns
from keras_bert.training import evaluate, fine_tune

PRESET = "all-MiniLM-L6-v2"
PAIRS = [
    ("ERR-17", "The disk is full: remove old backups."),
    ("ERR-23", "The password has expired: choose a new one."),
    ("ERR-31", "The printer has no paper: fill the tray."),
    ("ERR-42", "The network cable is not plugged in."),
    ("ERR-58", "The licence ends in three days: renew it."),
    ("ERR-66", "The clock is wrong: ask the time server."),
    ("ERR-71", "Two people edit this page: save a copy."),
    ("ERR-80", "The battery is low: charge the device."),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a file with pairs")
    parser.add_argument("--query-column", default="question")
    parser.add_argument("--positive-column", default="context")
    parser.add_argument("--epochs", type=int, help="default: 1, or 30 without --train")
    arguments = parser.parse_args()

    if arguments.train:
        names = [arguments.query_column, arguments.positive_column]
        columns = read_columns(arguments.train, text_columns=names).x
        held_out = max(1, len(columns[0]) // 10)
        test = tuple(column[:held_out] for column in columns)
        train = tuple(column[held_out:] for column in columns)
    else:
        train = test = tuple(map(list, zip(*PAIRS, strict=True)))
    print(f"{len(train[0]):,} pairs to train on, {len(test[0]):,} to measure with")

    keras.utils.set_random_seed(0)
    model = BertSentenceEncoder.from_preset(PRESET)
    before = evaluate(model, test, None)  # each question searches for its text among all texts of the test
    # The other texts of a batch are the negatives, so large batches help; mini_batch_size keeps them small in memory.
    recipe = {"batch_size": 64, "epochs": 1} if arguments.train else {"batch_size": 8, "epochs": 30}
    recipe |= {"epochs": arguments.epochs} if arguments.epochs else {}
    fine_tune(model, (train, None), learning_rate=1e-4, mini_batch_size=32, **recipe)
    after = evaluate(model, test, None)
    for name in before:
        print(f"{name}: {before[name]:.3f} before, {after[name]:.3f} after")

    model.save_preset("saved_models/my_encoder", overwrite=True)
    question = test[0][0]
    vectors = model.encode(test[1], progress=False)
    best = (vectors @ model.encode(question)).argmax()  # vectors have length 1: these are cosines
    print(f"{question} -> {test[1][best]}")


if __name__ == "__main__":
    main()
