"""What each command writes, and that the examples in its --help do what they show."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from keras_bert import BertSentenceEncoder
from keras_bert.cli import main, streams
from keras_bert.text import WordPieceTokenizer

from ..support import small
from ..support.commands import json_lines
from ..support.messages import assert_names

TEXTS = ["I love pizza", "", "India is my country", "Don't panic, it's 3.5 km to the café", "Italy is fun"]
FILMS = " ".join(str(small.VOCABULARY.index(token)) for token in ("film", "##s", "!"))


@pytest.fixture
def vectors(small_preset):
    return BertSentenceEncoder.from_preset(small_preset).encode(TEXTS)


def lines(texts=TEXTS) -> bytes:
    return "".join(text + "\n" for text in texts).encode()


def json_rows(result) -> list[dict]:
    assert result.stderr == ""
    return json_lines(result.stdout)


def test_encode_json_lines(run, vectors):
    rows = json_rows(run("encode", *TEXTS))
    assert [row["text"] for row in rows] == TEXTS
    np.testing.assert_array_equal(np.float32([row["vector"] for row in rows]), vectors)


@pytest.mark.parametrize(("name", "read"), [("vectors.npy", np.load), ("vectors.txt", np.loadtxt)])
def test_encode_into_a_file_chunk_by_chunk(run, vectors, tmp_path, monkeypatch, name, read):
    monkeypatch.setattr(streams, "TEXTS_AT_A_TIME", 2)
    assert run("encode", "--output", tmp_path / name, input=lines()).output == ""
    np.testing.assert_allclose(read(tmp_path / name), vectors, rtol=0, atol=1e-5)


def test_encode_no_texts(run, tmp_path):
    run("encode", "--output", tmp_path / "none.npy", input=b"")
    written = np.load(tmp_path / "none.npy")
    assert (written.shape, written.dtype) == ((0, 32), np.float32)


def test_encode_hands_on_each_chunk_before_it_reads_the_next(run, monkeypatch):
    monkeypatch.setattr(streams, "TEXTS_AT_A_TIME", 2)
    result = run("encode", input=b"one\ntwo\nthree\nfour\n\xff\n", exit_code=2)
    assert [json.loads(line)["text"] for line in result.stdout.splitlines()] == ["one", "two", "three", "four"]


def test_encode_says_how_many_texts_were_cut(run):
    result = run("encode", "word " * 600, "short", "--batch-tokens", "512")
    assert len(result.stdout.splitlines()) == 2
    (line,) = result.stderr.splitlines()
    assert line.startswith("Warning: texts truncated to 48 tokens")


@pytest.fixture(scope="module")
def prompted(small_preset, tmp_path_factory):
    """The directory of a model with prompts, whose vectors have any length."""
    directory = tmp_path_factory.mktemp("prompted") / "model"
    prompts = {"query": "you ask: ", "story": "the story: "}
    parts = BertSentenceEncoder.from_preset(small_preset)
    settings = {"prompts": prompts, "default_prompt": "story", "normalize": False}
    BertSentenceEncoder(parts.encoder, parts.preprocessor, **settings).save_preset(directory)
    return directory


def test_prompts(run, fails, prompted, tmp_path):
    model = BertSentenceEncoder.from_preset(prompted)
    (tmp_path / "texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in ("good", "bad")))
    for options, name in (((), "story"), (("--prompt", "query"), "query"), (("--prompt", ""), "")):
        expected = model.encode(["good", "bad"], prompt=name)
        rows = json_rows(run("encode", "good", "bad", "--preset", prompted, *options))
        np.testing.assert_allclose([row["vector"] for row in rows], expected, rtol=0, atol=1e-5)
        output = tmp_path / f"vectors{name}"
        command = ("embed", tmp_path / "texts.jsonl", "--output", output, "--preset", prompted, *options)
        run(*command)
        rows = json_lines((output / "texts.jsonl").read_text())
        np.testing.assert_allclose([row["vector"] for row in rows], expected, rtol=0, atol=1e-5)
        first, second = expected / np.linalg.norm(expected, axis=1, keepdims=True)
        (pair,) = json_rows(run("similarity", "good", "bad", "--preset", prompted, "--format", "jsonl", *options))
        assert pair["similarity"] == pytest.approx(first @ second, abs=2e-6)
    assert_names(fails("encode", "good", "--preset", prompted, "--prompt", "passage"), "passage", "query, story")
    # The vectors in a directory are all of one prompt.
    message = fails(*command[:4], "--preset", prompted, "--prompt", "query")
    assert "other settings" in message or "another" in message, message


def test_tokenize_json_lines(run, small_preset):
    rows = json_rows(run("tokenize", "--format", "jsonl", *TEXTS))
    tokenizer = WordPieceTokenizer.from_preset(small_preset)
    for text, row in zip(TEXTS, rows, strict=True):
        assert row["text"] == text
        assert row["ids"] == tokenizer.tokenize(text).numpy().tolist()
        assert row["tokens"] == [tokenizer.vocabulary[i] for i in row["ids"]]
        spans = [text.encode()[start:end].decode() for start, end in zip(row["starts"], row["ends"], strict=True)]
        assert "".join(spans) == text.replace(" ", "")


def test_tokenize_text_and_ids(run):
    assert run("tokenize", "Films!", "").stdout == "film ##s !\n\n"
    assert run("tokenize", "--format", "ids", "Films!", "").stdout == f"{FILMS}\n\n"


@pytest.mark.parametrize("output_format", ["ids", "jsonl"])
def test_detokenize_reads_what_tokenize_writes(run, output_format):
    piped = run("tokenize", "--format", output_format, *TEXTS).stdout_bytes
    expected = "i love pizza\n\nindia is my country\ndon't panic, it's 3.5 km to the cafe\nitaly is fun\n"
    assert run("detokenize", input=piped).stdout == expected


def test_detokenize_arguments_are_one_text(run):
    expected = [{"ids": [int(number) for number in FILMS.split()], "text": "films!"}]
    assert json_rows(run("detokenize", *FILMS.split(), "--format", "jsonl")) == expected
    assert json_rows(run("detokenize", FILMS, "--format", "jsonl")) == expected


@pytest.mark.parametrize(
    "line",
    ["pizza", "1.5", "{", '{"text": "a"}', '{"ids": 5}', '{"ids": ["5"]}', '{"ids": [true]}', '{"ids": [[5]]}', "[5]"],
)
def test_detokenize_what_are_no_ids(fails, line):
    message = fails("detokenize", input=f"5\n{line}\n".encode())
    assert message == f'standard input, line 2: expected ids separated by spaces, or {{"ids": [...]}}, not {line!r}'


@pytest.mark.parametrize("number", [str(len(small.VOCABULARY)), "99999999999999999999", "-1"])
def test_detokenize_ids_outside_the_vocabulary(fails, number):
    message = f"argument 1: {number} is not in the vocabulary, which has the ids 0 to {len(small.VOCABULARY) - 1}"
    assert fails("detokenize", "--", "5", number) == message


def test_similarity_json_lines(run, vectors):
    rows = json_rows(run("similarity", "--format", "jsonl", *TEXTS))
    pairs = [(i, j) for i in range(len(TEXTS)) for j in range(i + 1, len(TEXTS))]
    assert [(row["first"], row["second"]) for row in rows] == [(TEXTS[i], TEXTS[j]) for i, j in pairs]
    expected = [vectors[i] @ vectors[j] for i, j in pairs]
    np.testing.assert_allclose([row["similarity"] for row in rows], expected, rtol=0, atol=1e-5)


def test_similarity_npy(run, vectors, tmp_path):
    run("similarity", "--output", tmp_path / "matrix.npy", input=lines())
    np.testing.assert_allclose(np.load(tmp_path / "matrix.npy"), vectors @ vectors.T, rtol=0, atol=1e-5)


def test_similarity_table(run, vectors):
    header, *rows = run("similarity", *TEXTS).stdout.splitlines()
    assert header.split() == ["1", "2", "3", "4", "5"]
    table = np.array([[float(word) for word in row.split()[1:6]] for row in rows])
    np.testing.assert_allclose(table, vectors @ vectors.T, rtol=0, atol=5.1e-4)
    assert [row[len(header) :].strip() for row in rows] == TEXTS


def test_similarity_of_the_best_pairs(run, vectors):
    pairs = {(i, j): vectors[i] @ vectors[j] for i in range(len(TEXTS)) for j in range(i + 1, len(TEXTS))}
    best = sorted(pairs, key=pairs.get, reverse=True)
    rows = json_rows(run("similarity", "--format", "jsonl", "--top-k", "3", *TEXTS))
    assert [(row["first"], row["second"]) for row in rows] == [(TEXTS[i], TEXTS[j]) for i, j in best[:3]]
    threshold = str((pairs[best[3]] + pairs[best[4]]) / 2)
    result = run("similarity", "--threshold", threshold, *TEXTS).stdout
    assert result == "".join(f"{pairs[i, j]:.3f}\t{TEXTS[i]}\t{TEXTS[j]}\n" for i, j in sorted(best[:4]))


def test_similarity_writes_no_huge_table_unasked(run, fails, monkeypatch):
    monkeypatch.setattr("keras_bert.cli.similarity._MOST_TEXTS", 3)
    for output_format in ("text", "jsonl"):
        message = fails("similarity", "--format", output_format, *"aaaa")
        assert message.startswith("4 texts make 6 pairs; choose some with --top-k or --threshold, or write the")
    assert run("similarity", "--top-k", "1", *"aaaa").stdout == "1.000\ta\ta\n"


# Those that write directories, read them, or wait for requests have tests of their own.
OF_MODELS = {"convert", "push", "export", "serve", "finetune", "evaluate", "predict", "fill", "pretrain", "distill"}
TESTED_ALONE = {*OF_MODELS, "embed", "launch", "index", "search", "duplicates", "mine"}


OF_THE_REAL_ENCODER = {"encode", "similarity", "project", "senses", "attention"}
COMMANDS = [
    pytest.param(command, marks=pytest.mark.slow if command in OF_THE_REAL_ENCODER else ())
    for command in sorted(main.commands.keys() - TESTED_ALONE)
]


def test_the_list_of_commands_holds_whole_sentences(run):
    _, listed = run("--help").stdout.split("Commands:\n")
    assert all(line.endswith(".") and not line.endswith("...") for line in listed.splitlines())
    assert len(listed.splitlines()) == len(main.commands)


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_the_examples_in_the_help(run, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "reviews.txt").write_bytes(lines())
    _, examples = run(*filter(None, [command]), "--help").stdout.split("Example", maxsplit=1)
    examples = examples.split("\n\n")[0].splitlines()[1:]
    while examples:
        example = examples.pop(0).strip()
        assert example.startswith("$ ")
        shown = []
        while examples and not examples[0].strip().startswith("$ "):
            shown.append(examples.pop(0).strip())
        assert [line.strip() for line in shell(run, example[2:]).splitlines()] == shown
    files = {"attention": "attention.html", "encode": "reviews.npy reviews.jsonl", "vocab": "vocab.txt"}
    files |= {"project": "projector", "senses": "is.html"}
    assert {path.name for path in tmp_path.iterdir()} == {"reviews.txt", *files.get(command, "").split()}


def shell(run, line: str) -> str:
    """Runs `cat FILE | keras-bert ... | keras-bert ...` in this process."""
    data = b""
    for program, *arguments in map(shlex.split, line.split(" | ")):
        if program == "cat":
            data = Path(*arguments).read_bytes()
        else:
            assert program == "keras-bert"
            result = run(*arguments, input=data, small=False)
            assert result.stderr == ""
            data = result.stdout_bytes
    return data.decode()
