"""Every family with its published positions, vocabulary and special ids, in verbs and commands, as users have them.

Other tests have 24 to 48 positions and a hundred tokens. No published model has.
"""

import functools
import json

import numpy as np
import pytest
from click.testing import CliRunner

from keras_bert import BertClassifier, BertQuestionAnswerer, BertReranker, BertSentenceEncoder, BertTokenClassifier
from keras_bert.cli import main
from keras_bert.tasks import BertMaskedLM, BertNextSentence, BertSparseEncoder
from keras_bert.text import load_tokenizer
from keras_bert.training import fine_tune

from ..support import published
from ..support.published import PUBLISHED

TEXT = "the cat"
LONG = "the cat sat. it rained " * 220  # 1,320 tokens of words, or more of their parts
# Every family answers in every verb, without tracing, which would take minutes. Where models are traced and trained, a
# few stand for all. They have all kinds of positions, of attention and of tokenizers. Commands call what verbs call.
IN_PYTHON = ("bert", "deberta-v2", "modernbert", "eurobert")
BY_COMMAND = "modernbert"  # 8,192 positions; what trains has a roberta, whose positions begin after padding's
pytestmark = pytest.mark.filterwarnings("ignore:texts truncated|truncated words|labels with fewer")


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """The directory of a family's model with a head, written at its first use."""
    folder = tmp_path_factory.mktemp("published")

    @functools.cache
    def write(family, head):
        return published.write(folder / family / str(head), family, head)

    return lambda family, head=None: write(family, head)


@pytest.mark.slow
@pytest.mark.parametrize("family", PUBLISHED)
def test_a_short_and_a_long_text_are_answered_by_default(model_of, family, untraced):
    model = BertClassifier.from_preset(model_of(family, "sequence"))
    assert model.preprocessor.max_sequence_length == PUBLISHED[family].positions
    one, (again, other) = model.classify(TEXT), model.classify([TEXT, LONG])
    assert one["probability"] == pytest.approx(again["probability"], abs=1e-5)
    assert other["label"] in ("bad", "fair", "good")


# -- In Python


def windows(directory):
    return BertClassifier.from_preset(directory, long_text="windows").classify([TEXT, LONG])


def scores(directory):
    model = BertReranker.from_preset(directory, activation="identity")
    return model.score("who sat?", TEXT), model.rank("who sat?", [TEXT, LONG])


def words(directory):
    model = BertTokenClassifier.from_preset(directory)
    return model.tag([["the", "cat"], ["it"], LONG.split()]), model.entities([TEXT, LONG])


def spans(directory):
    return BertQuestionAnswerer.from_preset(directory).answer(["who sat?"] * 2, ["the cat sat", LONG])


def masks(directory):
    model = BertMaskedLM.from_preset(directory)
    mask = model.preprocessor.tokenizer.special_tokens["mask_token"]
    one, two = model.fill([f"the {mask} sat", f"{mask} it {mask} " + LONG])
    assert [len(answer["masks"]) for answer in (one, two)] == [1, 2]
    return one, two


def weights(directory):
    return BertSparseEncoder.from_preset(directory).encode([TEXT, "it rained"], top_k=3)


def following(directory):
    return BertNextSentence.from_preset(directory).score(["the cat", "it"], ["sat", "rained"]).tolist()


def vectors(directory):
    return BertSentenceEncoder.from_preset(directory).encode([TEXT, LONG]).tolist()


VERBS = {
    None: [vectors], "sequence": [windows, scores], "tokens": [words], "spans": [spans], "masked_lm": [masks, weights],
    "next_sentence": [following],
}  # fmt: skip
CASES = [
    (family, head, verb)
    for family in PUBLISHED
    for head, verbs in VERBS.items()
    for verb in verbs
    if head in (None, *published.heads_of(family))
]


def numbers(answers):
    """All numbers in answers."""
    if isinstance(answers, dict):
        answers = list(answers.values())
    if isinstance(answers, list | tuple):
        return [number for answer in answers for number in numbers(answer)]
    return [answers] if isinstance(answers, int | float) else []


@pytest.mark.slow
@pytest.mark.parametrize(("family", "head", "verb"), CASES)
def test_every_verb(model_of, family, head, verb, untraced):
    found = numbers(verb(model_of(family, head)))
    assert found
    assert np.isfinite(found).all()


@pytest.mark.slow
@pytest.mark.parametrize("family", IN_PYTHON)
def test_training(model_of, family, untraced):
    model = BertClassifier.from_preset(model_of(family, "sequence"))
    x = [TEXT, LONG[: len(LONG) // 2], "it rained"]  # what training holds grows with the square of the length
    fine_tune(model, (x, ["bad", "good", "bad"]), epochs=1, batch_size=2, progress=False)
    assert np.isfinite(model.predict(x, verbose=0)).all()
    assert len(model.classify(x)) == 3


# -- On the command line


def run(*arguments):
    result = CliRunner().invoke(main, [str(each) for each in arguments], catch_exceptions=False)
    assert result.exit_code == 0, (arguments, result.output)
    return result.stdout


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A folder with examples for each command. At most one text of a file is long: more would only take time."""
    folder = tmp_path_factory.mktemp("files")
    texts = [TEXT, "it rained", "the cat sat", LONG]
    rows = [{"text": text, "label": label} for text, label in zip(texts, ["bad", "good", "bad", "good"], strict=True)]
    pairs = [{"query": text[:9], "positive": text} for text in texts]
    lists = [{**pair, "negative": f"it {pair['query']}"} for pair in pairs]
    question = {"id": "1", "question": "who sat?", "answers": [{"text": "cat", "answer_start": 4}]}
    squad = {"data": [{"title": "", "paragraphs": [{"context": "the cat sat", "qas": [question]}]}]}
    for name, lines in (("rows", rows), ("pairs", pairs), ("lists", lists)):
        (folder / f"{name}.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (folder / "squad.json").write_text(json.dumps(squad))
    (folder / "asked.csv").write_text(f"question,context\nwho sat?,the cat sat {LONG}\n")
    (folder / "tags.conll").write_text("the O\ncat B-PER\n\nit O\nrained O\n")
    (folder / "lines.txt").write_text("".join(f"{text}\n" for text in texts))
    return folder


BY_HEAD = {"sequence": ("classify", "rows.jsonl"), "tokens": ("tag", "tags.conll"), "spans": ("answer", "squad.json")}


@pytest.mark.slow
def test_every_command(model_of, files, tmp_path, untraced):
    base, rows = model_of(BY_COMMAND), files / "rows.jsonl"
    assert "vocab" in run("inspect", base)
    for command in ("tokenize", "encode"):
        assert run(command, "--preset", base, "--file", files / "lines.txt")
    run("attention", "the cat", "--preset", base, "--output", tmp_path / "page.html")
    run("index", rows, "--preset", base, "--output", tmp_path / "index")
    assert LONG.strip() in run("search", tmp_path / "index", LONG)
    classifier = model_of(BY_COMMAND, "sequence")
    assert run("predict", classifier, TEXT, LONG)
    assert run("evaluate", classifier, rows)
    run("export", "serving", "--preset", classifier, "--output", tmp_path / "served")
    run("export", "encoder", "--preset", base, "--output", tmp_path / "encoder")
    masks = model_of(BY_COMMAND, "masked_lm")
    assert run("fill", masks, f"the {load_tokenizer(masks).special_tokens['mask_token']} sat")


@pytest.mark.slow
def test_every_command_that_sees_only_vectors(model_of, files, tmp_path, untraced):
    base, pairs = model_of(BY_COMMAND), files / "pairs.jsonl"
    assert run("similarity", "--preset", base, "--file", files / "lines.txt")
    run("embed", files / "rows.jsonl", "--preset", base, "--output", tmp_path / "vectors")
    run("project", "--file", files / "lines.txt", "--preset", base, "--output", tmp_path / "projector")
    run("duplicates", files / "rows.jsonl", "--preset", base, "--threshold", "-1")
    run("mine", pairs, "--preset", base, "--negatives", "1", "--output", tmp_path / "mined.jsonl")


@pytest.mark.slow
def test_every_command_that_trains(model_of, files, tmp_path, untraced):
    base, pairs, rows = model_of("roberta"), files / "pairs.jsonl", files / "rows.jsonl"
    columns = ("--query-column", "query", "--positive-column", "positive")
    run("finetune", "embed", "--train", pairs, *columns, *trained(base, tmp_path / "embed"))
    assert "ndcg" in run("evaluate", tmp_path / "embed", pairs, *columns)
    lists = ("--text-column", "query", "--text-pair-column", "positive", "--negative-column", "negative")
    lists = (*lists, "--train", files / "lists.jsonl", "--eval", files / "lists.jsonl")
    run("finetune", "rank", *lists, *trained(base, tmp_path / "rank"))
    run("index", rows, "--preset", base, "--output", tmp_path / "index")
    run("search", tmp_path / "index", TEXT, "--rerank", tmp_path / "rank")
    for head, (kind, name) in BY_HEAD.items():
        model = model_of("roberta", head)
        run("finetune", kind, "--train", files / name, "--eval", files / name, *trained(model, tmp_path / kind))
        asked = ("--file", files / "asked.csv") if head == "spans" else (TEXT, LONG)
        assert run("predict", tmp_path / kind, *asked)
    learned = ("--teacher", tmp_path / "classify", "--num-layers", "1", "--train", rows, "--eval", rows)
    run("distill", "classify", *learned, "--output", tmp_path / "student", "--epochs", "1")


def trained(preset, output):
    return ("--preset", preset, "--output", output, "--epochs", "1", "--batch-size", "2")
