"""BERT in one file, to be read from top to bottom: from a string to vectors, to masked words, to a step of training.

python examples/bert_in_one_file.py [DIRECTORY]

It computes with `keras.ops` alone, without layers, and has the names of the paper (Devlin et al. 2018):

    L  layers                   n  tokens in a row, with padding
    H  width of a hidden state  V  tokens in the vocabulary
    A  attention heads          d  width of a head, H / A

DIRECTORY is a BERT in Hugging Face's files: config.json, model.safetensors and the vocab.txt of an uncased model. The
default is bert-books: L=4, H=192, A=6. docs/bert-in-one-file.md says what the package does beyond this file.
"""

import json
import math
import sys
import unicodedata
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf
from keras import ops
from safetensors.numpy import load_file

# -- 1. From a string to tokens: WordPiece.


def split_words(text):
    """Splits a text into words and punctuation, in lower case and without accents: "Né, 1" -> ["ne", ",", "1"]."""
    words = ""
    for character in unicodedata.normalize("NFD", text.lower()):  # NFD: an accent is a character of its own
        kind = unicodedata.category(character)  # "Ll" is a letter, "Mn" an accent, "Po" punctuation, "Cc" control
        is_sign = kind[0] == "P" or character in "$+<=>^`|~"
        is_ideograph = unicodedata.name(character, "").startswith("CJK ") and kind == "Lo"
        if character in "\t\n\r":
            words += " "
        elif is_sign or is_ideograph:
            words += f" {character} "  # a word by itself
        elif kind not in ("Mn", "Cc", "Cf") and character != "\ufffd":
            words += character
    return words.split()


def split_into_pieces(word, vocabulary):
    """Splits a word, from the left, into the longest tokens of the vocabulary: "playing" -> ["play", "##ing"]."""
    pieces, start = [], 0
    while start < len(word):
        prefix = "##" if start > 0 else ""
        end = len(word)
        while end > start and prefix + word[start:end] not in vocabulary:
            end -= 1
        if end == start or len(word) > 100:
            return ["[UNK]"]
        pieces.append(prefix + word[start:end])
        start = end
    return pieces


def tokenize(text, vocabulary):
    """Splits a text into tokens."""
    return [piece for word in split_words(text) for piece in split_into_pieces(word, vocabulary)]


def pack(examples, vocabulary, n):
    """Packs one or two texts into a row of n ids: [CLS] first text [SEP] second text [SEP] [PAD] [PAD] ..."""
    rows = {"ids": [], "mask": [], "types": []}
    for texts in examples:
        parts = [tokenize(text, vocabulary) for text in texts]
        while 1 + sum(len(part) + 1 for part in parts) > n:
            max(reversed(parts), key=len).pop()  # the last token of the longer text
        tokens, types = ["[CLS]"], [0]
        for number, part in enumerate(parts):
            tokens += [*part, "[SEP]"]
            types += [number] * (len(part) + 1)
        padding = n - len(tokens)
        rows["ids"].append([vocabulary[token] for token in tokens] + [vocabulary["[PAD]"]] * padding)
        rows["mask"].append([1] * len(tokens) + [0] * padding)  # 1: a token; 0: padding
        rows["types"].append(types + [0] * padding)  # 0: first text; 1: second text
    return {name: np.array(row, "int32") for name, row in rows.items()}  # each [batch, n]


# -- 2. Three functions that all parts use. `weights` is a dict: name in the file -> variable.


def dense(x, weights, name):
    """Computes x W + b. The file has W as [outputs, inputs]."""
    return ops.matmul(x, ops.transpose(weights[f"{name}.weight"])) + weights[f"{name}.bias"]


def layer_norm(x, weights, name):
    """Gives each vector the mean 0 and the variance 1, then a learned scale and shift."""
    mean = ops.mean(x, axis=-1, keepdims=True)  # [batch, n, 1]
    variance = ops.mean((x - mean) ** 2, axis=-1, keepdims=True)  # [batch, n, 1]
    return (x - mean) / ops.sqrt(variance + 1e-12) * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def dropout(x, rate):
    """In training, sets some numbers to 0 at random; the rate is 0 otherwise."""
    return keras.random.dropout(x, rate) if rate > 0 else x


# -- 3. Embeddings: what a token is, where it is, and in which of the two texts.


def embed(weights, ids, types, rate):
    """Sums three learned vectors for each token."""
    token = ops.take(weights["embeddings.word_embeddings.weight"], ids, axis=0)  # [batch, n, H]
    position = weights["embeddings.position_embeddings.weight"][: ids.shape[1]]  # [n, H]
    segment = ops.take(weights["embeddings.token_type_embeddings.weight"], types, axis=0)  # [batch, n, H]
    return dropout(layer_norm(token + position + segment, weights, "embeddings.LayerNorm"), rate)


# -- 4. Attention: each token takes something from all tokens of its row.


def attend(x, mask, weights, name, A, rate):
    """Computes softmax(Q K^T / sqrt(d)) V in each of A heads, and a dense layer over all heads."""
    batch, n, H = x.shape
    d = H // A

    def split_heads(y):
        return ops.transpose(ops.reshape(y, (batch, n, A, d)), (0, 2, 1, 3))  # [batch, A, n, d]

    Q = split_heads(dense(x, weights, f"{name}.self.query"))  # what each token looks for
    K = split_heads(dense(x, weights, f"{name}.self.key"))  # what each token offers
    V = split_heads(dense(x, weights, f"{name}.self.value"))  # what each token passes on
    scores = ops.matmul(Q, ops.transpose(K, (0, 1, 3, 2))) / math.sqrt(d)  # [batch, A, n, n]
    scores = ops.where(mask[:, None, None, :] == 1, scores, -1e9)  # nothing is taken from padding
    probabilities = dropout(ops.softmax(scores, axis=-1), rate)  # each row sums to 1
    context = ops.transpose(ops.matmul(probabilities, V), (0, 2, 1, 3))  # [batch, n, A, d]
    return dense(ops.reshape(context, (batch, n, H)), weights, f"{name}.output.dense")  # [batch, n, H]


# -- 5. A block: attention, then two dense layers for each token by itself. Each part is added to what was there.


def block(x, mask, weights, name, A, rate):
    """Computes one of the L blocks: [batch, n, H] -> [batch, n, H]."""
    attended = dropout(attend(x, mask, weights, f"{name}.attention", A, rate), rate)
    x = layer_norm(x + attended, weights, f"{name}.attention.output.LayerNorm")
    inner = ops.gelu(dense(x, weights, f"{name}.intermediate.dense"), approximate=False)  # [batch, n, 4H]
    outer = dropout(dense(inner, weights, f"{name}.output.dense"), rate)  # [batch, n, H]
    return layer_norm(x + outer, weights, f"{name}.output.LayerNorm")


# -- 6. The stack of L blocks, and the vector of the text as a whole.


def bert(weights, config, inputs, rate=0.0):
    """Computes the outputs of the encoder from the rows of `pack`."""
    x = embed(weights, inputs["ids"], inputs["types"], rate)
    encoder_outputs = []
    for layer in range(config["num_hidden_layers"]):
        x = block(x, inputs["mask"], weights, f"encoder.layer.{layer}", config["num_attention_heads"], rate)
        encoder_outputs.append(x)
    pooled_output = ops.tanh(dense(x[:, 0], weights, "pooler.dense"))  # of the token [CLS]
    return {
        "pooled_output": pooled_output,  # [batch, H]
        "sequence_output": x,  # [batch, n, H]
        "encoder_outputs": encoder_outputs,  # L times [batch, n, H]
    }


# -- 7. The two heads of pre-training, and their losses.


def predict_words(weights, sequence_output):
    """Scores each token of the vocabulary at each place. The last matrix is the table of word embeddings."""
    x = ops.gelu(dense(sequence_output, weights, "cls.predictions.transform.dense"), approximate=False)
    x = layer_norm(x, weights, "cls.predictions.transform.LayerNorm")  # [batch, n, H]
    table = weights["embeddings.word_embeddings.weight"]  # [V, H]
    return ops.matmul(x, ops.transpose(table)) + weights["cls.predictions.bias"]  # [batch, n, V]


def predict_next_sentence(weights, pooled_output):
    """Scores "the second text follows the first" and "it does not": [batch, 2]."""
    return dense(pooled_output, weights, "cls.seq_relationship")


def cross_entropy(scores, labels):
    """Computes -log p(label), where p is the softmax of the scores: [..., classes], [...] -> [...]."""
    log_p = ops.log_softmax(scores, axis=-1)
    return -ops.take_along_axis(log_p, ops.expand_dims(labels, -1), axis=-1)[..., 0]


def pretraining_losses(weights, config, batch, rate=0.0):
    """Computes the two losses, each a mean: over the masked words, and over the pairs. Training adds them."""
    outputs = bert(weights, config, batch, rate)
    of_words = cross_entropy(predict_words(weights, outputs["sequence_output"]), batch["words"])  # [batch, n]
    of_pairs = cross_entropy(predict_next_sentence(weights, outputs["pooled_output"]), batch["is_random"])  # [batch]
    is_chosen = ops.cast(batch["is_chosen"], "float32")  # [batch, n]
    return ops.sum(of_words * is_chosen) / ops.sum(is_chosen), ops.mean(of_pairs)


# -- 8. What the model learns from, and one step of training.


def mask_words(rows, vocabulary, generator):
    """Chooses 15% of the tokens to predict. Of these, 80% become [MASK], 10% a random token, 10% stay."""
    ids = rows["ids"]
    is_word = ~np.isin(ids, [vocabulary[token] for token in ("[CLS]", "[SEP]", "[PAD]")])
    is_chosen = is_word & (generator.random(ids.shape) < 0.15)
    lot = generator.random(ids.shape)
    masked = np.where(is_chosen & (lot < 0.8), vocabulary["[MASK]"], ids)
    masked = np.where(is_chosen & (lot >= 0.9), generator.integers(0, len(vocabulary), ids.shape), masked)
    return {**rows, "ids": masked.astype("int32"), "words": ids, "is_chosen": is_chosen}


def train_step(weights, config, batch, optimizer, rate=0.1):
    """Changes all weights a little, so that the sum of the losses falls. Returns the two losses."""
    variables = list(weights.values())
    with tf.GradientTape() as tape:  # remembers what is computed, to differentiate it
        of_words, of_pairs = pretraining_losses(weights, config, batch, rate)
        loss = of_words + of_pairs
    optimizer.apply(tape.gradient(loss, variables), variables)
    return float(of_words), float(of_pairs)


# -- 9. A model's files.


def load(directory):
    """Reads a BERT: its weights, its config.json, and its vocabulary, token -> id. Heads that it lacks are new."""
    directory = Path(directory)
    config = json.loads((directory / "config.json").read_text("utf-8"))
    lines = (directory / "vocab.txt").read_text("utf-8").split("\n")
    vocabulary = {token: number for number, token in enumerate(lines) if token}
    arrays = load_file(directory / "model.safetensors")
    arrays = {name.removeprefix("bert."): array for name, array in arrays.items() if array.dtype.kind == "f"}
    arrays.pop("cls.predictions.decoder.weight", None)  # the table of word embeddings once more
    V, H = arrays["embeddings.word_embeddings.weight"].shape
    generator = np.random.default_rng(0)
    new_heads = {
        "cls.predictions.transform.dense.weight": generator.normal(0, 0.02, (H, H)),
        "cls.predictions.transform.dense.bias": np.zeros(H),
        "cls.predictions.transform.LayerNorm.weight": np.ones(H),
        "cls.predictions.transform.LayerNorm.bias": np.zeros(H),
        "cls.predictions.bias": np.zeros(V),
        "cls.seq_relationship.weight": generator.normal(0, 0.02, (2, H)),
        "cls.seq_relationship.bias": np.zeros(2),
    }
    weights = {name: keras.Variable(array, dtype="float32") for name, array in {**new_heads, **arrays}.items()}
    return weights, config, vocabulary


PAIRS = [  # first text, second text, and whether the second is a random one
    ("The cat sat on the mat.", "It fell asleep in the sun.", 0),
    ("The cat sat on the mat.", "Interest rates rose again in March.", 1),
    ("She bought bread and butter.", "Then she went home to make breakfast.", 0),
    ("She bought bread and butter.", "The telescope showed a distant galaxy.", 1),
]


def main():
    if len(sys.argv) > 1:
        directory = sys.argv[1]
    else:
        from keras_bert import presets

        directory = presets.resolve("bert-books")
    weights, config, vocabulary = load(directory)
    names = {number: token for token, number in vocabulary.items()}

    rows = pack([(first, second) for first, second, _ in PAIRS], vocabulary, n=20)
    print("tokens:", *(names[number] for number in rows["ids"][0]))
    outputs = bert(weights, config, rows)
    for name in ("pooled_output", "sequence_output"):
        print(f"{name}: {tuple(outputs[name].shape)}")
    print(f"encoder_outputs: {len(outputs['encoder_outputs'])} of that shape")
    row = pack([("She opened the door and went in.",)], vocabulary, n=12)
    row["ids"][0, 4] = vocabulary["[MASK]"]  # in place of "door"
    scores = predict_words(weights, bert(weights, config, row)["sequence_output"])[0, 4]  # [V]
    print("masked word:", *(names[int(number)] for number in ops.top_k(scores, 3)[1]))

    keras.utils.set_random_seed(0)  # of dropout
    generator, optimizer = np.random.default_rng(0), keras.optimizers.Adam(5e-4)
    is_random = np.array([number for *_, number in PAIRS], "int32")
    for step in range(1, 21):
        batch = {**mask_words(rows, vocabulary, generator), "is_random": is_random}
        of_words, of_pairs = train_step(weights, config, batch, optimizer)
        if step in (1, 20):
            print(f"step {step}: loss of masked words {of_words:.2f}, of the next sentence {of_pairs:.2f}")


if __name__ == "__main__":
    main()
