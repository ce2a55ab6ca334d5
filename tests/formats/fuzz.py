"""Flips bytes in small valid files and reads them: a program of its own, because a native library could end it.

    python -m tests.formats.fuzz ROUNDS SEED KIND...

Prints a line before every round, and one after all of a kind, so that whoever runs it knows which did not end.
"""

import collections
import json
import random
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from keras_bert import formats

from ..support.checkpoints import CONFIGS, random_weights
from ..support.keras_hub import write_weights

SHARD = "model-00001-of-00001.safetensors"
# Kind -> the file that is damaged.
FILES = {
    "safetensors": "model.safetensors",
    "config": "config.json",
    "shards": "model.safetensors.index.json",
    "tf1-index": "bert_model.ckpt.index",
    "tf1-values": "bert_model.ckpt.data-00000-of-00001",
    "garden-index": "bert_model.ckpt.index",
    "h5": "model.weights.h5",
}


def valid(kind, directory):
    """Writes a model whose files can all be read."""
    config = CONFIGS["bert"]
    if kind == "h5":
        write_weights(directory, "bert")
        return
    weights = random_weights(config, "masked_lm")
    form = {"tf1": "tf1", "garden": "garden"}.get(kind.partition("-")[0], "hugging_face")
    formats.write(directory, config, weights, format=form)
    if kind == "shards":
        tensors = load_file(directory / "model.safetensors")
        (directory / "model.safetensors").unlink()
        save_file(tensors, directory / SHARD)
        index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, SHARD)}
        (directory / FILES[kind]).write_text(json.dumps(index))


def read(directory):
    with formats.open_checkpoint(directory) as checkpoint:
        parts = {part: checkpoint.read(part) for part in ("encoder", *sorted(checkpoint.heads))}
    return {(part, name): value for part, values in parts.items() for name, value in values.items()}


def damaged(content, chance):
    """One to four bytes changed: a bit flipped, or another byte altogether; often near the start, where lengths are."""
    result = bytearray(content)
    for _ in range(chance.choice([1, 1, 2, 4])):
        reach = chance.choice([len(result), len(result), min(64, len(result)), min(2000, len(result))])
        i = chance.randrange(reach)
        result[i] = chance.choice([result[i] ^ 1 << chance.randrange(8), chance.randrange(256), 0, 255])
    return bytes(result)


def outcome(kind, directory, expected):
    """What reading a damaged directory came to: "refused", "equal", or "values" where only a value is damaged."""
    try:
        found = read(directory)
    except (ValueError, OSError):
        return "refused"
    # Some bytes of a configuration decide what is read: without a pooler, say, or with another head.
    for name in found.keys() & expected.keys():
        if found[name].shape != expected[name].shape:
            raise AssertionError(f"{name} has shape {found[name].shape}, was {expected[name].shape}")
    lost = {name for name in expected.keys() - found.keys() if "pooler" not in name[1] and name[0] != "masked_lm"}
    if lost or found.keys() - expected.keys():
        raise AssertionError(f"{sorted(lost)} and {sorted(found.keys() - expected.keys())} are on one side only")
    different = sum(np.count_nonzero(found[name].view("i4") != expected[name].view("i4")) for name in found)
    if different and kind not in ("safetensors", "h5"):
        raise AssertionError(f"{different} values differ, though no value was damaged, or all of them are checked")
    if different > 4 and kind != "h5":  # where an array lies in an HDF5 file, and in what type, no checksum guards
        raise AssertionError(f"{different} values differ, after at most 4 bytes were changed")
    return "values" if different else "equal"


def main(kind, rounds, seed):
    warnings.simplefilter("ignore")  # damaged values may well be infinite
    counts = collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "model"
        valid(kind, directory)
        path = directory / FILES[kind]
        content, expected = path.read_bytes(), read(directory)
        for i in range(seed, seed + rounds):
            print(kind, "round", i, flush=True)
            path.write_bytes(damaged(content, random.Random(i)))
            counts[outcome(kind, directory, expected)] += 1
    print(kind, "done", dict(counts), flush=True)


if __name__ == "__main__":
    for each in sys.argv[3:]:
        main(each, int(sys.argv[1]), int(sys.argv[2]))
