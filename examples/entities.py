"""Names of people and places in text: fine-tune on tagged words, look at the answers, save.

python examples/entities.py [--train FILE --eval FILE]

A file has a word and its tag a line and a blank line between sentences, as CoNLL's and WNUT-17's have. Without files it
learns from the handful of sentences below. At the end, the same model as a plain functional Keras model.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import keras
import tensorflow as tf

from keras_bert import AdamW, BertEncoder, BertPreprocessor, BertTokenClassifier
from keras_bert.data import read_conll
from keras_bert.training import evaluate, fine_tune

PRESET = "all-MiniLM-L6-v2"
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
SENTENCES = """Ada/B-person Lovelace/I-person lived/O in/O London/B-place
Marie/B-person Curie/I-person worked/O in/O Paris/B-place
Alan/B-person Turing/I-person was/O born/O in/O London/B-place
she/O moved/O from/O Warsaw/B-place to/O Paris/B-place
the/O train/O to/O New/B-place York/I-place was/O late/O
nobody/O was/O at/O home/O"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a file in CoNLL's columns: the word first, the tag last")
    parser.add_argument("--eval", help="the same, to measure with")
    parser.add_argument("--epochs", type=int, help="default: 3, or 20 without --train")
    arguments = parser.parse_args()

    def read(path):
        return read_conll(path).xy

    with TemporaryDirectory() as folder:
        small = Path(folder, "small.conll")
        small.write_text(SENTENCES.replace("\n", "\n\n").replace(" ", "\n").replace("/", "\t"))
        words, tags = read(arguments.train or small)
    dev = read(arguments.eval) if arguments.eval else None
    epochs = arguments.epochs or (3 if arguments.train else 20)

    keras.utils.set_random_seed(0)
    model = BertTokenClassifier.from_preset(PRESET, labels=sorted({tag for sentence in tags for tag in sentence}))
    batch_size = 32 if len(words) > 100 else 2
    fine_tune(model, (words, tags), dev, epochs=epochs, batch_size=batch_size, learning_rate=1e-4)
    print(evaluate(model, *dev) if dev else f"on what it has seen: {evaluate(model, words, tags)}")
    texts = ["Alan Turing never lived in New York, did he?", "Marie Curie was at home."]
    for text, entities in zip(texts, model.entities(texts), strict=True):
        print(text)
        for entity in entities:  # places are characters: text[start:end]
            print(f"  {entity['start']:2} to {entity['end']:2}  {entity['label']}: {entity['text']}")

    model.save_preset("saved_models/entities", overwrite=True)

    # The same in Keras's own words, from strings to logits of every token. Labels belong to words, so what it trains on
    # is packed from words, and the model that is trained begins where the packed ids are.
    encoder = BertEncoder.from_preset(PRESET)
    encoder.pooler.trainable = False  # only for what is said of a whole text
    ids = {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}
    hidden = keras.layers.Dropout(0.1)(encoder(ids)["sequence_output"])  # [batch, tokens, hidden]
    from_ids = keras.Model(ids, keras.layers.Dense(len(model.labels))(hidden))
    text = keras.Input(shape=(), dtype="string")
    preprocessor = BertPreprocessor.from_preset(PRESET, sequence_length=None)
    from_text = keras.Model(text, from_ids(preprocessor(text)))

    packed, targets = model.arrays(words, tags)  # int32 [sentences, tokens]: -1 but for the first token of a word
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    from_ids.compile(AdamW(1e-4), loss)
    losses = from_ids.fit(packed, targets, batch_size, epochs, verbose=0).history["loss"]
    print(f"functional model: loss {losses[0]:.3f} to {losses[-1]:.3f}")
    best = from_text.predict(tf.constant(texts[1:]), verbose=0)[0].argmax(-1)
    tokens = [preprocessor.tokenizer.vocabulary[i] for i in preprocessor(texts[1])["input_word_ids"].numpy()]
    said = [f"{token}/{model.labels[i]}" for token, i in zip(tokens, best, strict=True) if token[0] != "["]
    print(f"functional model: {' '.join(said)}")


if __name__ == "__main__":
    main()
