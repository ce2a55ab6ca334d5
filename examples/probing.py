"""Which layer knows parts of speech? A linear classifier on the words' vectors of each layer says.

python examples/probing.py brown.zip [--sentences 3000]

The corpus is a folder or a zip archive of files in the Brown corpus' layout: a sentence a line, each word with its tag,
`The/at jury/nn said/vbd ...` (https://www.nltk.org/nltk_data/, "Brown Corpus"). Every fifth file is held out to measure
with. Beside the layers stands what the words alone tell: the class that each has most often. The table is also drawn,
in saved_models/probing.png. Needs the extra `train`.
"""

import argparse
import re
import zipfile
from collections import Counter, defaultdict
from pathlib import Path

import matplotlib
import numpy as np
import tensorflow as tf
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from keras_bert import BertEncoder, BertPreprocessor

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PRESET = "all-MiniLM-L6-v2"
# Class -> how Brown's tags for it begin. Punctuation, foreign words and cries are read, but nobody is asked for them.
CLASSES = {
    "noun": "nn nr", "name": "np", "pronoun": "pp pn wp ex", "verb": "vb", "auxiliary": "be do hv md",
    "adjective": "jj", "adverb": "rb rn ql wrb wql", "determiner": "at dt ab ap wdt", "preposition": "in",
    "conjunction": "cc cs", "numeral": "cd od", "particle": "to rp *",
}  # fmt: skip
CLASS_OF = {beginning: name for name, beginnings in CLASSES.items() for beginning in beginnings.split()}


def coarse(tag: str) -> str | None:
    """nn-tl -> noun; bez* -> auxiliary; ppss+bem (I'm), of two words -> the first one's class."""
    letters = re.match(r"fw-|[a-z]+|\*", tag.lower())
    return letters and next((CLASS_OF[letters[0][:n]] for n in (3, 2, 1) if letters[0][:n] in CLASS_OF), None)


def read(path: Path) -> list[list]:
    """Files of sentences of (word, class or None). Lines with words that have no tag, of a README, are left out."""
    if path.is_dir():
        files = {file.name: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    else:
        with zipfile.ZipFile(path) as archive:
            files = {name: archive.read(name) for name in archive.namelist()}
    read = []
    for _, content in sorted(files.items()):
        lines = [[word.rpartition("/") for word in line.split()] for line in content.decode().split("\n")]
        lines = [line for line in lines if 0 < len(line) <= 100 and all(word and tag for word, _, tag in line)]
        read.append([[(word, coarse(tag)) for word, _, tag in line] for line in lines])
    return [file for file in read if file]


def sample(files: list[list], count: int) -> tuple[list, list[str], np.ndarray]:
    """Some sentences, and of all words in them that have a class the words, in lower case, and the classes."""
    sentences = [sentence for file in files for sentence in file]
    chosen = [sentences[i] for i in np.random.default_rng(0).permutation(len(sentences))[:count]]
    chosen.sort(key=len)  # batches of similar length
    words, names = zip(*((word, name) for sentence in chosen for word, name in sentence if name), strict=True)
    return chosen, [word.lower() for word in words], np.array(names)


def vectors(encoder: BertEncoder, preprocessor: BertPreprocessor, sentences: list) -> list[np.ndarray]:
    """Of each layer float32 [words with a class, hidden]: the vector of each word's first token."""
    layers = defaultdict(list)
    for start in range(0, len(sentences), 32):
        batch = sentences[start : start + 32]
        words = tf.ragged.constant([[word for word, _ in sentence] for sentence in batch])
        tokens = preprocessor.tokenizer.tokenize_words(words)  # [batch, (words), (tokens)]
        inputs = preprocessor.pack(tokens.merge_dims(1, 2))
        places = []
        for row, (sentence, counts) in enumerate(zip(batch, tokens.row_lengths(axis=2).to_list(), strict=True)):
            first = np.cumsum([1, *counts[:-1]])  # behind [CLS]
            places += [(row, at) for at, (_, name) in zip(first, sentence, strict=True) if name]
        # Layer 0 is the table of the tokens, which has no context in it.
        hidden = [encoder.embeddings.word_embeddings(inputs["input_word_ids"]), *encoder(inputs)["encoder_outputs"]]
        for number, layer in enumerate(hidden):
            layers[number].append(tf.gather_nd(layer, places).numpy())
    return [np.concatenate(layers[number]) for number in sorted(layers)]


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("corpus", type=Path)
parser.add_argument("--sentences", type=int, default=3000, help="to train on; a quarter as many to measure with")
arguments = parser.parse_args()

files = read(arguments.corpus)
train, words, names = sample([file for i, file in enumerate(files) if i % 5 < 4], arguments.sentences)
test, test_words, test_names = sample(files[4::5], arguments.sentences // 4)
print(f"{len(words):,} words to train on, {len(test_words):,} of other files to measure with")

counts = defaultdict(Counter)
for word, name in zip(words, names, strict=True):
    counts[word][name] += 1
unknown = Counter({name: 1 for name, _ in Counter(names).most_common(1)})
guesses = [counts.get(word, unknown).most_common(1)[0][0] for word in test_words]
baseline = float(np.mean(guesses == test_names))
print(f"{'most frequent class of a word':30} {baseline:.3f}")

encoder, preprocessor = BertEncoder.from_preset(PRESET), BertPreprocessor.from_preset(PRESET, sequence_length=None)
accuracies = []
for x, test_x in zip(*(vectors(encoder, preprocessor, sentences) for sentences in (train, test)), strict=True):
    probe = make_pipeline(StandardScaler(), LogisticRegression(max_iter=300)).fit(x, names)
    accuracies.append(probe.score(test_x, test_names))
    print(f"layer {len(accuracies) - 1:<24} {accuracies[-1]:.3f}", flush=True)

plt.plot(accuracies, marker="o", label="linear classifier on the layer")
plt.axhline(baseline, linestyle="--", color="gray", label="most frequent class of a word")
plt.gca().set(xlabel="layer (0: embeddings)", ylabel="accuracy")
plt.legend()
Path("saved_models").mkdir(exist_ok=True)
plt.savefig("saved_models/probing.png", dpi=150)
print("saved_models/probing.png")
