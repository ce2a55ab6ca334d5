"""Answers to questions, cut from a text: fine-tune on SQuAD's JSON, look at the answers, save.

python examples/question_answering.py [--train FILE --eval FILE]

Without files it learns the handful of questions below by heart: to answer others, about texts that it has not seen, a
model needs thousands. At the end, the same model as a plain functional Keras model.
"""

import argparse

import keras
import tensorflow as tf

from keras_bert import AdamW, BertEncoder, BertPreprocessor, BertQuestionAnswerer
from keras_bert.data import read_squad
from keras_bert.training import evaluate, fine_tune

PRESET = "all-MiniLM-L6-v2"
INPUTS = ("input_word_ids", "input_mask", "input_type_ids")
TOWER = "The Eiffel Tower was built in Paris by the company of Gustave Eiffel from 1887 to 1889."
PROGRAM = "Ada Lovelace wrote the first program, for a machine that Charles Babbage had designed but never built."
ASKED = [
    ("Where was the tower built?", TOWER, "Paris"),
    ("Whose company built it?", TOWER, "Gustave Eiffel"),
    ("When was it finished?", TOWER, "1889"),
    ("Who wrote the first program?", PROGRAM, "Ada Lovelace"),
    ("Who designed the machine?", PROGRAM, "Charles Babbage"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", help="a JSON file in SQuAD's format")
    parser.add_argument("--eval", help="the same, to measure with")
    parser.add_argument("--epochs", type=int, help="default: 3, or 30 without --train")
    arguments = parser.parse_args()

    def read(path):
        return read_squad(path).xy

    questions, contexts, texts = map(list, zip(*ASKED, strict=True))
    places = [[(text, context.index(text))] for context, text in zip(contexts, texts, strict=True)]
    train = read(arguments.train) if arguments.train else ((questions, contexts), places)
    dev = read(arguments.eval) if arguments.eval else None
    epochs = arguments.epochs or (3 if arguments.train else 30)

    keras.utils.set_random_seed(0)
    model = BertQuestionAnswerer.from_preset(PRESET)
    batch_size = 32 if len(train[1]) > 100 else 5
    fine_tune(model, train, dev, epochs=epochs, batch_size=batch_size, learning_rate=1e-4)
    print(evaluate(model, *dev) if dev else f"on what it has seen: {evaluate(model, *train)}")
    questions, contexts = (column[:5] for column in (dev or train)[0])
    for question, answer in zip(questions, model.answer(questions, contexts), strict=True):
        print(f"{answer['answer']} (characters {answer['start']} to {answer['end']})  {question}")

    model.save_preset("saved_models/question_answering", overwrite=True)

    # The same in Keras's own words: two logits for each token, whether the answer starts and whether it ends there. A
    # long context is several rows to train on, so the model that is trained begins where the packed ids are.
    encoder = BertEncoder.from_preset(PRESET)
    encoder.pooler.trainable = False  # only for what is said of a whole text
    ids = {name: keras.Input((None,), dtype="int32", name=name) for name in INPUTS}
    from_ids = keras.Model(ids, keras.layers.Dense(2)(encoder(ids)["sequence_output"]))  # [batch, tokens, 2]
    pair = [keras.Input(shape=(), dtype="string", name=name) for name in ("question", "context")]
    preprocessor = BertPreprocessor.from_preset(PRESET, sequence_length=None, truncation="waterfall")
    from_text = keras.Model(pair, from_ids(preprocessor(pair)))

    packed, targets = model.arrays(*train)  # the tokens where the answer starts and ends, int32 [rows, 2]
    from_ids.compile(AdamW(1e-4), model.training_loss())
    losses = from_ids.fit(packed, targets, batch_size, epochs, verbose=0).history["loss"]
    print(f"functional model: loss {losses[0]:.3f} to {losses[-1]:.3f}")
    asked = [tf.constant(questions[:1]), tf.constant(contexts[:1])]
    start, end = from_text.predict(asked, verbose=0)[0].argmax(axis=0)
    answer = preprocessor.tokenizer.detokenize(preprocessor(asked)["input_word_ids"][:, start : end + 1])
    print(f"functional model: {answer.numpy()[0].decode()}  {questions[0]}")


if __name__ == "__main__":
    main()
