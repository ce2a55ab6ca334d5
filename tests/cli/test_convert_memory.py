"""keras-bert convert in bounded memory: weights are copied one by one, however many there are."""

import subprocess
import sys

import pytest

from keras_bert import BertConfig, BertEncoder

# VmHWM, the process's own peak in KiB. What getrusage tells begins at the size of the process that started it.
CONVERT = """
import sys
from pathlib import Path
from keras_bert.cli import main
main(["convert", *sys.argv[1:]], standalone_mode=False)
(line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM")]
print(line.split()[1])
"""


def peak(source, destination, format):
    """Bytes of memory that a conversion has at most, the libraries included."""
    command = [sys.executable, "-c", CONVERT, str(source), str(destination), "--to", format]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    return 1024 * int(result.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def presets(tmp_path_factory):
    """A tiny model, and one with layers and a vocabulary as large as BERT-Large's: 430 MB."""
    directory = tmp_path_factory.mktemp("presets")
    sizes = {"hidden_size": 1024, "num_heads": 16, "intermediate_size": 4096, "num_layers": 6}
    for name, config in (("tiny", BertConfig.tiny(vocab_size=100)), ("large", BertConfig(**sizes))):
        BertEncoder(config).save_preset(directory / name)
    return directory


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(("format", "limit"), [("hugging_face", 0.7), ("tf1", 1.5), ("garden", 1.7)])
def test_memory(presets, tmp_path, format, limit):
    """In sizes of the file. TensorFlow's writers keep what they are given until the end; ours, the largest weight."""
    size = (presets / "large/model.safetensors").stat().st_size
    assert size > 400e6
    base = peak(presets / "tiny", tmp_path / "tiny", format)
    extra = peak(presets / "large", tmp_path / "large", format) - base
    print(f"{format}: {extra / size:.2f} times the file, beside {base / 1e6:.0f} MB")
    assert extra < limit * size
