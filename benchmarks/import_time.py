"""What `import keras_bert` costs, beside importing TensorFlow alone: fresh processes, interleaved.

python benchmarks/import_time.py [--rounds 7]
"""

import argparse
import statistics
import subprocess
import sys
import time

STATEMENTS = {
    "nothing": "pass",
    "import keras_bert": "import keras_bert",
    "import tensorflow": "import tensorflow",
    "import tensorflow, keras_bert": "import tensorflow, keras_bert",
    "import keras_bert.text": "import keras_bert.text",
    "from keras_bert import BertSentenceEncoder": "from keras_bert import BertSentenceEncoder",
}

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--rounds", type=int, default=7)
arguments = parser.parse_args()

seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
for _ in range(arguments.rounds + 1):
    for name, statement in STATEMENTS.items():
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True)
        seconds[name].append(time.perf_counter() - start)

print(f"{'':44}{'median s':>9}{'min':>7}{'max':>7}   ({arguments.rounds} rounds)")
for name, values in seconds.items():
    values = values[1:]  # the first round warms the disk cache
    print(f"{name:44}{statistics.median(values):9.2f}{min(values):7.2f}{max(values):7.2f}")
