"""A CRF on a small Keras model of its own: names in sentences, by a BiLSTM (Lample et al. 2016).

python examples/crf_chunks.py [--train train.conll] [--epochs 30]

Works on any backend: KERAS_BACKEND=jax python examples/crf_chunks.py. Without a file it learns from the sentences
below. A file has a word and its label in each line, and a blank line between sentences.
"""

import argparse
from pathlib import Path

import keras
import numpy as np

from keras_bert import CRF

SENTENCES = """\
Ada/B-person Lovelace/I-person lived/O in/O London/B-place
Marie/B-person Curie/I-person worked/O in/O Paris/B-place
the/O train/O to/O New/B-place York/I-place was/O late/O
Alan/B-person Turing/I-person was/O born/O in/O London/B-place
nobody/O was/O at/O home/O in/O New/B-place York/I-place
Marie/B-person Curie/I-person and/O Alan/B-person Turing/I-person never/O met/O"""


def read(path: Path | None) -> tuple[list[list[str]], list[list[str]]]:
    """The words of each sentence, and their labels."""
    if path is None:
        rows = [[pair.split("/") for pair in line.split()] for line in SENTENCES.splitlines()]
    else:
        blocks = path.read_text("utf-8").strip().split("\n\n")
        rows = [[(line.split()[0], line.split()[-1]) for line in block.splitlines()] for block in blocks]
    return [[word for word, _ in row] for row in rows], [[label for _, label in row] for row in rows]


def numbers(sentences: list[list[str]], names: dict[str, int], missing: int) -> np.ndarray:
    """int32 `[sentences, longest]`, padded with 0."""
    table = np.zeros((len(sentences), max(map(len, sentences))), "int32")
    for row, sentence in zip(table, sentences, strict=True):
        row[: len(sentence)] = [names.get(each, missing) for each in sentence]
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=Path)
    parser.add_argument("--epochs", type=int, default=30)
    arguments = parser.parse_args()
    keras.utils.set_random_seed(0)
    sentences, tags = read(arguments.train)
    labels = sorted({label for row in tags for label in row})
    vocabulary = {word: 2 + i for i, word in enumerate(sorted({word for row in sentences for word in row}))}
    x = numbers(sentences, vocabulary, missing=1)
    y = numbers(tags, {label: i for i, label in enumerate(labels)}, missing=0)

    words = keras.Input([None], dtype="int32")
    hidden = keras.layers.Embedding(2 + len(vocabulary), 64, mask_zero=True)(words)
    hidden = keras.layers.Bidirectional(keras.layers.LSTM(64, return_sequences=True))(hidden)

    crf = CRF(len(labels), scheme="BIO", labels=labels)
    emissions = crf(keras.layers.Dense(len(labels))(hidden))
    model = keras.Model(words, emissions)
    model.compile(keras.optimizers.Adam(0.01), loss=crf.loss)
    losses = model.fit(x, y, epochs=arguments.epochs, batch_size=8, verbose=0).history["loss"]
    print(f"loss {losses[0]:.3f} to {losses[-1]:.3f}")

    tagger = keras.Model(words, crf.decode(emissions))
    tagger.save("crf_chunks.keras")
    sentence = ["Alan", "Turing", "never", "lived", "in", "New", "York"]
    best = keras.saving.load_model("crf_chunks.keras").predict(numbers([sentence], vocabulary, 1), verbose=0)[0]
    print(" ".join(f"{word}/{labels[i]}" for word, i in zip(sentence, best, strict=True)))


if __name__ == "__main__":
    main()
