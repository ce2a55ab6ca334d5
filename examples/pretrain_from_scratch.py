"""A BERT of your own, from a folder of text: vocabulary, training, what it can do then, and a server's files.

    pip install 'keras-bert-models[serve,train,vocab]'
    python examples/pretrain_from_scratch.py FOLDER [--steps 10000] [--size tiny] [--output saved_models/my-bert]

FOLDER has .txt files of running text, with blank lines between paragraphs. If it is interrupted, the same command goes
on where it stopped. At the end the model is fine-tuned, on the handful of reviews below or on --train, a table with the
columns "sentence" and "label".
"""

import argparse
from pathlib import Path

import keras

from keras_bert import BertClassifier, BertConfig, BertEncoder, BertMaskedLM, BertPreprocessor
from keras_bert.data import read_table
from keras_bert.pretraining import BertPretrainer, MaskedLMMasking, write_records
from keras_bert.saved_model import export_serving
from keras_bert.text import WordPieceTokenizer, learn_vocabulary
from keras_bert.training import fine_tune, pretrain

GOOD = ["a joy from start to finish", "warm, funny and wise", "I laughed and I cried", "a small miracle of a film"]
BAD = ["a bore", "cold, dull and far too long", "I wanted my money back", "two hours that never end"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of .txt files, in UTF-8")
    parser.add_argument("--steps", type=int, default=10000, help="batches of 32 rows of 32 tokens")
    parser.add_argument("--size", default="tiny", help="tiny, mini, small, medium, base or large")
    parser.add_argument("--output", type=Path, default=Path("saved_models/my-bert"), help="for all that is made")
    parser.add_argument("--train", help="a CSV, TSV or JSON lines file to fine-tune on")
    arguments = parser.parse_args()
    output = arguments.output
    texts = sorted(arguments.folder.glob("*.txt"))
    if not texts:
        parser.error(f"there are no .txt files in {arguments.folder}")

    # The tokens that these texts are best written with. The same texts always give the same ones.
    if not (output / "vocabulary/vocab.txt").exists():
        learn_vocabulary(texts, size=8000).save_preset(output / "vocabulary", overwrite=True)
    tokenizer = WordPieceTokenizer.from_preset(output / "vocabulary")
    # Without dropout: few steps learn too little, not too much.
    learning = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    config = BertConfig.named(f"bert-{arguments.size}", vocab_size=tokenizer.vocabulary_size, **learning)

    # Whole sentences in short rows: there a model soon learns to attend to neighbours. Parts that were written before
    # stay.
    preprocessor = BertPreprocessor(tokenizer, sequence_length=32, max_sequence_length=config.max_positions)
    counts = write_records(texts, output / "records", preprocessor, objective="sentences")
    print(f"{counts['tokens']:,} tokens of {tokenizer.vocabulary_size:,} kinds make {counts['examples']:,} examples")

    # Each time that an example is seen, other tokens of it are hidden.
    keras.utils.set_random_seed(0)
    model = BertPretrainer(BertEncoder(config), preprocessor, pairs=False)
    masking = MaskedLMMasking(tokenizer, predictions=5)
    every = max(1, arguments.steps // 10)
    options = {"masking": masking, "measure_every": every, "checkpoint_seconds": 60}
    for entry in pretrain(model, output / "records", arguments.steps, output / "run", **options):
        print(f"step {min(entry['epoch'] * every, arguments.steps):,}: loss {entry['loss']:.3f}")
    model.save_preset(output / "model", overwrite=True)  # transformers.BertForMaskedLM reads it too

    answer = BertMaskedLM.from_preset(output / "model").fill("He looked at [MASK] and said nothing.", top_k=3)
    for guess in answer["masks"][0]:
        print(f"He looked at {guess['token']} and said nothing. ({guess['probability']:.2f})")

    # Fine-tuning begins with these weights, and has a directory to go on from as well.
    examples = read_table(arguments.train, text_column="sentence", label_column="label") if arguments.train else None
    train = examples.xy if examples else (GOOD + BAD, ["good"] * 4 + ["bad"] * 4)
    classifier = BertClassifier.from_preset(output / "model", labels=sorted(set(train[1])), sequence_length=128)
    batch_size = 32 if len(train[0]) > 100 else 4
    options = {"epochs": 6, "batch_size": batch_size, "learning_rate": 3e-4}
    history = fine_tune(classifier, train, directory=output / "fine-tuning", **options)
    print(f"fine-tuned: loss {history[0]['loss']:.3f} in the first epoch, {history[-1]['loss']:.3f} in the last")
    for text in ("a warm and funny joy", "dull, and never ends"):
        answer = classifier.classify([text])[0]
        print(f"{answer['label']} ({answer['probability']:.2f})  {text}")

    classifier.save_preset(output / "classifier", overwrite=True)
    print("for TF Serving:", export_serving(classifier, output / "serving", version=1, overwrite=True))


if __name__ == "__main__":
    main()
