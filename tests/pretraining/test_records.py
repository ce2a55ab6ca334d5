"""Records: what is in the files, who else can read them, and what becomes of an interrupted or damaged one."""

import functools
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from keras_bert.pretraining import Records, unmasked, write_records
from keras_bert.pretraining import records as records_module

from ..support.corpus import WRITTEN
from ..support.messages import error_names
from ..support.processes import run_python

GOOGLE = {
    "input_ids": 24, "input_mask": 24, "segment_ids": 24, "masked_lm_positions": 4, "masked_lm_ids": 4,
    "masked_lm_weights": 4, "next_sentence_labels": 1,
}  # fmt: skip
COUNTS = (1, 2, 3, 4, 5, 6, 7, 20)  # tokens of short documents
PACKED = ("input_word_ids", "input_mask", "input_document_ids")
pytestmark = pytest.mark.usefixtures("untraced_module")


@pytest.fixture(scope="module")
def google(written):
    """What is written, as `input_fn_builder` of run_pretraining.py reads it."""
    features = {name: tf.io.FixedLenFeature([length], tf.int64) for name, length in GOOGLE.items()}
    features["masked_lm_weights"] = tf.io.FixedLenFeature([4], tf.float32)
    files = sorted(map(str, written[0].glob("*.tfrecord")))
    records = list(tf.data.TFRecordDataset(files).as_numpy_iterator())
    return {name: value.numpy() for name, value in tf.io.parse_example(records, features).items()}


def test_google_can_read_them(written, google, preprocessor):
    directory, counts = written
    files = sorted(directory.glob("*.tfrecord"))
    assert len(files) > 4
    assert [file.name for file in files] == [f"examples-{i:05}-of-{len(files):05}.tfrecord" for i in range(len(files))]
    assert len(google["input_ids"]) == counts["examples"]
    words = np.array(preprocessor.tokenizer.vocabulary)
    for i in range(counts["examples"]):
        example = {name: value[i] for name, value in google.items()}
        ids, is_hidden = example["input_ids"].copy(), example["masked_lm_weights"] > 0
        length = int(example["input_mask"].sum())
        ids[example["masked_lm_positions"][is_hidden]] = example["masked_lm_ids"][is_hidden]
        text = words[ids[:length]].tolist()
        assert (text[0], text[-1], text.count("[SEP]")) == ("[CLS]", "[SEP]", 2)
        middle = text.index("[SEP]")
        segments = [0] * (middle + 1) + [1] * (length - middle - 1) + [0] * (24 - length)
        assert example["segment_ids"].tolist() == segments
        assert not {"[UNK]", "[MASK]", "[PAD]"} & set(text)
        letters = [{word[0] for word in part if len(word) == 2} for part in (text[1:middle], text[middle:-1])]
        if example["next_sentence_labels"] == 0:
            assert len(letters[0] | letters[1]) == 1
    assert 0.4 < np.mean(google["next_sentence_labels"]) < 0.7


def test_what_is_written_is_read(written, records, google):
    batches = list(records.in_order(50))
    assert records.count == written[1]["examples"] == sum(len(batch["input_mask"]) for batch in batches)
    names = {"input_word_ids": "input_ids", "input_type_ids": "segment_ids", "masked_lm_weights": "masked_lm_weights"}
    for ours, theirs in names.items():
        np.testing.assert_array_equal(np.concatenate([batch[ours] for batch in batches]), google[theirs])
    labels = np.concatenate([batch["next_sentence_labels"] for batch in batches])
    np.testing.assert_array_equal(labels, np.ravel(google["next_sentence_labels"]))


def test_nothing_is_tuned_while_they_are_read(records):
    """Or the end of an epoch may wait for the thread that tunes."""
    for dataset in (records.in_order(2), records.shuffled(2, seed=0)):
        assert not dataset.map(lambda batch: batch).options().autotune.enabled


def test_those_of_model_garden_are_read(tmp_path, records):
    """Its newer files have TF Hub's names, and its labels' type is its own."""
    names = {"input_ids": "input_word_ids", "segment_ids": "input_type_ids"}
    record = next(iter(tf.data.TFRecordDataset(records.files[0]))).numpy()
    example = tf.train.Example.FromString(record)
    for old, new in names.items():
        example.features.feature[new].CopyFrom(example.features.feature.pop(old))
    with tf.io.TFRecordWriter(str(tmp_path / "garden.tfrecord")) as writer:
        writer.write(example.SerializeToString())
    (found,) = Records(tmp_path / "garden.tfrecord").in_order(1)
    (expected,) = records.in_order(1).take(1)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


@pytest.mark.parametrize(
    "objective", ["next_sentence", pytest.param("sentence_order", marks=pytest.mark.slow), "sentences"]
)
def test_objectives(tmp_path, corpus, preprocessor, objective):
    settings = {"objective": objective, "masked_unit": "span", "progress": False, **WRITTEN}
    counts = write_records(corpus, tmp_path, preprocessor, **settings)
    assert [counts[name] for name in ("documents", "sentences", "tokens")] == [80, 80 * 12, 80 * 12 * 7]
    (batch,) = Records(tmp_path).in_order(2000)
    assert ("next_sentence_labels" in batch) == (objective != "sentences")
    steps = np.diff(batch["masked_lm_positions"])[batch["masked_lm_weights"][:, 1:] > 0]
    assert np.mean(steps == 1) > 0.5  # in spans; of tokens, one in seven
    ids = [row[row > 4] for row in unmasked(batch)["input_word_ids"].numpy()]
    if objective != "next_sentence":
        assert sum(map(len, ids)) == counts["tokens"] - counts["cut"]


def test_short_documents_share_sequences(tmp_path, preprocessor):
    documents = [f"{letter}0 " * count for letter in "abcdefgh" for count in COUNTS]
    (tmp_path / "text.txt").write_text("\n\n".join(documents))
    settings = {"objective": "sentences", "layout": "sentences", "progress": False}
    alone = write_records([tmp_path / "text.txt"], tmp_path / "alone", preprocessor, **settings)
    counts = write_records([tmp_path / "text.txt"], tmp_path / "packed", preprocessor, **settings, pack=True)
    assert counts["examples"] < 0.6 * alone["examples"]
    assert counts["tokens"] == alone["tokens"]
    vocabulary, seen = preprocessor.tokenizer.vocabulary, []
    for batch in Records(tmp_path / "packed").in_order(8):
        batch = {name: value.numpy() for name, value in unmasked(batch).items()}
        for ids, mask, document in zip(*(batch[name] for name in PACKED), strict=True):
            length = mask.sum()
            np.testing.assert_array_equal(mask[:length], 1)
            assert set(np.diff(document[:length])) <= {0, 1}
            assert not document[length:].any()
            for number in range(1, document.max() + 1):
                cls, *tokens, sep = ids[document == number]
                assert [vocabulary[token] for token in (cls, sep)] == ["[CLS]", "[SEP]"]
                (token,) = {vocabulary[token] for token in tokens}
                seen.append((token, len(tokens)))
    assert sorted(seen) == sorted((f"{letter}0", count) for letter in "abcdefgh" for count in COUNTS)


def test_every_epoch_has_each_record_once_in_another_order(records):
    rows = 32

    def seen(batches):
        return [row.tobytes() for batch in batches for row in batch["input_word_ids"].numpy()]

    all_rows = sorted(seen(records.in_order(rows)))
    epochs = seen(records.shuffled(rows, seed=1).take(3 * records.count // rows + 1))
    first, second = epochs[: records.count], epochs[records.count : 2 * records.count]
    assert sorted(first) == sorted(second) == all_rows
    assert first != second
    assert seen(records.shuffled(rows, seed=1, start=2).take(1)) == epochs[2 * rows : 3 * rows]
    start = records.count // rows + 2  # in the second epoch
    assert seen(records.shuffled(rows, seed=1, start=start).take(2)) == epochs[start * rows : (start + 2) * rows]
    assert seen(records.shuffled(rows, seed=2).take(1)) != epochs[:rows]


def test_it_goes_on_where_it_was(tmp_path, corpus, preprocessor, written):
    again = tmp_path / "again"
    shutil.copytree(written[0], again)
    names = sorted(path.name for path in again.iterdir())
    # Interrupted behind the first shard: what is done is not written again, what is not is.
    notes = json.loads((again / "records.json").read_text())
    done, lost = names[0], names[1]
    notes["files"] = {name: counts if name == done else None for name, counts in notes["files"].items()}
    (again / "records.json").write_text(json.dumps(notes))
    (again / done).write_bytes(b"left alone")
    (again / lost).write_bytes(b"half")
    assert write_records(corpus, again, preprocessor, copies=2, progress=False, **WRITTEN) == written[1]
    assert (again / done).read_bytes() == b"left alone"
    assert (again / lost).read_bytes() == (written[0] / lost).read_bytes()
    others = {"copies": 1, "masked_unit": "span", "seed": 1, "predictions": 3, "objective": "sentences"}
    for name, value in others.items():
        with error_names(ValueError, again, "records", f"other {name}", "another directory"):
            write_records(corpus, again, preprocessor, progress=False, **{**WRITTEN, "copies": 2, name: value})


def test_an_edited_text_of_the_same_size_is_another_one(copied, tmp_path, corpus, preprocessor, written, monkeypatch):
    monkeypatch.setattr(records_module, "_PIECE_BYTES", 1000)  # each text has several
    texts = [Path(shutil.copy(path, tmp_path)) for path in corpus]
    again = functools.partial(write_records, texts, copied, preprocessor, copies=2, progress=False, **WRITTEN)
    assert again() == written[1]
    texts[1].write_bytes(texts[1].read_bytes()[:-1] + b"!")
    with error_names(ValueError, copied, "other files", "another directory"):
        again()


def test_older_records_without_digests_of_the_texts_go_on(copied, corpus, preprocessor, written):
    notes = json.loads((copied / "records.json").read_text())
    last = max(notes["files"])
    notes["settings"]["files"] = [[path.name, path.stat().st_size] for path in corpus]
    (copied / "records.json").write_text(json.dumps(notes))
    (copied / last).unlink()
    assert write_records(corpus, copied, preprocessor, copies=2, progress=False, **WRITTEN) == written[1]
    assert (copied / last).read_bytes() == (written[0] / last).read_bytes()


def test_parts_in_which_no_document_begins(tmp_path, corpus, preprocessor):
    (tmp_path / "long.txt").write_text("\n\n".join(["a0 a1.", "b0 b1. " * 3000, "c0 c1."]))
    settings = {"objective": "sentences", "part_bytes": 5000, "progress": False}
    counts = write_records([tmp_path / "long.txt"], tmp_path / "records", preprocessor, **settings)
    assert counts["cut"] == 0
    assert counts["tokens"] == 3 * 3002
    records = Records(tmp_path / "records")
    assert records.count == counts["examples"]
    ids = [row[row > 4] for batch in records.in_order(2000) for row in unmasked(batch)["input_word_ids"].numpy()]
    assert sum(map(len, ids)) == counts["tokens"]


def test_a_document_that_is_alone_in_its_part(tmp_path, preprocessor):
    """There is no other one to take a sentence from; the parts before and behind do not suffer."""
    few = "\n\n".join(["a0 a1.\na2 a3.", "b0 b1.\nb2 b3."] * 40)
    long, alone = "c0 c1.\n" * 300, "d0 d1.\n" * 300  # the first begins in a part with some of the few
    (tmp_path / "text.txt").write_text("\n\n".join([few, long, alone, few]))
    settings = {"layout": "sentences", "part_bytes": 1000, "progress": False}
    counts = write_records([tmp_path / "text.txt"], tmp_path / "records", preprocessor, **settings)
    assert counts["documents"] == 162
    assert counts["cut"] == 900
    ids = [unmasked(batch)["input_word_ids"].numpy().ravel() for batch in Records(tmp_path / "records").in_order(10)]
    letters = {preprocessor.tokenizer.vocabulary[i][0] for i in np.concatenate(ids)}
    assert letters == {"[", ".", "a", "b", "c"}
    (tmp_path / "two.txt").write_text("\n\n".join([long, alone]))
    with error_names(ValueError, "no examples", "2 documents", "1,800 tokens", "part_bytes", "'sentence_order'"):
        write_records([tmp_path / "two.txt"], tmp_path / "none", preprocessor, **settings)


@pytest.fixture
def copied(tmp_path, written):
    """Records that can be damaged."""
    return Path(shutil.copytree(written[0], tmp_path / "records"))


def test_what_a_killed_process_has_left_is_no_record(copied, written):
    (copied / ".examples-00000-of-00099.tfrecord.123.tmp").write_bytes(b"half")
    assert Records(copied).count == written[1]["examples"]


def test_an_incomplete_directory_is_not_read(copied):
    max(copied.glob("*.tfrecord")).unlink()
    with error_names(ValueError, copied, "incomplete", "write"):
        Records(copied)


@pytest.mark.parametrize("damage", [
    lambda data: data[:-100],
    lambda data: data[:999] + bytes([data[999] ^ 1]) + data[1000:],
    lambda data: b"no records at all, but a line of text that is long enough to be one",
], ids=["cut", "changed", "other"])  # fmt: skip
def test_a_damaged_file(copied, damage):
    path = min(copied.glob("*.tfrecord"))
    path.write_bytes(damage(path.read_bytes()))
    with error_names(ValueError, path, "damaged", "write it again"):
        Records(copied)


def test_damaged_notes(copied, corpus, preprocessor):
    notes = copied / "records.json"
    written = notes.read_bytes()
    for old, new, *words in [
        (b'"files"', b'"fjles"', "no files", "object"),
        (b'"examples":', b'"exampmes":', "damaged", "count of examples"),
        (b'"documents": ', b'"documents": -."', "not a JSON file"),
        (b'"seed"', b'"sged"', "records", "other seed", "another directory"),
    ]:
        assert old in written
        notes.write_bytes(written.replace(old, new))
        with error_names(ValueError, copied if "other seed" in words else notes, *words):
            write_records(corpus, copied, preprocessor, copies=2, progress=False, **WRITTEN)


_FULL = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from pathlib import Path
from keras_bert import BertPreprocessor
from keras_bert.pretraining import write_records
from keras_bert.text import WordPieceTokenizer
tokenizer = WordPieceTokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])  # small: it goes through a file
preprocessor = BertPreprocessor(tokenizer, sequence_length=64)
try:
    settings = {"part_bytes": 5000, "processes": 2, "progress": False}
    write_records([sys.argv[1]], sys.argv[2], preprocessor, "sentence_order", "sentences", **settings)
except OSError as error:
    print("OSError", error)
"""


@pytest.mark.slow
def test_a_disk_that_is_full(tmp_path, corpus):
    """As a limit on the size of files has it; the error comes from another process."""
    # Python would leave half a compiled module, at which each later import fails.
    output = run_python(_FULL, corpus[0], tmp_path / "records", PYTHONDONTWRITEBYTECODE="1")
    file = re.escape(str(tmp_path / "records" / "examples-0000")) + r"\d-of-00002\.tfrecord"
    assert re.fullmatch(rf"OSError \[Errno 5\] File too large: '{file}'\n", output)
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["records.json"]
