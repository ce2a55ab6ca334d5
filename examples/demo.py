"""What BERT does with a sentence, step by step, on real models.

Steps 1 to 4 and 6 use all-MiniLM-L6-v2 (6 layers, 384 wide); step 5 uses bert-books (4 layers, 192 wide).

python examples/demo.py
"""

import os
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # TensorFlow's start-up messages

import numpy as np
import tensorflow as tf
import tensorflow_hub as hub

from keras_bert import BertMaskedLM, BertNextSentence, BertSentenceEncoder
from keras_bert.saved_model import export_encoder, export_preprocessor

SENTENCES = ["I love pizza", "India is my country", "Italy is fun place to visit"]
SENSES = {  # a word -> two sentences for each of two meanings
    "fair": [
        *("The judge was fair to both sides.", "It is only fair to share the work."),
        *("We rode the wheel at the fair.", "The village fair has rides and games."),
    ],
    "bank": [
        *("He sat on the bank of the river.", "The bank of the stream was muddy."),
        *("The bank lent him money.", "She has an account at the bank."),
    ],
    "spring": [
        *("The flowers bloom in spring.", "Birds return every spring."),
        *("The spring in the mattress is broken.", "A metal spring pushes the lid up."),
    ],
    "rock": [
        *("He threw a rock into the lake.", "A rock fell from the cliff."),
        *("The band plays rock and jazz.", "She listens to loud rock music."),
    ],
}
MASKED = [
    "He looked at [MASK] and said nothing.",
    "She opened the [MASK] and went in.",
    "He shook his [MASK] and smiled.",
]
CONTINUED = {  # a sentence -> one that follows, and a random one
    "He knocked at the door.": ["An old woman opened it.", "Whales are the largest animals in the sea."],
    "The ship was sinking.": [
        "The captain ordered the men into the boats.",
        "She had never liked her cousin's piano playing.",
    ],
}


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def cosine(a: np.ndarray, b: np.ndarray) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


model = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2")
preprocessor, encoder, tokenizer = model.preprocessor, model.encoder, model.preprocessor.tokenizer


def tokens(ids: np.ndarray) -> list[str]:
    return [tokenizer.vocabulary[i] for i in ids]


title("1. Strings become three integer tensors")
inputs = preprocessor(SENTENCES)
for row, sentence in enumerate(SENTENCES):
    print(f"{sentence!r}: {' '.join(tokens(inputs['input_word_ids'][row].numpy()))}")
for name, tensor in inputs.items():
    print(f"\n{name}  {tensor.dtype.name} {tuple(tensor.shape)}\n{tensor.numpy()}")

title("2. The encoder turns them into vectors")
outputs = encoder(inputs)
for name in ("pooled_output", "sequence_output"):
    print(f"{name:17}{outputs[name].dtype.name} {tuple(outputs[name].shape)}  {outputs[name].numpy().ravel()[:4]} ...")
layers = outputs["encoder_outputs"]
print(f"{'encoder_outputs':17}a list of {len(layers)}, one a layer, each {tuple(layers[0].shape)}")
same = np.array_equal(layers[-1], outputs["sequence_output"])
print(f"encoder_outputs[-1] equals sequence_output: {same}")

title("3. One vector a sentence: close in meaning, close in space")
texts = [*SENTENCES, "Pizza is my favourite food", "I live in New Delhi"]
vectors = model.encode(texts)
for row, text in enumerate(texts):
    print(f"{text:30}" + "".join(f"{cosine(vectors[row], other):7.2f}" for other in vectors))

title("4. One word, two meanings: the cosine of its vectors in two sentences")
rows = []
for word, sentences in SENSES.items():
    inputs = preprocessor(sentences)
    row, place = np.where(inputs["input_word_ids"].numpy() == tokenizer.vocabulary.index(word))
    contextual = encoder(inputs)["sequence_output"].numpy()[row, place]
    static = encoder.embeddings.word_embeddings(inputs["input_word_ids"]).numpy()[row, place]
    same = [cosine(contextual[i], contextual[j]) for i, j in ((0, 1), (2, 3))]
    other = [cosine(contextual[i], contextual[j]) for i in (0, 1) for j in (2, 3)]
    rows.append([np.mean(same), np.mean(other), cosine(static[0], static[3])])
print(f"{'':10}{'same meaning':>14}{'other meaning':>15}{'from the embedding table, as in Word2Vec':>42}")
for word, (same, other, static) in zip([*SENSES, "mean"], [*rows, np.mean(rows, axis=0)], strict=True):
    print(f"{word:10}{same:14.2f}{other:15.2f}{static:42.2f}")
print(f"Two meanings of 'fair', for example: {SENSES['fair'][0]!r} and {SENSES['fair'][2]!r}")

title("5. What a small BERT learned from forty novels: the word under a mask, and which sentence follows")
masked_lm = BertMaskedLM.from_preset("bert-books")
for text, answer in zip(MASKED, masked_lm.fill(MASKED, top_k=3), strict=True):
    print(f"{text:40}", ", ".join(f"{guess['token']} {guess['probability']:.2f}" for guess in answer["masks"][0]))
next_sentence = BertNextSentence.from_preset("bert-books")
for before, (follows, random) in CONTINUED.items():
    print(before)
    for after in (follows, random):
        print(f"  {next_sentence.score(before, after):.2f}  {after}")
print("Of two novels that it has not read, it is right about 64 of 100 pairs of sentences.")

title("6. SavedModels, for processes that do not have this package")
saved_models = Path(__file__).parents[1] / "saved_models" / "all-MiniLM-L6-v2"
export_preprocessor(preprocessor, saved_models / "preprocessor", overwrite=True)
export_encoder(encoder, saved_models / "encoder", overwrite=True)
sentences = tf.constant(SENTENCES)
loaded = hub.KerasLayer(str(saved_models / "encoder"))(hub.KerasLayer(str(saved_models / "preprocessor"))(sentences))
difference = np.abs(loaded["pooled_output"] - encoder(preprocessor(SENTENCES))["pooled_output"]).max()
print(f"written to {saved_models}")
print(f"hub.KerasLayer on the strings: {', '.join(sorted(loaded))}")
print(f"pooled_output differs from the encoder's by at most {difference:.0e}")
