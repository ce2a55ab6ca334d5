"""keras-bert finetune, trained to the end, and what its model answers in other commands."""

import json

import numpy as np
import pyarrow as pa
import pytest
import tensorflow as tf
from pyarrow import parquet

from keras_bert import BertMultiVectorEncoder, BertQuestionAnswerer, BertReranker, BertSentenceEncoder

from ..support import small
from ..support.commands import KINDS, QUICK, json_lines

pytestmark = pytest.mark.slow


def test_rank(run, fails, untrained, tmp_path):
    """A text of praise is an answer."""
    generator = np.random.default_rng(0)
    rows = [(kind, generator.choice(KINDS[kind])) for kind in generator.choice(list(KINDS), 64)]
    path, model = tmp_path / "train.csv", tmp_path / "model"
    path.write_text("text,text_pair,label\n" + "".join(f"film,{word},{int(kind == 'praise')}\n" for kind, word in rows))
    files = ("--train", path, "--eval", path, "--preset", untrained, "--output", model)
    result = run("finetune", "rank", *files, *QUICK)
    assert result.stdout.startswith("average_precision\t1.0000\t(baseline: 0.")
    assert run("evaluate", model, path, "--text-pair-column", "text_pair").stdout == result.stdout
    assert fails("evaluate", model, path).startswith("this model takes pairs, a query and a passage")
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"text": "film", "text_pair": "good"}))
    (answer,) = json_lines(run("predict", model, "--file", tmp_path / "pairs.jsonl").stdout)
    assert answer["score"] > 0.5
    reranker = BertReranker.from_preset(model)
    assert [each["text"] for each in reranker.rank("film", ["bad", "great"])] == ["great", "bad"]
    path.write_text("text,text_pair,label\nfilm,good,5\nfilm,bad,0\n")
    refused = run("finetune", "rank", *files[:2], *files[4:6], "--output", tmp_path / "other", exit_code=2)
    told = "Error: label 0 is 5.0; expected a number from 0 (no answer) to 1 (an answer)"
    assert refused.stderr.splitlines()[-1] == told


def test_tag(run, untrained, tmp_path):
    generator = np.random.default_rng(0)
    tag_of = {word: "O" if kind == "blame" else "B-praise" for kind, words in KINDS.items() for word in words}
    sentences = [generator.choice(list(tag_of), 5) for _ in range(48)]
    path = tmp_path / "train.conll"
    path.write_text("\n\n".join("\n".join(f"{word}\t{tag_of[word]}" for word in words) for words in sentences) + "\n")
    model = tmp_path / "model"
    files = ("--train", path, "--eval", path)
    windows = ("--sequence-length", "5", "--long-text", "windows")  # of three words
    result = run("finetune", "tag", *files, "--preset", untrained, "--output", model, *windows, *QUICK)
    assert result.stdout.splitlines()[0] == "f1\t1.0000\t(baseline: 0.0000)"
    lines = run("evaluate", model, path).stdout.splitlines()
    assert lines[:3] == result.stdout.splitlines()
    assert "f1 of praise\t1.0000" in lines[3:]
    (answer,) = json_lines(run("predict", model, input=b"bad good dull\n").stdout)
    (entity,) = answer["entities"]
    assert (entity["text"], entity["label"], entity["start"], entity["end"]) == ("good", "praise", 4, 8)


def test_questions_without_an_answer(run, untrained, tmp_path):
    """The threshold that the run chooses is the model's; an option sets another one in every command."""
    asked = [{"id": "1", "question": "what is it?", "answers": [{"text": "warm", "answer_start": 4}]}]
    asked += [{"id": each, "question": "who is it?", "answers": [], "is_impossible": True} for each in "23"]
    path, model = tmp_path / "train.json", tmp_path / "model"
    path.write_text(json.dumps({"data": [{"title": "", "paragraphs": [{"context": "bad warm", "qas": asked}]}]}))
    (tmp_path / "asked.jsonl").write_text(json.dumps({"question": "who is it?", "context": "bad warm"}))
    command = ("finetune", "answer", "--train", path, "--preset", untrained, *QUICK, "--output")
    said = run(*command, tmp_path / "unmeasured").stderr
    assert "no_answer_threshold 0.0000: a default; examples to measure with would choose it\n" in said
    result = run(*command, model, "--eval", path)
    chosen = BertQuestionAnswerer.from_preset(model).no_answer_threshold
    assert f"no_answer_threshold {chosen:.4f}: the best on these examples\n" in result.stderr
    measures = dict(line.split("\t")[:2] for line in result.stdout.splitlines())
    assert measures["f1"] == measures["best_f1"]
    assert f"| no_answer_threshold | {chosen} |" in (model / "report.md").read_text()
    assert run("evaluate", model, path).stdout == result.stdout

    never, predict = ("--no-answer-threshold", "1e9"), ("predict", model, "--file", tmp_path / "asked.jsonl")
    answers = [json_lines(run(*predict, *options).stdout)[0]["answer"] for options in ((), never)]
    assert (answers[0], bool(answers[1])) == ("", True)
    assert "NoAns_f1\t0.0000" in run("evaluate", model, path, *never).stdout
    run(*command, tmp_path / "set", *never)
    assert BertQuestionAnswerer.from_preset(tmp_path / "set").no_answer_threshold == 1e9
    run("export", "serving", "--preset", model, "--output", tmp_path / "served", *never, small=False)
    served = tf.saved_model.load(tmp_path / "served/1").signatures["serving_default"]
    (answer,) = served(question=tf.constant(["who is it?"]), context=tf.constant(["bad warm"]))["answer"].numpy()
    assert answer.decode() == answers[1]
    run("export", "onnx", "--preset", model, "--output", tmp_path / "onnx", *never, small=False)
    assert "is above 1000000000.0." in (tmp_path / "onnx/README.md").read_text()


@pytest.fixture(scope="module")
def questions():
    """Rows of a query and the same words in another order."""
    generator = np.random.default_rng(0)
    queries = [" ".join(generator.choice(small.WORDS.split(), 4)) for _ in range(48)]
    return [{"question": query, "context": " ".join(generator.permutation(query.split()))} for query in queries]


QUESTIONS = ("--query-column", "question", "--positive-column", "context")


def write(path, rows):
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def test_embed(run, traced, untrained, questions, tmp_path):
    path, model = write(tmp_path / "train.jsonl", questions), tmp_path / "model"
    files = ("--train", path, "--eval", path, "--preset", untrained, "--output", model)
    command = ("finetune", "embed", *files, *QUESTIONS, "--matryoshka-dims", "32,8", *QUICK)
    result = run(*command)
    measures = dict(line.split("\t")[:2] for line in result.stdout.splitlines())
    assert list(measures) == ["ndcg@10", "mrr@10", "accuracy@1", "recall@10"]
    assert float(measures["ndcg@10"]) > 0.8
    report = (model / "report.md").read_text()
    assert "| query_column | question |" in report
    assert "| matryoshka_dims | (32, 8) |" in report
    assert run(*command).stdout == result.stdout  # the run is finished
    vectors = BertSentenceEncoder.from_preset(model, truncate_dim=8).encode([*questions[0].values()])
    assert vectors[0] @ vectors[1] > 0.8


def test_embed_tokens(run, traced, untrained, questions, tmp_path):
    """To an index that finds them."""
    path, model = write(tmp_path / "train.jsonl", questions), tmp_path / "model"
    files = ("--train", path, "--eval", path, *QUESTIONS)
    options = ("--vector-size", "8", "--mini-batch-size", "16", *QUICK)
    result = run("finetune", "embed-tokens", *files, "--preset", untrained, "--output", model, *options)
    measures = dict(line.split("\t")[:2] for line in result.stdout.splitlines())
    assert list(measures) == ["ndcg@10", "mrr@10", "accuracy@1", "recall@10"]
    assert float(measures["ndcg@10"]) > 0.8
    encoder = BertMultiVectorEncoder.from_preset(model)
    assert (encoder.vector_size, encoder.query_length) == (8, 32)
    assert encoder.encode("a, b!").shape == (4, 8)  # without punctuation
    again = run("evaluate", model, path, *QUESTIONS).stdout
    assert f"ndcg@10\t{measures['ndcg@10']}\n" in again
    run("index", path, "--text-column", "context", "--preset", model, "--output", tmp_path / "index")
    row = questions[3]
    found = json.loads(run("search", tmp_path / "index", row["question"], "--format", "jsonl", "--top-k", "48").stdout)
    (score,) = encoder.similarity(encoder.encode_query(row["question"]), encoder.encode(row["context"]))[0]
    (hit,) = (each for each in found["hits"] if each["text"] == row["context"])
    assert hit["similarity"] == pytest.approx(score, rel=2e-3)
    # It is trained further as it is, and learns from scores.
    scored = [{**each, "other": row["context"], "right": 2 + i % 3, "wrong": 0.5} for i, each in enumerate(questions)]
    columns = ("--negative-column", "other", "--score-column", "right", "--score-column", "wrong")
    command = ("finetune", "embed-tokens", "--train", write(tmp_path / "scored.jsonl", scored), *QUESTIONS, *columns)
    run(*command, "--preset", model, "--output", tmp_path / "scored", "--epochs", "1")
    assert BertMultiVectorEncoder.from_preset(tmp_path / "scored").settings() == encoder.settings()


def test_embed_with_scores_and_with_negatives(run, untrained, questions, tmp_path):
    others = [questions[i - 1]["question"] for i in range(len(questions))]
    command = ("finetune", "embed", "--preset", untrained, "--epochs", "1", "--output")
    scored = [
        f"{row['question']}\t{row['context'] if i % 2 else other}\t{i % 2}\n"
        for i, (row, other) in enumerate(zip(questions, others, strict=True))
    ]
    (tmp_path / "scored.tsv").write_text("".join(scored))
    options = ("--query-column", "1", "--positive-column", "2", "--score-column", "3", "--no-header", "--loss", "angle")
    files = ("--train", tmp_path / "scored.tsv", "--eval-split", "0.5")
    assert run(*command, tmp_path / "scored", *files, *options).stdout.startswith("average_precision\t")

    triplets = [{**row, "wrong": other} for row, other in zip(questions, others, strict=True)]
    train = ("--train", write(tmp_path / "triplets.jsonl", triplets), *QUESTIONS, "--negative-column", "wrong")
    write(tmp_path / "pairs.jsonl", questions)
    for name, is_measured in (("triplets", True), ("pairs", False)):
        result = run(*command, tmp_path / name, *train, "--eval", tmp_path / f"{name}.jsonl")
        assert "\nrecall@10\t" in result.stdout
        assert ("\ntriplet_accuracy\t" in result.stdout) == is_measured
        assert (f"{name}.jsonl has no 'wrong': it is evaluated as pairs" in result.stderr) == (not is_measured)

    scored = [{**row, "good": 1.0, "bad": i / 48} for i, row in enumerate(triplets)]
    parquet.write_table(pa.Table.from_pylist(scored), tmp_path / "triplets.parquet")
    files = ("--train", tmp_path / "triplets.parquet", "--eval", tmp_path / "triplets.parquet")
    scores = ("--score-column", "good", "--score-column", "bad", "--mini-batch-size", "3")
    result = run(*command, tmp_path / "several", *files, *train[2:], *scores)
    assert result.stdout.startswith("spearman\t")
    assert "| mini_batch_size | 3 |" in (tmp_path / "several" / "report.md").read_text()
