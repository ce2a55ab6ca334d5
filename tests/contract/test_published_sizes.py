"""Every family with its published positions, vocabulary and special ids, in every verb and command, as users have them.

Other tests have 24 to 48 positions and a hundred tokens. No published model has.
"""

import functools
import json

import numpy as np
import pytest
from click.testing import CliRunner

from keras_bert import BertClassifier, BertQuestionAnswerer, BertReranker, BertSentenceEncoder, BertTokenClassifier
from keras_bert.cli import main
from keras_bert.data import Answer
from keras_bert.tasks import BertMaskedLM, BertNextSentence, BertSparseEncoder
from keras_bert.text import load_tokenizer
from keras_bert.training import evaluate, fine_tune

from ..support import published
from ..support.published import PUBLISHED

TEXT = "the cat"
LONG = "the cat sat. it rained " * 220  # 1,320 tokens of words, or more of their parts
# Training is traced for a minute a family: these have all kinds of positions, of attention and of tokenizers.
TRAINED = ("bert", "roberta", "deberta-v2", "modernbert", "eurobert")
# Commands call what the verbs call, so for the commands that train or see only vectors, two families stand for all:
# one with positions that begin after padding's, and one with 8,192 positions.
BY_COMMAND = ("roberta", "modernbert")
LONGER = [family for family, model in PUBLISHED.items() if model.positions > 1024]
QUICK = {"epochs": 1, "batch_size": 2, "progress": False}


@pytest.fixture(scope="module")
def model_of(tmp_path_factory):
    """The directory of a family's model with a head, written at its first use."""
    folder = tmp_path_factory.mktemp("published")

    @functools.cache
    def write(family, head):
        return published.write(folder / family / str(head), family, head)

    return lambda family, head=None: write(family, head)


QUICK_FAMILIES = ("modernbert", "xlm-roberta")  # for `make test`


@pytest.mark.parametrize(
    "family", [pytest.param(each, marks=[] if each in QUICK_FAMILIES else [pytest.mark.slow]) for each in LONGER]
)
def test_a_short_and_a_long_text_are_answered_by_default(model_of, family):
    model = BertClassifier.from_preset(model_of(family, "sequence"))
    assert model.preprocessor.max_sequence_length == PUBLISHED[family].positions
    one, (again, other) = model.classify(TEXT), model.classify([TEXT, LONG])
    assert one["probability"] == pytest.approx(again["probability"], abs=1e-5)
    assert other["label"] in ("bad", "fair", "good")


# -- In Python


def classes(directory, trains):
    model = BertClassifier.from_preset(directory)
    x, y = [TEXT, LONG, "it rained"], ["bad", "good", "bad"]
    assert evaluate(model, x, y).keys() == {"accuracy"}
    if trains:
        fine_tune(model, (x, y), **QUICK)
        model.compile("sgd", model.training_loss())
        model.fit(x, y, batch_size=2, verbose=0)
    assert model.predict(x, verbose=0).shape == (3, 3)
    windows = BertClassifier.from_preset(directory, long_text="windows")
    yield windows.classify([TEXT, LONG * 3])
    reranker = BertReranker.from_preset(directory, activation="identity")
    yield [reranker.score("who sat?", TEXT), reranker.rank("who sat?", [TEXT, LONG])]


def words(directory, trains):
    model = BertTokenClassifier.from_preset(directory)
    x, y = [["the", "cat"], ["it"]], [["O", "B-PER"], ["O"]]
    yield [model.tag([*x, LONG.split()]), model.entities([TEXT, LONG])]
    assert evaluate(model, x, y).keys() == {"f1", "precision", "recall"}
    if trains:
        fine_tune(model, (x, y), **QUICK)


def spans(directory, trains):
    model = BertQuestionAnswerer.from_preset(directory)
    x, y = (["who sat?"] * 2, ["the cat sat", LONG]), [[Answer("cat", 4)], [Answer("cat", 4)]]
    yield model.answer(*x)
    assert evaluate(model, x, y).keys() == {"f1", "exact_match"}
    if trains:
        fine_tune(model, (x, y), **QUICK)


def masks(directory, trains):
    model = BertMaskedLM.from_preset(directory)
    mask = model.preprocessor.tokenizer.special_tokens["mask_token"]
    yield model.fill([f"the {mask} sat", f"{mask} it {mask} " + LONG])
    sparse = BertSparseEncoder.from_preset(directory)
    yield sparse.encode([TEXT, "it rained"], top_k=3)


def pairs(directory, trains):
    model = BertNextSentence.from_preset(directory)
    yield model.score(["the cat", "it"], ["sat", "rained"]).tolist()


def vectors(directory, trains):
    model = BertSentenceEncoder.from_preset(directory)
    yield model.encode([TEXT, LONG]).tolist()
    if trains:
        fine_tune(model, (([TEXT, "it rained"], ["the cat sat", "it"]), None), **QUICK)


def numbers(answers):
    """All numbers in answers."""
    if isinstance(answers, dict):
        answers = list(answers.values())
    if isinstance(answers, list):
        return [number for answer in answers for number in numbers(answer)]
    return [answers] if isinstance(answers, int | float) else []


VERBS = {
    None: vectors,
    "sequence": classes,
    "tokens": words,
    "spans": spans,
    "masked_lm": masks,
    "next_sentence": pairs,
}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:texts cut|words cut|labels with fewer")
@pytest.mark.parametrize("family", PUBLISHED)
def test_every_verb(model_of, family):
    heads = [None, *(head for head in published.heads_of(family) if head in VERBS)]
    assert set(published.heads_of(family)) - set(heads) <= {"replaced_tokens"}  # which has no verb
    for head in heads:
        for answers in VERBS[head](model_of(family, head), family in TRAINED):
            found = numbers(answers)
            assert found, (head, answers)
            assert np.isfinite(found).all(), (head, answers)


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
    (folder / "book.txt").write_text("the cat sat.\nit rained.\n\n" * 8)
    return folder


BY_HEAD = {"sequence": ("classify", "rows.jsonl"), "tokens": ("tag", "tags.conll"), "spans": ("answer", "squad.json")}


@pytest.mark.slow
@pytest.mark.parametrize("family", PUBLISHED)
def test_every_command(model_of, files, tmp_path, family):
    base, rows = model_of(family), files / "rows.jsonl"
    assert "vocab" in run("inspect", base)
    for command in ("tokenize", "encode"):
        assert run(command, "--preset", base, "--file", files / "lines.txt")
    run("attention", "the cat", "--preset", base, "--output", tmp_path / "page.html")
    run("index", rows, "--preset", base, "--output", tmp_path / "index")
    assert LONG.strip() in run("search", tmp_path / "index", LONG)
    classifier = model_of(family, "sequence")
    assert run("predict", classifier, TEXT, LONG)
    assert run("evaluate", classifier, rows)
    run("export", "serving", "--preset", classifier, "--output", tmp_path / "served")
    run("export", "encoder", "--preset", base, "--output", tmp_path / "encoder")
    masks = model_of(family, "masked_lm")
    assert run("fill", masks, f"the {load_tokenizer(masks).special_tokens['mask_token']} sat")


@pytest.mark.slow
@pytest.mark.parametrize("family", BY_COMMAND)
def test_every_command_that_sees_only_vectors(model_of, files, tmp_path, family):
    base, pairs = model_of(family), files / "pairs.jsonl"
    assert run("similarity", "--preset", base, "--file", files / "lines.txt")
    run("embed", files / "rows.jsonl", "--preset", base, "--output", tmp_path / "vectors")
    run("project", "--file", files / "lines.txt", "--preset", base, "--output", tmp_path / "projector")
    run("duplicates", files / "rows.jsonl", "--preset", base, "--threshold", "-1")
    run("mine", pairs, "--preset", base, "--negatives", "1", "--output", tmp_path / "mined.jsonl")


@pytest.mark.slow
@pytest.mark.parametrize("family", BY_COMMAND)
def test_every_command_that_trains(model_of, files, tmp_path, family):
    base, pairs, rows = model_of(family), files / "pairs.jsonl", files / "rows.jsonl"
    columns = ("--query-column", "query", "--positive-column", "positive")
    run("finetune", "embed", "--train", pairs, *columns, *trained(base, tmp_path / "embed"))
    assert "ndcg" in run("evaluate", tmp_path / "embed", pairs, *columns)
    lists = ("--text-column", "query", "--text-pair-column", "positive", "--negative-column", "negative")
    lists = (*lists, "--train", files / "lists.jsonl", "--eval", files / "lists.jsonl")
    run("finetune", "rank", *lists, *trained(base, tmp_path / "rank"))
    run("index", rows, "--preset", base, "--output", tmp_path / "index")
    run("search", tmp_path / "index", TEXT, "--rerank", tmp_path / "rank")
    for head in BY_HEAD.keys() & set(published.heads_of(family)):
        kind, name = BY_HEAD[head]
        model = model_of(family, head)
        run("finetune", kind, "--train", files / name, "--eval", files / name, *trained(model, tmp_path / kind))
        asked = ("--file", files / "asked.csv") if head == "spans" else (TEXT, LONG)
        assert run("predict", tmp_path / kind, *asked)
    learned = ("--teacher", tmp_path / "classify", "--num-layers", "1", "--train", rows, "--eval", rows)
    run("distill", "classify", *learned, "--output", tmp_path / "student", "--epochs", "1")


def trained(preset, output):
    return ("--preset", preset, "--output", output, "--epochs", "1", "--batch-size", "2")
