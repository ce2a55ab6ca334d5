"""What `import keras_bert` costs, beside importing TensorFlow alone: fresh processes, interleaved.

python benchmarks/import_time.py [--rounds 7]
"""

import argparse
import statistics
import subprocess
import sys
import time

from _measure import heading, parse, run, table

STATEMENTS = {
    "nothing": "pass",
    "import keras_bert": "import keras_bert",
    "import tensorflow": "import tensorflow",
    "import tensorflow, keras_bert": "import tensorflow, keras_bert",
    "import keras_bert.text": "import keras_bert.text",
    "from keras_bert import BertSentenceEncoder": "from keras_bert import BertSentenceEncoder",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parse(parser, rounds=1)
    heading(["tensorflow", "keras"])
    seconds: dict[str, list[float]] = {name: [] for name in STATEMENTS}
    for _ in range(arguments.rounds + 1):
        for name, statement in STATEMENTS.items():
            start = time.perf_counter()
            subprocess.run([sys.executable, "-c", statement], check=True, capture_output=True)
            seconds[name].append(time.perf_counter() - start)
    rows = []
    for name, values in seconds.items():
        values = values[1:]  # the first round warms the disk cache
        rows.append([name, *(f"{value:.2f}" for value in (statistics.median(values), min(values), max(values)))])
    table(("what a process does", "median s", "min", "max"), rows)


if __name__ == "__main__":
    run(main)
