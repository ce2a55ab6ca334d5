"""Whatever loads a model looks for its preset once, opens the weights once, and reads each file of settings once."""

import sys
from collections import Counter
from pathlib import Path

import pytest
import tensorflow as tf

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertMaskedLM,
    BertPreprocessor,
    BertReranker,
    BertSentenceEncoder,
    BertSparseEncoder,
    BertTokenClassifier,
    formats,
    presets,
)
from keras_bert.formats.readers import READERS
from keras_bert.pretraining.pretrainer import BertPretrainer
from keras_bert.tasks.registry import load_reranker, load_task

from ..support import small
from ..support.checkpoints import CONFIGS, random_weights
from ..support.messages import error_names, warning_names
from ..support.tasks import CASES

_opened: list[str] = []
MADE = {case.kind: case.model for case in CASES.values()}
MADE[BertTokenClassifier] = CASES["words"].model
MADE[BertPretrainer] = lambda: BertPretrainer(small.encoder(num_layers=1), small.preprocessor(sequence_length=16))


@pytest.fixture(scope="module", autouse=True)
def watched():
    """Python reports every file that it opens. A hook cannot be removed."""
    sys.addaudithook(lambda event, arguments: _opened.append(str(arguments[0])) if event == "open" else None)


@pytest.fixture
def counted(monkeypatch):
    """A function that loads a model, and returns how often each file was opened, handles resolved, weights opened."""
    counts = Counter()

    def counting(name, function):
        return lambda *arguments: counts.update([name]) or function(*arguments)

    monkeypatch.setattr(presets, "resolve", counting("resolve", presets.resolve))
    monkeypatch.setattr(tf.train, "load_checkpoint", counting("TensorFlow's file", tf.train.load_checkpoint))
    for layout in READERS.values():
        monkeypatch.setattr(layout, "open_checkpoint", counting("open_checkpoint", layout.open_checkpoint))

    def load(from_preset, directory, **arguments):
        counts.clear()
        _opened.clear()
        from_preset(directory, **arguments)
        paths = [Path(each) for each in _opened if each.startswith(f"{directory}/")]
        return counts + Counter(str(path.relative_to(directory)) for path in paths)

    return load


def settings_of(counts):
    """Without the vocabularies, which tokenizers also take as paths."""
    return {name: count for name, count in counts.items() if not name.endswith((".txt", ".model"))}


def once(*names):
    return dict.fromkeys(["resolve", "open_checkpoint", "config.json", "model.safetensors", *names], 1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The directories of tasks, by class."""
    folder = tmp_path_factory.mktemp("saved")
    for kind, make in MADE.items():
        make().save_preset(folder / kind.__name__)
    return {kind: folder / kind.__name__ for kind in MADE}


@pytest.mark.parametrize("kind", [kind for kind in MADE if kind is not BertSentenceEncoder])
def test_a_task(kind, saved, counted):
    ours = {"config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"}
    names = ours | {"1_SpladePooling/config.json"} if kind is BertSparseEncoder else ()
    assert settings_of(counted(kind.from_preset, saved[kind])) == once("tokenizer_config.json", *names)


@pytest.mark.parametrize("load", [load_task, load_reranker])
def test_a_task_whose_class_is_in_the_files(load, saved, counted):
    others = BertMaskedLM, BertPretrainer, BertSentenceEncoder
    kinds = [BertReranker] if load is load_reranker else [kind for kind in MADE if kind not in others]
    for kind in kinds:
        counts = settings_of(counted(load, saved[kind]))
        assert set(counts.values()) == {1}, (kind, counts)
        assert counts.keys() >= once("tokenizer_config.json").keys()


@pytest.mark.parametrize("load", ["from_preset", "to_compare"])
def test_a_sentence_encoder(load, saved, counted):
    names = [f"{folder}/config.json" for folder in ("1_Pooling", "2_Dense")]
    names += ["config_sentence_transformers.json", "modules.json", "sentence_bert_config.json"]
    counts = settings_of(counted(getattr(BertSentenceEncoder, load), saved[BertSentenceEncoder]))
    assert counts == once(*names, "2_Dense/model.safetensors", "tokenizer_config.json")


def test_a_task_on_the_preset_of_another(saved, counted):
    """The head is new: the files of the task that was saved are read all the same."""
    with warning_names("trained head"):
        counts = settings_of(counted(BertTokenClassifier.from_preset, saved[BertClassifier], labels=["A", "B"]))
    assert set(counts.values()) == {1}


def test_parts(saved, counted):
    directory = saved[BertClassifier]
    assert counted(BertEncoder.from_preset, directory) == once()
    counts = settings_of(counted(BertPreprocessor.from_preset, directory))
    assert counts == {"resolve": 1, "config.json": 1, "tokenizer_config.json": 1}


@pytest.mark.parametrize("format", ["tf1", "garden"])
def test_checkpoints_of_tensorflow(format, tmp_path, counted):
    """Both layouts have the same names of files: the names in the file say which one it is."""
    config = CONFIGS["bert"]
    formats.write(tmp_path, config, random_weights(config), format)
    counts = counted(BertEncoder.from_preset, tmp_path)
    assert counts.keys() >= {"resolve", "open_checkpoint", "TensorFlow's file", "bert_config.json"}
    assert set(counts.values()) == {1}


def test_an_open_preset_stays_open_until_its_block_ends(saved):
    with formats.Preset.open(saved[BertClassifier]) as preset:
        encoder = BertEncoder.from_preset(preset)
        assert preset.checkpoint.read("encoder").keys()  # the encoder did not close it
        BertPreprocessor.from_preset(preset)
        assert encoder.config == preset.config
    with error_names(ValueError, "closed file"):
        preset.checkpoint.read("encoder")
