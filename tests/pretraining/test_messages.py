"""What pre-training refuses, and what each message names."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.pretraining import BertPretrainer, MaskedLMMasking, Records, documents, parts_of, write_records
from keras_bert.pretraining.examples import make_examples
from keras_bert.processes import in_processes

from ..support.corpus import encoder
from ..support.messages import error_names
from ..support.processes import shout

FILES = {
    "a.txt": b"Some text.\n\nOther text.",
    "empty.txt": b"",
    "white.txt": b" \n\n \n",
    "old.txt": b"One.\rTwo.\r\rThree.\r",
    "zero.txt": b"text\0\1",
    "latin.txt": b"text\n\nna\xefve",
    "one.txt": b"One document.\nOf two lines.",
    "vectors.tfrecord": tf.train.Example().SerializeToString(),
}


@pytest.fixture
def folder(tmp_path):
    """With files that cannot be used, and records that are none of pre-training."""
    for name, content in FILES.items():
        (tmp_path / name).write_bytes(content)
    image = tf.train.Example()
    image.features.feature["image"].int64_list.value.append(1)
    for name, records in [("none", []), ("bytes", [b"\xff\xff\xff"]), ("image", [image.SerializeToString()])]:
        with tf.io.TFRecordWriter(str(tmp_path / f"{name}.tfrecord")) as writer:
            for record in records:
                writer.write(record)
    (tmp_path / "nothing").mkdir()
    return tmp_path


def documents_of(name, layout="prose"):
    return lambda folder, _: [list(documents(part, layout)) for part in parts_of([folder / name])]


def written(name="a.txt", length=24, **settings):
    def write(folder, preprocessor):
        preprocessor = BertPreprocessor(preprocessor.tokenizer, sequence_length=length)
        write_records([folder / name], folder / "records", preprocessor, progress=False, **settings)

    return write


def read(name):
    return lambda folder, _: Records(folder / name)


def made(counts, *objective):
    tokens = tf.ragged.constant([[1, 2], [3]], dtype=tf.int32)
    return lambda *_: make_examples(tokens, np.array(counts), 40, *objective)


def masking(predictions, **settings):
    return lambda _, preprocessor: MaskedLMMasking(preprocessor.tokenizer, predictions, **settings)


REFUSED = {
    "a text is missing": (documents_of("nowhere.txt"), FileNotFoundError, "nowhere.txt"),
    "the corpus is one name": (lambda *_: parts_of("corpus.txt"), TypeError, "corpus", "a list"),
    "the corpus is empty": (documents_of("empty.txt"), ValueError, "corpus", "empty"),
    "the corpus is white space": (written("white.txt"), ValueError, "no examples", "0 documents", "0 tokens"),
    "the corpus is one document": (
        written("one.txt", layout="sentences"), ValueError, "one.txt", "only one document", "'sentence_order'",
    ),
    "documents to make examples of are one": (made([2]), ValueError, "only one document", "next_sentence"),
    "lines end as on old Macs": (documents_of("old.txt"), ValueError, "old.txt", r"\r", "tr"),
    "a text is bytes": (documents_of("zero.txt"), ValueError, "zero.txt", "bytes of value 0"),
    "a text is Latin-1": (documents_of("latin.txt"), ValueError, "latin.txt", "UTF-8", "0xef", "offset 8"),
    "the layout is unknown": (documents_of("a.txt", "lines"), ValueError, "layout", "'lines'", "prose, sentences"),
    "the objective is unknown": (
        made([1, 1], "nsp"), ValueError, "objective", "'nsp'", "next_sentence, sentence_order, sentences",
    ),
    "pairs are packed": (written(pack=True), ValueError, "pack", "'next_sentence'", "'sentences'"),
    "rows have no length": (written(length=None), ValueError, "sequence_length", "None"),
    "copies are none": (written(copies=0), ValueError, "copies", 0, "at least 1"),
    "processes are none": (written(processes=0), ValueError, "processes", 0, "at least 1"),
    "a directory has no records": (read("nothing"), FileNotFoundError, "no records", "nothing"),
    "a file has no records": (read("none.tfrecord"), ValueError, "no records", "none.tfrecord"),
    "records are no examples": (read("bytes.tfrecord"), ValueError, "bytes.tfrecord", "tf.train.Example"),
    "records are of images": (read("image.tfrecord"), ValueError, "image.tfrecord", "input_ids", "image"),
    "predictions are none": (masking(0), ValueError, "predictions", 0, "at least 1"),
    "all tokens are masked": (masking(1, rate=1.0), ValueError, "rate", 1.0, "between 0 and 1"),
    "lines are masked": (masking(1, masked_unit="line"), ValueError, "masked_unit", "'line'", "token, word, span"),
    "a family has no pairs": (
        lambda _, preprocessor: BertPretrainer(encoder(family="roberta"), preprocessor),
        ValueError, "roberta", "'next_sentence'",
    ),
    "a process fails": (lambda *_: list(in_processes(shout, [""], 1)), ValueError, "nothing to shout"),
    "a process is killed": (
        lambda *_: list(in_processes(shout, ["die"], 1)),
        RuntimeError, "fewer processes", "smaller parts", "last words",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_no_record_is_written_if(folder, preprocessor, what):
    call, error, *words = REFUSED[what]
    with error_names(error, *words):
        call(folder, preprocessor)
    assert not sum(path.stat().st_size for path in (folder / "records").glob("*.tfrecord"))
