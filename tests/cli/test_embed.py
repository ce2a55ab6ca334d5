"""keras-bert embed: what it writes and says, what it refuses, and what a kill or Ctrl-C leaves."""

import json
import random
import shlex
import signal

import numpy as np
import psutil
import pytest

from keras_bert import BertSentenceEncoder, files
from keras_bert.embedding.file_embedding import NOTES

from ..support import small
from ..support.processes import HANGS, wait_for


def test_rows(run, small_preset, tmp_path, monkeypatch):
    """As `encode` writes them."""
    monkeypatch.chdir(tmp_path)
    texts = ["a film", "Ein Café", "word " * 600]
    for number, text in enumerate(texts):
        (tmp_path / f"reviews-{number}.jsonl").write_text(json.dumps({"review": text, "stars": 5}) + "\n")
    paths = [f"reviews-{number}.jsonl" for number in range(3)]
    result = run("embed", *paths, "--text-column", "review", "--output", "vectors")
    assert result.stderr == ""
    assert result.stdout == "vectors: 3 rows in 3 files, 1 text truncated\n"
    rows = [json.loads((tmp_path / "vectors" / path).read_text()) for path in paths]
    assert [list(row) for row in rows] == [["review", "stars", "vector"]] * 3
    expected = BertSentenceEncoder.from_preset(small_preset).encode(texts[:2])
    np.testing.assert_allclose([row["vector"] for row in rows[:2]], expected, rtol=0, atol=1e-5)
    assert (tmp_path / "vectors" / paths[0]).read_text().endswith(json.dumps({"vector": rows[0]["vector"]})[1:] + "\n")


def test_mistakes(fails, tmp_path):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "good"}\n{"body": "good"}\n')
    assert fails("embed", path, "--output", tmp_path / "vectors") == (
        f"{path}: 1 of 2 rows cannot be used: line 2: no 'text'; its keys are 'body'. Fix the file, or leave them out "
        "with --skip-bad"
    )
    assert not (tmp_path / "vectors").exists()


def test_a_second_run(fails, tmp_path):
    path, directory = tmp_path / "texts.jsonl", tmp_path / "vectors"
    path.write_text('{"text": "good"}\n')
    with files.only_writer(directory):
        told = fails("embed", path, "--output", directory, exit_code=1)
    assert told == f"{directory}: another process is writing there; wait until it ends, or choose another directory"


@pytest.mark.timing
@pytest.mark.slow
def test_a_run_goes_on_within_a_file_after_ctrl_c_and_after_kill_9_of_a_process(
    run, start, traced, tmp_path, small_preset
):
    generator, words = random.Random(0), small.WORDS.split()
    paths = [tmp_path / "small.jsonl", tmp_path / "large.jsonl"]
    for path, rows in zip(paths, (10, 5 * 4096), strict=True):
        texts = [" ".join(generator.choices(words, k=generator.randint(1, 8))) for _ in range(rows)]
        path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    broken = tmp_path / "broken"

    def command(name: str, processes: int = 1) -> list[str]:
        options = {"--preset": small_preset, "--output": tmp_path / name, "--processes": processes}
        return ["embed", *map(str, [*paths, *(each for option in options.items() for each in option)])]

    def parts() -> dict[str, int]:
        """The parts of the large file that are there, and when each was written."""
        return {path.name: path.stat().st_mtime_ns for path in broken.glob(".large.jsonl.*.vectors/*.npz")}

    def stopped(stop) -> tuple[int, list[str]]:
        """The exit code and the lines of standard error of a run that is stopped after it has written other parts."""
        before = parts()
        process = start(*command("broken", processes=2))
        wait_for(lambda: len(parts()) > len(before), process)
        stop(process)
        out, error = process.communicate(timeout=HANGS)  # until no process has its standard output
        assert (out, b"Traceback" in error) == (b"", False)
        assert before.items() <= parts().items()  # what was there is not computed again
        return process.returncode, error.decode().splitlines()

    def kill_one(process):
        one = next(each for each in psutil.Process(process.pid).children() if "spawn_main" in " ".join(each.cmdline()))
        one.kill()

    code, said = stopped(lambda process: process.send_signal(signal.SIGINT))
    assert code == 130
    resumed = shlex.join(["keras-bert", *command("broken", processes=2)])
    advice = f"To begin anew, remove {broken}; to resume, run: {resumed}"
    assert said[-1] == f"Interrupted; the work in {broken} is unfinished. {advice}"
    assert not list(broken.rglob(".*.tmp"))
    code, said = stopped(kill_one)  # before its line there may be one of the progress
    assert code == 1
    assert said[-1].startswith("Error: a process ended before its work was done; if memory is short, use fewer ")
    for name in ("broken", "unbroken"):
        result = run(*command(name))
        assert result.output == f"{tmp_path / name}: 20,490 rows in 2 files, 0 texts truncated\n"
        assert sorted(path.name for path in (tmp_path / name).iterdir()) == [NOTES, "large.jsonl", "small.jsonl"]
    for path in paths:
        assert (broken / path.name).read_bytes() == (tmp_path / "unbroken" / path.name).read_bytes()
