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
IN_PYTHON = ("bert", "roberta", "deberta-v2", "modernbert", "eurobert")
BY_COMMAND = "modernbert"  # 8,192 positions
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


@pytest.mark.slow
def test_every_command(model_of, tmp_path, untraced):
    base, rows, lines = model_of(BY_COMMAND), tmp_path / "rows.jsonl", tmp_path / "lines.txt"
    texts = {TEXT: "bad", "it rained": "good", "the cat sat": "bad", LONG: "good"}
    rows.write_text("".join(f"{json.dumps({'text': text, 'label': label})}\n" for text, label in texts.items()))
    lines.write_text("".join(f"{text}\n" for text in texts))
    assert "vocab" in run("inspect", base)
    for command in ("tokenize", "encode"):
        assert run(command, "--preset", base, "--file", lines)
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
