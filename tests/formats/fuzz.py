"""Damages small valid files and reads them; see tests/support/fuzzing.py."""

import importlib.util
import json
import shutil
import tempfile
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file, save_file

from keras_bert import formats
from keras_bert.config import BertConfig
from keras_bert.formats import Preset, model_files
from keras_bert.formats.libraries import sentence_transformers
from keras_bert.inference import ranges as int8_ranges

from ..support import fuzzing, transformers4
from ..support.checkpoints import CONFIGS, random_weights
from ..support.keras_hub import write_weights
from ..support.memory import most_memory

SHARD = "model-00001-of-00001.safetensors"
# Kind -> the files one of which is damaged.
FILES = {
    "safetensors": ["model.safetensors"],
    "safetensors-header": ["model.safetensors"],
    "config": ["config.json"],
    "shards": ["model.safetensors.index.json"],
    "tf1-config": ["bert_config.json"],
    "tf1-index": ["bert_model.ckpt.index"],
    "tf1-values": ["bert_model.ckpt.data-00000-of-00001"],
    "garden-index": ["bert_model.ckpt.index"],
    "h5": ["model.weights.h5"],
    "h5-config": ["config.json"],
    "h5-tensorflow": ["tf_model.h5"],
    "h5-addresses": ["tf_model.h5"],
    "h5-shards": ["tf_model.h5.index.json", "tf_model-00002-of-00002.h5"],
    "saved-model": ["saved_model/1/variables/variables.index"],
    "sentences": [
        *("modules.json", "1_Pooling/config.json", "2_Dense/config.json", "sentence_bert_config.json"),
        "config_sentence_transformers.json",
    ],
    "int8-ranges": [model_files.INT8_RANGES],
    **{f"config-{family}": ["config.json"] for family in CONFIGS if family not in ("bert", "ernie")},
}
# Kind -> the model of transformers 4 of which a file is damaged.
OF_TRANSFORMERS_4 = {
    **dict.fromkeys(("h5-tensorflow", "h5-addresses"), "bert-sequence"),
    "h5-shards": "bert-sequence-sharded",
    "saved-model": "bert-encoder-saved-model",
}
if importlib.util.find_spec("torch"):
    FILES["torch"] = ["pytorch_model.bin"]
# Kinds in which no checksum guards the values, nor where an array lies.
UNGUARDED = ("safetensors", "safetensors-header", "h5", "h5-tensorflow", "h5-addresses", "h5-shards", "torch")
# Bytes that Python itself may take, for modules that are imported at first use and for messages.
MARGIN = 4_000_000


def valid(kind, directory):
    """Writes a model whose files can all be read."""
    config = CONFIGS[kind.partition("config-")[2] or "bert"] if kind.startswith("config-") else CONFIGS["bert"]
    if kind == "int8-ranges":
        layers = {name: int8_ranges.InputRange(1.5, np.ones(12, np.float32)) for name in int8_ranges.DENSE_LAYERS}
        int8_ranges.write_ranges(directory, int8_ranges.Int8Ranges((layers, None), "digest", True))
        return
    if kind in OF_TRANSFORMERS_4:
        shutil.copytree(transformers4.unpack(directory.parent / "models") / OF_TRANSFORMERS_4[kind], directory)
        return
    if kind.startswith("h5"):
        write_weights(directory, "bert")
        return
    weights = random_weights(config, *["masked_lm"] * (config.num_layers > 0))
    form = {"tf1": "tf1", "garden": "garden"}.get(kind.partition("-")[0], "hugging_face")
    formats.write(directory, config, weights, format=form)
    if kind == "sentences":
        dense = {"units": 2, "activation": "tanh", "use_bias": False}
        settings = sentence_transformers.Settings("mean", 16, dense=dense, prompts={"query": "query: "})
        sentence_transformers.write(
            directory, settings, BertConfig(hidden_size=12), {"kernel": np.ones((12, 2), np.float32)}
        )
    if kind in ("shards", "torch"):
        tensors = load_file(directory / "model.safetensors")
        (directory / "model.safetensors").unlink()
    if kind == "shards":
        save_file(tensors, directory / SHARD)
        index = {"metadata": {}, "weight_map": dict.fromkeys(tensors, SHARD)}
        (directory / FILES[kind][0]).write_text(json.dumps(index))
    if kind == "torch":
        import torch

        torch.save({name: torch.tensor(value) for name, value in tensors.items()}, directory / "pytorch_model.bin")


def read(kind, directory):
    if kind == "int8-ranges":
        ranges = int8_ranges.read_ranges(directory)
        rows = {(str(i), name): each for i, block in enumerate(ranges.blocks) for name, each in (block or {}).items()}
        arrays = {
            key: np.array([limit, *(() if scales is None else scales)], np.float32)
            for key, (limit, scales) in rows.items()
        }
        return arrays | {("", "others"): np.array([ranges.weights == "digest", ranges.is_built_in], np.float32)}
    if kind == "sentences":
        sentence_transformers.read(Preset(directory))
        sentence_transformers.read_weights(Preset(directory))
        return {}
    with formats.open_checkpoint(directory) as checkpoint:
        parts = {part: checkpoint.read(part) for part in ("encoder", *sorted(checkpoint.heads))}
    return {(part, name): value for part, values in parts.items() for name, value in values.items()}


def with_another_header(content, chance):
    """A safetensors file with a header that says something else."""
    length = int.from_bytes(content[:8], "little")
    changed = fuzzing.with_another_value(content[8 : 8 + length], chance)
    return len(changed).to_bytes(8, "little") + changed + content[8 + length :]


def with_other_addresses(content, chance):
    """An HDF5 file, some of whose addresses and lengths (8 bytes) are others of them, or far too large."""
    numbers = [int.from_bytes(content[i : i + 8], "little") for i in range(0, len(content) - 7, 8)]
    places = [i for i, number in enumerate(numbers) if 0 < number < len(content)]
    result = bytearray(content)
    for place in chance.choices(places, k=chance.choice([1, 1, 2])):
        other = numbers[chance.choice(places)] if chance.random() < 0.8 else 1 << chance.choice([31, 32, 40, 63])
        result[8 * place : 8 * place + 8] = other.to_bytes(8, "little")
    return bytes(result)


def read_or_refuse(kind, directory):
    """Reads a damaged directory; None if an error names one of its files."""
    try:
        return read(kind, directory)
    except (ValueError, OSError) as error:
        if not any(str(path) in str(error) for path in directory.rglob("*")):
            raise AssertionError("the error names no file") from error
        return None


def reader(kind, directory):
    """The content of a file of a valid model, and a function that reads the model with another content of it.

    Of some kinds, the content is the header alone, whose length is then always right.
    """
    valid(kind, directory)
    path = directory / FILES[kind][0]
    whole = path.read_bytes()
    end = 8 + int.from_bytes(whole[:8], "little")
    has_length = kind in ("safetensors-header", "int8-ranges")

    def read_content(content):
        path.write_bytes(len(content).to_bytes(8, "little") + content + whole[end:] if has_length else content)
        read_or_refuse(kind, directory)

    return whole[8:end] if has_length else whole, read_content


def outcome(kind, directory, expected):
    """What reading a damaged directory came to: "refused", "equal", or "values" where only a value is damaged."""
    if (found := read_or_refuse(kind, directory)) is None:
        return "refused"
    for each in found.keys() & expected.keys():
        if found[each].shape != expected[each].shape:
            raise AssertionError(f"{each} has shape {found[each].shape}, was {expected[each].shape}")
    lost = {each for each in expected.keys() - found.keys() if "pooler" not in each[1] and each[0] != "masked_lm"}
    if (lost or found.keys() - expected.keys()) and "config" not in kind:  # which decides what is read
        raise AssertionError(f"{sorted(lost)} and {sorted(found.keys() - expected.keys())} are on one side only")
    different = sum(np.count_nonzero(found[each].view("i4") != expected[each].view("i4")) for each in found)
    if different and kind not in UNGUARDED:
        raise AssertionError(f"{different} values differ, though no value was damaged, or all of them are checked")
    if different > 4 and kind == "safetensors":
        raise AssertionError(f"{different} values differ, after at most 4 bytes were changed")
    return "values" if different else "equal"


def main(kind, rounds, seed):
    warnings.simplefilter("ignore")  # damaged values may well be infinite
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "model"
        valid(kind, directory)
        contents = {name: (directory / name).read_bytes() for name in FILES[kind]}
        expected = read(kind, directory)
        size = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())

        def attempt(chance):
            name = chance.choice(FILES[kind])
            if kind == "safetensors-header":
                content = with_another_header(contents[name], chance)
            elif kind == "h5-addresses":
                content = with_other_addresses(contents[name], chance)
            else:
                content = fuzzing.damaged(contents[name], name.endswith(".json"), chance)
            (directory / name).write_bytes(content)
            tracemalloc.reset_peak()
            before, most = tracemalloc.get_traced_memory()[0], most_memory()
            result = outcome(kind, directory, expected)
            taken = tracemalloc.get_traced_memory()[1] - before
            if kind.startswith("h5"):  # Python does not count what HDF5 takes
                taken = max(taken, most_memory() - most)
            if taken > 10 * size + MARGIN:
                raise AssertionError(f"{taken:,} bytes of memory for files of {size:,} bytes")
            (directory / name).write_bytes(contents[name])
            return result

        tracemalloc.start()
        fuzzing.run(kind, rounds, seed, attempt)
        tracemalloc.stop()


if __name__ == "__main__":
    fuzzing.main(main)
