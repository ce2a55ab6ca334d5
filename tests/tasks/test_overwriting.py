"""A model saved where another one was: files that only the other one has do not stay; the user's own files do."""

import dataclasses
import functools
import json

import pytest

from keras_bert import BertClassifier, BertEncoder, BertReranker, BertSentenceEncoder
from keras_bert.tasks.registry import task_of
from keras_bert.text import WordPieceTokenizer, load_tokenizer

from ..support import small
from ..support.checkpoints import CONFIGS
from ..support.messages import error_names
from ..support.reference import bytepair
from ..support.texts import SENTENCES

# Names from transformers 5.24, sentence-transformers 6.2, optimum 2, google-research/bert and TF Hub.
WEIGHTS = {
    "config.json", "generation_config.json", "model.safetensors", "model.safetensors.index.json",
    "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "pytorch_model.bin",
    "pytorch_model.bin.index.json", "pytorch_model-00001-of-00001.bin", "tf_model.h5", "flax_model.msgpack",
    "bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt.meta", "bert_model.ckpt.data-00000-of-00001",
    "albert_config.json", "saved_model.pb", "variables/variables.index", "variables/variables.data-00000-of-00001",
    "onnx/model.onnx", "openvino/openvino_model.xml", "openvino/openvino_model.bin",
}  # fmt: skip
SETTINGS = {
    "modules.json", "1_Pooling/config.json", "2_Dense/config.json", "2_Dense/pytorch_model.bin",
    "config_sentence_transformers.json", "sentence_bert_config.json", "sentence_roberta_config.json",
    "int8_ranges.safetensors",
}  # fmt: skip
TOKENIZERS = {
    "vocab.txt", "tokenizer.json", "tokenizer_config.json", "vocab.json", "merges.txt", "spiece.model",
    "sentencepiece.bpe.model", "spm.model", "added_tokens.json", "special_tokens_map.json",
}  # fmt: skip
OWN = {"README.md", "notes.txt", "logs/1.log", "1_Pooling/why.txt", "data.json", "model.weights.h5", "best.keras"}
BARE = {"config.json", "model.safetensors"}
CHECKPOINT = {"bert_config.json", "bert_model.ckpt.index", "bert_model.ckpt.data-00000-of-00001"}
PLAIN_TOKENIZER = {"vocab.txt", "tokenizer_config.json"}
OF_SENTENCES = {
    "modules.json", "1_Pooling/config.json", "sentence_bert_config.json", "config_sentence_transformers.json",
}  # fmt: skip


def names_in(directory):
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


def fill(directory, names):
    for name in names:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text("old")
    return directory


def encoder():
    return BertEncoder(CONFIGS["bert"])


def task(kind, *arguments):
    return small.task(kind, *arguments, config={"num_layers": 1})


def sentences(**settings):
    return BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor(), **settings)


WRITERS = {
    "encoder": (lambda: encoder().save_preset, BARE, TOKENIZERS),
    "tokenizer": (lambda: small.tokenizer().save_preset, PLAIN_TOKENIZER, WEIGHTS | SETTINGS),
    "classifier": (lambda: task(BertClassifier, ["a", "b"]).save_preset, BARE | PLAIN_TOKENIZER, set()),
    "reranker": (lambda: task(BertReranker).save_preset, BARE | PLAIN_TOKENIZER, set()),
    "sentences": (lambda: sentences().save_preset, BARE | PLAIN_TOKENIZER | OF_SENTENCES, set()),
    **{
        form: (lambda form=form: functools.partial(encoder().save_checkpoint, format=form), CHECKPOINT, TOKENIZERS)
        for form in ("tf1", "garden")
    },
}


@pytest.mark.parametrize("writer", WRITERS)
def test_only_the_new_models_files_and_the_users_own_stay(writer, tmp_path):
    make, written, kept = WRITERS[writer]
    save, before = make(), WEIGHTS | SETTINGS | TOKENIZERS | OWN
    fill(tmp_path, before)
    replaced = (WEIGHTS | SETTINGS | TOKENIZERS) - kept  # each of which is named if it is alone, below
    named = [f"and {len(replaced) - 20} more"] if len(replaced) > 20 else replaced
    with error_names(FileExistsError, "overwrite", *named):
        save(tmp_path)
    assert names_in(tmp_path) == before
    assert all((tmp_path / name).read_text() == "old" for name in before)
    save(tmp_path, overwrite=True)
    assert names_in(tmp_path) == written | kept | OWN
    assert all((tmp_path / name).read_text() == "old" for name in kept | OWN)
    empty = {path.name for path in tmp_path.rglob("*") if path.is_dir() and not any(path.iterdir())}
    assert empty <= {"2_Normalize"}  # a module without files


def test_one_file_of_another_model_is_enough_to_refuse(tmp_path):
    save = WRITERS["classifier"][0]()
    for name in sorted(WEIGHTS | SETTINGS | TOKENIZERS):
        directory = fill(tmp_path / name.replace("/", "-"), [name])
        with error_names(FileExistsError, name, "overwrite"):
            save(directory)
        assert names_in(directory) == {name}


def test_a_classifier_where_a_sentence_encoder_was(tmp_path):
    sentences(dense={"units": 3}).save_preset(tmp_path)
    assert "2_Dense/model.safetensors" in names_in(tmp_path)
    sentences().save_preset(tmp_path, overwrite=True)
    assert BertSentenceEncoder.from_preset(tmp_path).dense is None
    assert not (tmp_path / "2_Dense").exists()
    task(BertClassifier, ["a", "b"]).save_preset(tmp_path, overwrite=True)
    assert names_in(tmp_path) == BARE | PLAIN_TOKENIZER | {"README.md"}
    assert not (tmp_path / "2_Normalize").exists()
    assert task_of(tmp_path) is BertClassifier


def test_a_tokenizer_where_another_kind_was(untraced, tmp_path):
    merges = bytepair.train(SENTENCES, 20)
    kinds = [
        (small.tokenizer(), PLAIN_TOKENIZER),
        (small.modern_byte_pairs(merges), {"tokenizer.json", "tokenizer_config.json"}),
        (small.byte_pairs(merges), {"vocab.json", "merges.txt", "tokenizer_config.json"}),
        (WordPieceTokenizer(small.VOCABULARY, added_tokens=["the"]), {"tokenizer.json", "tokenizer_config.json"}),
    ]
    for tokenizer, written in [*kinds, kinds[0]]:
        tokenizer.save_preset(tmp_path, overwrite=True)
        assert names_in(tmp_path) == written
        assert load_tokenizer(tmp_path).get_config() == tokenizer.get_config()


def test_encoder_and_tokenizer_are_written_one_after_the_other(tmp_path):
    encoder().save_preset(tmp_path / "a")
    small.tokenizer().save_preset(tmp_path / "a")
    small.tokenizer().save_preset(tmp_path / "b")
    encoder().save_preset(tmp_path / "b")
    assert names_in(tmp_path / "a") == names_in(tmp_path / "b") == BARE | PLAIN_TOKENIZER | {"README.md"}


def test_files_of_keras_hub(tmp_path):
    """Beside its configuration, they are a model's; elsewhere, `model.weights.h5` is the user's own (see `OWN`)."""
    theirs = {"config.json", "model.weights.h5", "metadata.json", "task.json", "assets/tokenizer/vocabulary.txt"}
    fill(tmp_path, theirs)
    (tmp_path / "config.json").write_text(json.dumps({"class_name": "BertBackbone"}))
    with error_names(FileExistsError, "model.weights.h5"):
        encoder().save_preset(tmp_path)
    task(BertClassifier, ["a", "b"]).save_preset(tmp_path, overwrite=True)
    assert names_in(tmp_path) == BARE | PLAIN_TOKENIZER | {"README.md"}


def test_a_model_that_cannot_be_written_leaves_the_one_before(tmp_path):
    model = task(BertClassifier, ["a", "b"])
    model.save_preset(tmp_path)
    fill(tmp_path, ["modules.json"])
    before = {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)}
    bias = {"relative_buckets": 8}  # no BERT in a file has a relative bias, and MPNet's has 32 buckets
    odd = {"bert": (bias, "None"), "mpnet": (bias, "32"), "modernbert": ({"head_dim": 12}, "None")}
    for family, (changes, only) in odd.items():
        encoder = BertEncoder(dataclasses.replace(CONFIGS[family], **changes))
        with error_names(ValueError, *(f"{field}={value}" for field, value in changes.items()), f"only be {only}"):
            encoder.save_preset(tmp_path, overwrite=True)
    assert {name: (tmp_path / name).read_bytes() for name in names_in(tmp_path)} == before
