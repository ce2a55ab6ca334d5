"""TensorFlow's tutorial "Classify text with BERT" on our exports: tell good reviews from bad ones.

    pip install 'keras-bert-models[hub]'
    python examples/classify_text_with_bert.py                                   # 48 sentences, about a minute
    python examples/classify_text_with_bert.py --data train.tsv --test dev.tsv   # label, tab, review: SST-2

Only the export is ours. What follows is Keras 2 and TensorFlow Hub, as in the tutorial
(tensorflow.org/text/tutorials/classify_text_with_bert), with a path where it has the address of a model.
"""

import os

os.environ["TF_USE_LEGACY_KERAS"] = "1"  # tf.keras is Keras 2: hub.KerasLayer is a layer of that
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import argparse
import tempfile
from pathlib import Path

import tensorflow as tf
import tensorflow_hub as hub
import tensorflow_text  # noqa: F401  the preprocessor's operations

from keras_bert import BertEncoder, BertPreprocessor
from keras_bert.saved_model import export_encoder, export_preprocessor

GOOD = """What a wonderful evening at the cinema. | The actors are a joy to watch. | I laughed until I cried.
A clever story, told with warmth. | Easily the best film of the year. | Beautiful pictures and a moving score.
Everyone in my family loved it. | Sharp, funny and full of heart. | She gives the performance of her life.
I would see it again tomorrow. | A small film with a great soul. | The ending is simply perfect.
It kept me on the edge of my seat. | Charming from start to finish. | A fresh idea, brilliantly carried out.
The dialogue sparkles. | Rarely was a sequel this good. | Thoughtful, gentle and wise. | A triumph for the director.
I left the theater happy. | Great fun for young and old. | The music alone is worth the ticket.
An honest and touching portrait. | A thrilling ride that never lets up."""
BAD = """Two hours of my life that I want back. | The plot makes no sense at all. | I fell asleep after ten minutes.
The jokes fall flat, one after another. | A lazy copy of better films. | The acting is wooden and the script is worse.
Loud, long and pointless. | Nobody in it seems to care, and neither did I. | What a waste of a good cast.
It is the worst thing I have seen in years. | Ugly to look at and painful to hear. | The ending ruins what was left.
I wanted to leave halfway through. | Dull characters doing dull things. | A boring mess. | Neither funny nor scary.
The director has run out of ideas. | A cheap and cynical sequel. | Confused, clumsy and far too slow.
Save your money and stay at home. | It tries so hard and fails so badly. | An insult to the book.
There is not one believable moment in it. | Disappointing in every way."""


def rows(path: Path | None, limit: int | None = None) -> list[tuple[str, float]]:
    """(review, 1 = good or 0 = bad)"""
    if path is None:
        pairs = zip(GOOD.replace("\n", " | ").split(" | "), BAD.replace("\n", " | ").split(" | "), strict=True)
        return [row for good, bad in pairs for row in ((good, 1.0), (bad, 0.0))]
    lines = path.read_text("utf-8").splitlines()[1:][:limit]
    return [(text, float(label)) for label, text in (line.split("\t") for line in lines)]


def dataset(rows: list[tuple[str, float]], batch_size: int) -> tf.data.Dataset:
    texts, labels = zip(*rows, strict=True)
    return tf.data.Dataset.from_tensor_slices((list(texts), list(labels))).batch(batch_size).prefetch(1)


def build_classifier(preprocessor: str, encoder: str) -> tf.keras.Model:
    text = tf.keras.layers.Input(shape=(), dtype=tf.string, name="text")
    encoder_inputs = hub.KerasLayer(preprocessor, name="preprocessing")(text)
    outputs = hub.KerasLayer(encoder, trainable=True, name="BERT_encoder")(encoder_inputs)
    pooled = tf.keras.layers.Dropout(0.1)(outputs["pooled_output"])
    return tf.keras.Model(text, tf.keras.layers.Dense(1, activation=None, name="classifier")(pooled))


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--data", type=Path, help="reviews to train on; left out, those in this file")
parser.add_argument("--test", type=Path, help="reviews to test on; left out, a quarter of the others")
parser.add_argument("--limit", type=int, default=2000, help="train on the first N examples")
parser.add_argument("--preset", default="all-MiniLM-L6-v2", help="the model to begin with")
parser.add_argument("--epochs", type=int, default=4)
arguments = parser.parse_args()

directory = Path(tempfile.mkdtemp(prefix="classify-"))
export_preprocessor(BertPreprocessor.from_preset(arguments.preset, sequence_length=64), directory / "preprocessor")
export_encoder(BertEncoder.from_preset(arguments.preset), directory / "encoder")
print(f"exported {arguments.preset} to {directory}/preprocessor and {directory}/encoder")

tf.keras.utils.set_random_seed(42)
train = rows(arguments.data, arguments.limit)
test = rows(arguments.test) if arguments.test else train[3 * len(train) // 4 :]
train = train if arguments.test else train[: 3 * len(train) // 4]
batch_size = 32 if len(train) > 500 else 4
steps = arguments.epochs * -(-len(train) // batch_size)
print(f"{len(train)} reviews to train on, {len(test)} to test on; {steps} steps of {batch_size}")

model = build_classifier(f"{directory}/preprocessor", f"{directory}/encoder")
# The tutorial takes its optimizer from tf-models-official, which pins TensorFlow 2.20; this is tf_keras' own AdamW,
# with the same decay of the rate to 0 and, as there, none of the weights of biases and layer normalization.
rate = tf.keras.optimizers.schedules.PolynomialDecay(1e-4, steps, 0.0)
optimizer = tf.keras.optimizers.AdamW(rate, weight_decay=0.01)
optimizer.exclude_from_weight_decay(var_names=["norm", "bias"])
loss = tf.keras.losses.BinaryCrossentropy(from_logits=True)
model.compile(optimizer=optimizer, loss=loss, metrics=[tf.metrics.BinaryAccuracy(threshold=0.0)])
untrained, _ = model.evaluate(dataset(test, batch_size), verbose=0)
model.fit(dataset(train, batch_size), epochs=arguments.epochs, verbose=2)
trained, accuracy = model.evaluate(dataset(test, batch_size), verbose=0)
print(f"on the {len(test)} others: loss {untrained:.3f} before, {trained:.3f} after; accuracy {accuracy:.3f}")

model.save(directory / "classifier", include_optimizer=False)
reloaded = tf.saved_model.load(str(directory / "classifier"))
examples = ["I could watch it every day!", "It was fun.", "It is over at last.", "Who pays for such rubbish?"]
scores = tf.sigmoid(reloaded(tf.constant(examples)))
served = tf.sigmoid(reloaded.signatures["serving_default"](tf.constant(examples))["classifier"])
for example, score in zip(examples, scores.numpy()[:, 0], strict=True):
    print(f"{score:.3f}  {example}")
print(f"as {directory}/classifier answers, which needs neither the exports nor keras_bert")
tf.debugging.assert_near(tf.sigmoid(model(tf.constant(examples))), scores, atol=1e-5)
tf.debugging.assert_near(served, scores, atol=1e-5)
if not trained < untrained:
    raise SystemExit("it has not learned anything")
