"""keras-bert embed: what it writes and says, what it refuses, and what a kill or Ctrl-C leaves."""

import json
import random
import signal
import time

import numpy as np
import psutil
import pytest

from keras_bert import BertSentenceEncoder
from keras_bert.embedding.work import NOTES

from ..golden import make_golden_export as golden
from .test_processes import HANGS, start  # noqa: F401 (a fixture)


@pytest.fixture
def preset(tmp_path):
    directory = tmp_path / "preset"
    directory.mkdir()
    golden.write_preset(directory)
    return directory


def test_the_example(run, tmp_path, monkeypatch):
    """With the preset that is there by default, and a row as `encode` writes it."""
    monkeypatch.chdir(tmp_path)
    texts = ["a cat", "Ein Café", "word " * 600]
    for number, text in enumerate(texts):
        (tmp_path / f"reviews-{number}.jsonl").write_text(json.dumps({"review": text, "stars": 5}) + "\n")
    paths = [f"reviews-{number}.jsonl" for number in range(3)]
    result = run("embed", *paths, "--text-column", "review", "--output", "vectors")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == "vectors: 3 rows in 3 files, 1 texts cut\n"
    rows = [json.loads((tmp_path / "vectors" / path).read_text()) for path in paths]
    assert [list(row) for row in rows] == [["review", "stars", "vector"]] * 3
    expected = BertSentenceEncoder.from_preset("all-MiniLM-L6-v2").encode(texts[:2])
    np.testing.assert_allclose([row["vector"] for row in rows[:2]], expected, rtol=0, atol=1e-5)
    encoded = json.loads(run("encode", "a cat").stdout)
    assert (tmp_path / "vectors" / paths[0]).read_text().endswith(json.dumps({"vector": rows[0]["vector"]})[1:] + "\n")
    np.testing.assert_allclose(encoded["vector"], rows[0]["vector"], rtol=0, atol=1e-6)


def test_mistakes(fails, tmp_path, preset):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "good"}\n{"body": "good"}\n')
    command = ("embed", str(path), "--preset", str(preset), "--output", str(tmp_path / "vectors"))
    assert fails(*command) == f"{path}, line 2: no 'text'; there is [\"body\"]"
    assert fails(*command, "--batch-tokens", "8") == "batch_tokens is 8, less than one text of 48 pieces"
    assert (
        fails(*command[:-1], str(tmp_path)) == f"{path} would be replaced by what is written; choose another directory"
    )
    assert not (tmp_path / "vectors").exists()


@pytest.mark.slow
@pytest.mark.parametrize("by", ["kill -9", "Ctrl-C", "kill -9 of one process"])
def test_an_interrupted_run_goes_on(run, start, tmp_path, preset, by):  # noqa: F811
    generator, words = random.Random(0), golden.WORDS.split()
    paths = [tmp_path / f"{number}.jsonl" for number in range(6)]
    for path in paths:
        texts = [" ".join(generator.choices(words, k=generator.randint(1, 20))) for _ in range(3000)]
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))

    def command(name: str, processes: int = 1) -> list[str]:
        options = {"--preset": preset, "--output": tmp_path / name, "--processes": processes}
        return ["embed", *map(str, [*paths, *(each for option in options.items() for each in option)])]

    def files_of(name: str) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (tmp_path / name).glob("*.jsonl")}

    broken = tmp_path / "broken"
    process = start(*command("broken", processes=2))
    while not files_of("broken"):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    if by == "Ctrl-C":
        process.send_signal(signal.SIGINT)
    elif by == "kill -9":
        process.kill()
    else:
        one = next(each for each in psutil.Process(process.pid).children() if "spawn_main" in " ".join(each.cmdline()))
        one.kill()
    out, error = process.communicate(timeout=HANGS)  # until no process has its standard output
    assert out == b""
    assert b"Traceback" not in error
    if by == "Ctrl-C":
        assert process.returncode == 130
        assert error.decode().splitlines()[-1] == "Interrupted; the same command goes on with what was done."
    elif by == "kill -9 of one process":
        assert process.returncode == 1
        assert error.startswith(b"Error: a process ended before its work did")
    left = files_of("broken")
    assert 0 < len(left) < len(paths)
    if by != "kill -9 of one process":  # else what the killed ones wrote stays, under hidden names
        assert not list(broken.glob(".*.tmp"))
    copied = {name: (broken / name).stat().st_ino for name in left}
    noted = [name for name, each in json.loads((broken / NOTES).read_text())["files"].items() if each]
    assert set(noted) <= set(left)
    for name in ("broken", "unbroken"):
        result = run(*command(name))
        assert (result.exit_code, result.output) == (0, f"{tmp_path / name}: 18,000 rows in 6 files, 0 texts cut\n")
    assert left.items() <= files_of("broken").items()
    assert files_of("broken") == files_of("unbroken")
    assert all((broken / name).stat().st_ino == copied[name] for name in noted)  # not written again
