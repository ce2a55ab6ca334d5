"""Fuzzes a reader of untrusted files, guided by the coverage of our code: Atheris, a front end of libFuzzer.

    pip install atheris
    python -m tests.guided KIND CORPUS [-max_total_time=3600] [other options of libFuzzer]
    tar --create --xz --file tests/corpora/KIND.tar.xz --directory CORPUS .

KIND is one of `tests/formats/fuzz.py` or `tests/text/fuzz.py`, such as safetensors-header, int8-ranges (our own
state), h5-tensorflow, wordpiece-json, unigram-json or spiece-model. CORPUS, a directory, gets the files of
tests/corpora, which the tests read again, and those that are found. A file that ends in another error than one of ours,
that hangs, or that takes too much memory is written where libFuzzer says. What is mended then becomes a test.
"""

import re
import sys
import tempfile
import warnings
from pathlib import Path


def main() -> None:
    import atheris

    with atheris.instrument_imports(include=["keras_bert"]):
        import tensorflow as tf

        from keras_bert.formats import weight_files
        from tests.formats import fuzz as formats
        from tests.support import fuzzing
        from tests.text import fuzz as text

    kind, corpus = sys.argv.pop(1), Path(sys.argv[1])
    weight_files._checksum = lambda *_: "right"  # who writes a hostile file can compute it
    warnings.simplefilter("ignore")
    tf.config.run_functions_eagerly(True)  # tracing takes longer than running
    with tempfile.TemporaryDirectory() as temporary:
        valid, read_content = (text if kind in text.FILES else formats).reader(kind, Path(temporary) / "model")
        corpus.mkdir(parents=True, exist_ok=True)
        known = fuzzing.corpus(kind) if (fuzzing.CORPORA / f"{kind}.tar.xz").is_file() else {}
        for name, content in {"valid": valid, **known}.items():
            (corpus / Path(name).name).write_bytes(content)

        def read(content: bytes) -> None:
            read_content(content)

        # The strings of JSON, also of a header: bytes that change one by one seldom make another of them.
        words = sorted(set(re.findall(r'"[\w.]{1,60}"', valid.decode("ascii", "ignore"))))
        dictionary = Path(temporary) / "dictionary"
        dictionary.write_text("#\n" + "".join(f'"\\"{word[1:-1]}\\""\n' for word in words[:500]))
        # libFuzzer takes the length of the longest file of the corpus as its limit only if it is below 4 KiB.
        options = [f"-max_len={2 * len(valid)}", f"-dict={dictionary}"]
        atheris.Setup([*sys.argv, *options], read)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
