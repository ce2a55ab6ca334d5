"""Makes the golden exports: one small BERT as this version writes it, for later versions to be held against.

    python -m tests.golden.make_golden_export

Writes:
    saved_models/tiny-bert/*.tar.gz     preprocessor, encoder (with `.mlm`) and serving, as TF Hub packs a SavedModel
    tests/golden/tiny-bert-export.npz   what they must answer, computed in plain Python and numpy from the same weights
                                        (tests/support/reference)
The card, saved_models/tiny-bert/README.md, is written by hand: say there with which versions they were made.
"""

import gzip
import io
import tarfile
import tempfile
from pathlib import Path

import numpy as np

from keras_bert import BertSentenceEncoder
from keras_bert.saved_model import export_encoder, export_preprocessor, export_serving
from keras_bert.tasks import BertMaskedLM

from ..support.reference import encoder as encoder_reference
from ..support.reference import wordpiece as text_reference
from ..support.small import CONFIG, TEXTS, VOCABULARY, preprocessor, weights, write_preset

HERE = Path(__file__).parent
EXPORTS = HERE.parents[1] / "saved_models" / "tiny-bert"
PARTS = ("preprocessor", "encoder", "serving")
SEQUENCE_LENGTH = 24

# In each text, after [CLS]: tokens 1, 0 (which is [CLS] itself) and the last one.
POSITIONS = np.array([[1, 0, 6], [1, 0, 1], [1, 0, 20], [1, 0, 9], [1, 0, 23]], np.int32)


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
        tokens = [token for token, *_ in text_reference.tokenize(text, set(VOCABULARY))][: length - 2]
        ids = [VOCABULARY.index(token) for token in ["[CLS]", *tokens, "[SEP]"]]
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


def export(directory, part):
    """Exports one of `PARTS` into `directory`, replacing an older export. Returns the directory of the SavedModel."""
    texts = preprocessor(sequence_length=SEQUENCE_LENGTH)
    if part == "preprocessor":
        export_preprocessor(texts, directory / part, overwrite=True)
        return directory / part
    with tempfile.TemporaryDirectory() as preset:
        model = BertMaskedLM.from_preset(write_preset(Path(preset)))
    if part == "serving":
        return export_serving(BertSentenceEncoder(model.encoder, texts), directory / part)
    export_encoder(model, directory / part, overwrite=True)
    return directory / part


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
        for part in PARTS:
            export(Path(directory), part)
            pack(Path(directory) / part, EXPORTS / f"{part}.tar.gz")
            print(f"{part}.tar.gz: {(EXPORTS / f'{part}.tar.gz').stat().st_size / 1000:.1f} kB")
    np.savez_compressed(HERE / "tiny-bert-export.npz", **expected())


if __name__ == "__main__":
    main()
