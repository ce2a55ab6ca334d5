"""Keras's safe mode: a saved model holds all that it needs, and has no other file of the computer read."""

from __future__ import annotations

import contextlib
import copy
import importlib
import inspect
import json
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import pytest

from keras_bert import BertClassifier, BertPreprocessor, HubLayer
from keras_bert.registered import classes
from keras_bert.tasks.losses.sentence_losses import MatryoshkaLoss, MultipleNegativesRankingLoss
from keras_bert.text import BytePairTokenizer, SentencePieceTokenizer, WordPieceTokenizer
from keras_bert.training import AdamW

from ..support import small, tokenization
from ..support.hub import save_toy
from ..support.reference import bytepair
from ..support.texts import SENTENCES

SECRET = "\n".join([*small.SPECIAL, "the", "secret"]) + "\n"
_opened: list[str] = []


@pytest.fixture(scope="module", autouse=True)
def watched():
    """Python reports every file that it opens. A hook cannot be removed."""
    sys.addaudithook(lambda event, arguments: _opened.append(str(arguments[0])) if event == "open" else None)


@pytest.fixture
def secret(tmp_path) -> Path:
    """A file that no model has any business with; it would do as a vocabulary."""
    path = tmp_path / "elsewhere.txt"
    path.write_text(SECRET)
    _opened.clear()
    return path


def tokenizers() -> list[Any]:
    pieces = SentencePieceTokenizer(tokenization.train_albert())
    return [small.tokenizer(), small.byte_pairs(bytepair.train(SENTENCES, 20)), pieces]


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_a_tokenizer_from_a_configuration_takes_no_path(kind, secret):
    tokenizer = tokenizers()[kind]
    config = tokenizer.get_config()
    files = [name for name in ("vocabulary", "merges", "model_file") if name in config]
    for name in files:
        for value in (str(secret), secret, None):
            with pytest.raises(ValueError, match=rf"has .* in {name}; expected .*a path is for the constructor"):
                type(tokenizer).from_config({**config, name: value})
    assert files
    assert str(secret) not in _opened
    assert type(tokenizer).from_config(config).get_config() == config


def test_every_argument_that_takes_a_path_is_known():
    """A new one needs a test here."""
    found = set()
    for module, names in classes().items():
        for name in names:
            kind = getattr(importlib.import_module(f"keras_bert.{module}"), name)
            parameters = inspect.signature(kind.__init__).parameters.values()
            found |= {(kind, each.name) for each in parameters if "Path" in str(each.annotation)}
    assert found == {
        (WordPieceTokenizer, "vocabulary"),
        (BytePairTokenizer, "vocabulary"),
        (BytePairTokenizer, "merges"),
        (SentencePieceTokenizer, "model_file"),
        (HubLayer, "handle"),
    }


def places(value: Any, place: tuple = ()) -> Iterator[tuple]:
    """The places of all values in a configuration; of a long list, only that of the list."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if len(items := list(items)) < 20:
        for key, each in items:
            yield from places(each, (*place, key))


def with_value(config: Any, place: tuple, value: Any) -> Any:
    changed = copy.deepcopy(config)
    inner = changed
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    return changed


@pytest.mark.slow
def test_no_value_of_any_configuration_opens_a_file(secret):
    text = keras.Input((), dtype="string")
    models: list[Any] = [BertPreprocessor(each, sequence_length=8) for each in tokenizers()]
    models += [
        keras.Model(text, models[0](text)),
        small.task(BertClassifier, ["good", "bad"]),
        AdamW(1e-3),
        MatryoshkaLoss(MultipleNegativesRankingLoss(), [4, 2]),
    ]
    tried = 0
    for model in models:
        config = json.loads(json.dumps(keras.saving.serialize_keras_object(model)))
        for place in places(config):
            if place:
                tried += 1
                with contextlib.suppress(Exception):  # most such configurations are refused, by Keras or by us
                    keras.saving.deserialize_keras_object(with_value(config, place, str(secret)))
                assert str(secret) not in _opened, place
    assert tried > 150


def test_a_keras_file_that_names_a_vocabulary_elsewhere_is_refused(secret, tmp_path):
    text = keras.Input((), dtype="string")
    keras.Model(text, BertPreprocessor(small.tokenizer(), sequence_length=8)(text)).save(tmp_path / "whole.keras")
    _rewritten(tmp_path / "whole.keras", tmp_path / "changed.keras", "vocabulary", str(secret))
    with pytest.raises(ValueError, match="in vocabulary; expected a list"):
        keras.models.load_model(tmp_path / "changed.keras")
    assert str(secret) not in _opened


def _rewritten(source: Path, target: Path, name: str, value: Any) -> None:
    def changed(each: Any) -> Any:
        if isinstance(each, dict):
            return {key: value if key == name else changed(inner) for key, inner in each.items()}
        return [changed(inner) for inner in each] if isinstance(each, list) else each

    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for entry in old.namelist():
            data = old.read(entry)
            new.writestr(entry, json.dumps(changed(json.loads(data))) if entry == "config.json" else data)


def test_a_saved_model_that_a_file_names_is_not_loaded(tmp_path):
    """A SavedModel is a program. Keras's own TFSMLayer refuses in the same way."""
    model = keras.Sequential([keras.Input((3,)), HubLayer(save_toy(tmp_path / "toy"))])
    model.save(tmp_path / "whole.keras")
    _rewritten(tmp_path / "whole.keras", tmp_path / "changed.keras", "handle", str(tmp_path / "theirs"))
    config = keras.saving.serialize_keras_object(model)
    for load in (
        lambda: keras.models.load_model(tmp_path / "changed.keras"),
        lambda: keras.saving.deserialize_keras_object(config),
        lambda: keras.models.model_from_json(model.to_json()),
        lambda: keras.Sequential.from_config(model.get_config()),
    ):
        with pytest.raises(ValueError, match="a program that could do anything"):
            load()
