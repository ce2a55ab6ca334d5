"""Memory of fresh processes: of a training step, beside what `summary` says; of converting; of a server's swaps.

python benchmarks/memory.py activations [--batch-size 10] [--sequence-length 512]
python benchmarks/memory.py convert
python benchmarks/memory.py serve [--versions 10]
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import tensorflow as tf

from keras_bert import BertConfig, BertEncoder
from keras_bert.encoder.summary import summarize

# VmHWM is the process's own peak in KiB. What getrusage tells begins at the size of the process that started it.
PEAK = """
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(1024 * int(peak.split()[1]))
"""
STEP = """
import json, sys
import keras, tensorflow as tf
from keras_bert import BertConfig, BertEncoder

tf.config.threading.set_intra_op_parallelism_threads(1)
tf.config.threading.set_inter_op_parallelism_threads(1)
config, batch, length = json.loads(sys.argv[1])
encoder = BertEncoder(BertConfig(**config))
optimizer = keras.optimizers.AdamW()
optimizer.build(encoder.trainable_variables)

@tf.function(reduce_retracing=True)
def step(ids):
    with tf.GradientTape() as tape:
        outputs = encoder({"input_word_ids": ids, "input_mask": tf.ones_like(ids)}, training=True)
        loss = tf.reduce_mean(outputs["pooled_output"] ** 2)
    optimizer.apply(tape.gradient(loss, encoder.trainable_variables), encoder.trainable_variables)

step(tf.ones((batch, length), tf.int32))
"""
CONVERT = """
import sys
from keras_bert.cli import main
main(["convert", *sys.argv[1:]], standalone_mode=False)
"""


def peak(code: str, *arguments: object) -> int:
    """Bytes that a process with this code has at most, the libraries included."""
    environment = {**os.environ, "KERAS_BACKEND": "tensorflow", "MALLOC_ARENA_MAX": "1"}
    command = [sys.executable, "-c", code + PEAK, *map(str, arguments)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout.split()[-1])


def activations(batch: int, length: int) -> None:
    """Of one row of a training step: what `summary` counts, and what a process has more for each further row."""
    config = {"vocab_size": 1000, "hidden_size": 256, "num_layers": 4, "num_heads": 4, "intermediate_size": 1024}
    small, large = max(batch // 8, 1), batch
    peaks = [peak(STEP, json.dumps([config, rows, length])) for rows in (small, large)]
    measured = (peaks[1] - peaks[0]) / (large - small)
    counted = summarize(BertConfig(**config), batch_size=1, sequence_length=length).activation_bytes
    print(f"activations of {length} tokens: counted {counted / 2**20:.1f} MiB, measured {measured / 2**20:.1f} MiB,")
    print(f"ratio {counted / measured:.2f}")


def convert() -> None:
    """In sizes of the file. TensorFlow's writers keep what they are given until the end; ours, the largest weight."""
    large = {"hidden_size": 1024, "num_heads": 16, "intermediate_size": 4096, "num_layers": 6}  # 430 MB
    print(f"{'written':14}{'times the file':>15}{'beside, MB':>12}")
    with tempfile.TemporaryDirectory() as folder:
        presets = {name: Path(folder) / name for name in ("tiny", "large")}
        BertEncoder(BertConfig.tiny(vocab_size=100)).save_preset(presets["tiny"])
        BertEncoder(BertConfig(**large)).save_preset(presets["large"])
        size = (presets["large"] / "model.safetensors").stat().st_size
        for format in ("hugging_face", "tf1", "garden"):
            base, most = (
                peak(CONVERT, preset, Path(folder) / f"{name}-{format}", "--to", format)
                for name, preset in presets.items()
            )
            print(f"{format:14}{(most - base) / size:15.2f}{base / 1e6:12.0f}", flush=True)


def serve(count: int) -> None:
    """What `keras-bert serve` holds after each swap of a model of 40 MB."""
    with tempfile.TemporaryDirectory() as folder:
        model, versions = tf.Module(), Path(folder) / "model"
        model.table = tf.Variable(tf.zeros([40, 2**18]))
        model.f = tf.function(lambda x: {"y": x + model.table[0, 0]}, input_signature=[tf.TensorSpec([None])])
        tf.saved_model.save(model, str(versions / "1"), signatures=model.f)
        command = [sys.executable, "-m", "keras_bert.cli", "serve", str(versions), "--port", "0", "--rest-port", "0"]
        server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            server.stdout.readline()
            for version in range(2, count + 2):
                shutil.copytree(versions / "1", Path(folder) / "copy")
                (Path(folder) / "copy").rename(versions / str(version))
                while not next(server.stderr).endswith(f"version {version - 1}: unloaded\n"):
                    pass
                print(f"version {version}: {psutil.Process(server.pid).memory_info().rss / 1e6:.0f} MB", flush=True)
        finally:
            server.terminate()


parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
commands = parser.add_subparsers(dest="command", required=True)
of_a_step = commands.add_parser("activations")
of_a_step.add_argument("--batch-size", type=int, default=10)
of_a_step.add_argument("--sequence-length", type=int, default=512)
commands.add_parser("convert")
commands.add_parser("serve").add_argument("--versions", type=int, default=10)
chosen = parser.parse_args()
if chosen.command == "activations":
    activations(chosen.batch_size, chosen.sequence_length)
elif chosen.command == "convert":
    convert()
else:
    serve(chosen.versions)
