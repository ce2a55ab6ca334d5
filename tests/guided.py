"""Fuzzes a reader of untrusted files, guided by the coverage of our code: Atheris, a front end of libFuzzer.

    pip install atheris
    python -m tests.guided KIND CORPUS [-max_total_time=3600] [other options of libFuzzer]

KIND is one of `tests/formats/fuzz.py` or `tests/text/fuzz.py`, such as safetensors, int8-ranges (our own state),
h5-tensorflow, wordpiece-json, unigram-json or spiece-model. A file that ends in another error than one of ours, that
hangs, or that takes too much memory is written where libFuzzer says. What is mended then becomes a test.
"""

import shutil
import sys
import tempfile
import warnings
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["keras_bert"]):
    import tensorflow as tf

    from tests.formats import fuzz as formats
    from tests.text import fuzz as text


def main() -> None:
    kind, corpus = sys.argv.pop(1), Path(sys.argv[1])
    is_text = kind in text.FILES
    warnings.simplefilter("ignore")
    tf.config.run_functions_eagerly(True)  # tracing takes longer than running
    with tempfile.TemporaryDirectory() as temporary:
        directory = Path(temporary) / "model"
        if is_text:
            directory.mkdir()
            text.valid(kind, directory)
            path = directory / text.FILES[kind]
        else:
            formats.valid(kind, directory)
            path = directory / formats.FILES[kind][0]
        corpus.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, corpus / "valid")

        def read(content: bytes) -> None:
            path.write_bytes(content)
            if is_text:
                text.outcome(directory)
            else:
                formats.read_or_refuse(kind, directory)

        # libFuzzer takes the length of the longest file of the corpus as its limit only if it is below 4 KiB.
        atheris.Setup([*sys.argv, f"-max_len={2 * path.stat().st_size}"], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
