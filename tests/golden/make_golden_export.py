"""Makes the golden exports: one small BERT as this version writes it, for later versions to be held against.

    python -m tests.golden.make_golden_export

Writes:
    saved_models/tiny-bert/*.tar.gz     preprocessor, encoder (with `.mlm`) and serving, as TF Hub packs a SavedModel
    tests/golden/tiny-bert-export.npz   what they must answer, computed in plain Python and numpy from the same weights
                                        (tests/text/reference.py, tests/encoder/reference.py)
The card, saved_models/tiny-bert/README.md, is written by hand: say there with which versions they were made.
"""

import gzip
import io
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from keras_bert import BertConfig, BertPreprocessor, BertSentenceEncoder
from keras_bert.saved_model import export_encoder, export_preprocessor, export_serving
from keras_bert.tasks import BertMaskedLM

from ..encoder import reference as encoder_reference
from ..text import reference as text_reference

HERE = Path(__file__).parent
EXPORTS = HERE.parents[1] / "saved_models" / "tiny-bert"
PARTS = ("preprocessor", "encoder", "serving")
SEQUENCE_LENGTH = 24

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
LETTERS = [*"abcdefghijklmnopqrstuvwxyz", *"0123456789"]
WORDS = "the an and or of to in on is was it that this she he they we you not very good bad film movie plot time music "
WORDS += "actor story great dull warm cold like love hate see watch bank river money"
ENDINGS = "ing ed er est ly ful less ness ment able ion al ive"
VOCABULARY = [
    *SPECIAL,
    *"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~",
    *LETTERS,
    *"日本語中文",
    *WORDS.split(),
    *(f"##{piece}" for piece in (*LETTERS, *ENDINGS.split())),
]
CONFIG = BertConfig(
    vocab_size=len(VOCABULARY), hidden_size=32, num_layers=2, num_heads=4, intermediate_size=64, max_positions=48
)

TEXTS = [
    "The film was very good!",
    "",
    "Naïve plots, dull music & a cold river-bank (1987).",
    "日本語の映画は good 🙂",
    "She loved watching it\u200b; he hated the acting, the story, the music and not least the bad endings, 42 times.",
]
# In each text, after [CLS]: pieces 1, 0 (which is [CLS] itself) and the last one.
POSITIONS = np.array([[1, 0, 6], [1, 0, 1], [1, 0, 20], [1, 0, 9], [1, 0, 23]], np.int32)


def weights():
    """Hugging Face's names -> float32 arrays; none is zero or one, so that leaving any of them out shows."""
    generator = np.random.default_rng(0)
    size, inner = CONFIG.hidden_size, CONFIG.intermediate_size
    values = {}

    def draw(name, *shape, around=0.0):
        values[name] = generator.normal(around, 0.3, shape).astype(np.float32)

    def dense(name, inputs, outputs):
        draw(f"{name}.weight", outputs, inputs)
        draw(f"{name}.bias", outputs)

    def norm(name):
        draw(f"{name}.weight", size, around=1.0)
        draw(f"{name}.bias", size)

    for table, rows in (("word", CONFIG.vocab_size), ("position", CONFIG.max_positions), ("token_type", 2)):
        draw(f"embeddings.{table}_embeddings.weight", rows, size)
    norm("embeddings.LayerNorm")
    for i in range(CONFIG.num_layers):
        layer = f"encoder.layer.{i}"
        for part in ("query", "key", "value"):
            dense(f"{layer}.attention.self.{part}", size, size)
        dense(f"{layer}.attention.output.dense", size, size)
        norm(f"{layer}.attention.output.LayerNorm")
        dense(f"{layer}.intermediate.dense", size, inner)
        dense(f"{layer}.output.dense", inner, size)
        norm(f"{layer}.output.LayerNorm")
    dense("pooler.dense", size, size)
    dense("cls.predictions.transform.dense", size, size)
    norm("cls.predictions.transform.LayerNorm")
    draw("cls.predictions.bias", CONFIG.vocab_size)
    return values


def expected():
    """The answers, one text at a time and without padding."""
    values, length = weights(), SEQUENCE_LENGTH
    answers = {
        "texts": np.array(TEXTS),
        "input_word_ids": np.zeros((len(TEXTS), length), np.int32),
        "positions": POSITIONS,
        "pooled_output": [],
        "encoder_outputs": np.zeros((CONFIG.num_layers, len(TEXTS), length, CONFIG.hidden_size), np.float32),
        "mlm_logits": [],
        "embedding": [],
    }
    for row, text in enumerate(TEXTS):
        pieces = [piece for piece, *_ in text_reference.tokenize(text, set(VOCABULARY))][: length - 2]
        ids = [VOCABULARY.index(piece) for piece in ["[CLS]", *pieces, "[SEP]"]]
        pooled, layers, _ = encoder_reference.forward(CONFIG, values, np.array(ids), np.zeros(len(ids), int))
        answers["input_word_ids"][row, : len(ids)] = ids
        answers["encoder_outputs"][:, row, : len(ids)] = layers
        answers["pooled_output"].append(pooled)
        answers["mlm_logits"].append(mlm_logits(values, layers[-1][POSITIONS[row]]))
        mean = layers[-1].mean(axis=0)
        answers["embedding"].append(mean / np.linalg.norm(mean))
    return {name: value if isinstance(value, np.ndarray) else np.float32(value) for name, value in answers.items()}


def mlm_logits(values, hidden):
    """`LayerNorm(gelu(h W^T + b)) E^T + c`, for `[n, hidden]`."""
    head = "cls.predictions"
    hidden = hidden @ values[f"{head}.transform.dense.weight"].T + values[f"{head}.transform.dense.bias"]
    gamma, beta = (values[f"{head}.transform.LayerNorm.{name}"] for name in ("weight", "bias"))
    hidden = encoder_reference.ACTIVATIONS[CONFIG.activation](hidden)
    hidden = encoder_reference.layer_norm(hidden, gamma, beta, CONFIG.layer_norm_epsilon)
    return hidden @ values["embeddings.word_embeddings.weight"].T + values[f"{head}.bias"]


def write_preset(directory):
    """The model as Hugging Face lays it out."""
    save_file(weights(), directory / "model.safetensors", metadata={"format": "pt"})
    CONFIG.write(directory / "config.json")
    (directory / "vocab.txt").write_text("".join(piece + "\n" for piece in VOCABULARY), encoding="utf-8")


def export(directory):
    """Exports the parts into `directory`."""
    with tempfile.TemporaryDirectory() as preset:
        write_preset(Path(preset))
        preprocessor = BertPreprocessor.from_preset(preset, sequence_length=SEQUENCE_LENGTH)
        export_preprocessor(preprocessor, directory / "preprocessor")
        export_encoder(BertMaskedLM.from_preset(preset), directory / "encoder")
        model = BertSentenceEncoder(BertMaskedLM.from_preset(preset).encoder, preprocessor)
        export_serving(model, directory / "serving")


def pack(directory, target):
    """A directory as a .tar.gz that is the same whoever makes it, and when."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for path in sorted(directory.rglob("*")):
            entry = archive.gettarinfo(path, str(path.relative_to(directory)))
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
            entry.mode = 0o755 if path.is_dir() else 0o644
            if path.is_dir():
                archive.addfile(entry)
            else:
                archive.addfile(entry, io.BytesIO(path.read_bytes()))
    target.write_bytes(gzip.compress(packed.getvalue(), mtime=0))


def main():
    EXPORTS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        export(Path(directory))
        for part in PARTS:
            pack(Path(directory) / part, EXPORTS / f"{part}.tar.gz")
            print(f"{part}.tar.gz: {(EXPORTS / f'{part}.tar.gz').stat().st_size / 1000:.1f} kB")
    np.savez_compressed(HERE / "tiny-bert-export.npz", **expected())


if __name__ == "__main__":
    main()
