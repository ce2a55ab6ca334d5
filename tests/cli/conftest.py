import functools
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result

import keras_bert
from keras_bert import BertConfig, text
from keras_bert.cli import main
from keras_bert.formats import write_config
from keras_bert.tasks import registry

from ..support import small
from ..support.commands import KINDS, QUICK_PRETRAINING, SIZES, invoke, write_documents


@pytest.fixture(scope="package", autouse=True)
def _each_model_loaded_once():  # and only for the tests in this folder
    with pytest.MonkeyPatch.context() as patch:
        for model in (keras_bert.BertSentenceEncoder, keras_bert.BertMaskedLM, text.WordPieceTokenizer):
            patch.setattr(model, "from_preset", functools.cache(model.from_preset))
        patch.setattr(registry, "load_task", functools.cache(registry.load_task))
        yield


@pytest.fixture(scope="package", autouse=True)
def _untraced():
    """Runs tf.functions eagerly: tracing takes longer than a few calls."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(True)
    yield
    tf.config.run_functions_eagerly(False)


@pytest.fixture
def traced():
    """Traces functions, as a process does: for many steps, and for numbers like a process's to the last bit."""
    import tensorflow as tf

    tf.config.run_functions_eagerly(False)
    yield
    tf.config.run_functions_eagerly(True)


@pytest.fixture
def run(small_preset):
    """Runs a command by `invoke`: run("encode", "a cat", input=b"the content of a pipe").

    If the command has a preset by default, that is the small one, except with `small=False`.
    """

    def run(*arguments: object, small: bool = True, **settings) -> Result:
        command = main.commands.get(arguments[0]) if arguments else None
        if (
            small
            and command
            and any(option.name == "preset" and isinstance(option.default, str) for option in command.params)
        ):
            arguments = (arguments[0], "--preset", small_preset, *arguments[1:])
        return invoke(*arguments, **settings)

    return run


@pytest.fixture
def fails(run):
    """Runs a command that must fail with exit code 2 and one line, which it returns without its `Error: `."""

    def fails(*arguments: object, exit_code: int = 2, **settings) -> str:
        result = run(*arguments, exit_code=exit_code, **settings)
        assert result.stdout == ""
        # TensorFlow's warnings about many models in a process come from the tests' process, not from the command.
        (line,) = (line for line in result.stderr.splitlines() if not line.startswith("WARNING:tensorflow:"))
        assert line.startswith("Error: ")
        return line.removeprefix("Error: ")

    return fails


@pytest.fixture(scope="session")
def untrained(tmp_path_factory) -> str:
    """The directory of an encoder of one layer with the small vocabulary, to train."""
    import keras

    keras.utils.set_random_seed(3)
    directory = tmp_path_factory.mktemp("untrained")
    keras_bert.BertEncoder(BertConfig(vocab_size=len(small.VOCABULARY), initializer_range=0.2, **SIZES)).save_preset(
        directory
    )
    small.tokenizer().save_preset(directory)
    return str(directory)


@pytest.fixture(scope="session")
def classifier(untrained, tmp_path_factory) -> str:
    """The directory of an untrained classifier."""
    import keras

    directory = tmp_path_factory.mktemp("classifier") / "model"
    keras.utils.set_random_seed(2)  # a new head that gives each answer at times, and none by a hair
    keras_bert.BertClassifier.from_preset(untrained, labels=list(KINDS)).save_preset(directory)
    return str(directory)


@pytest.fixture(scope="session")
def table(tmp_path_factory) -> str:
    """Sentences of two kinds of words, as a TSV file."""
    generator = np.random.default_rng(0)
    rows = [(" ".join(generator.choice(KINDS[kind], 3)), kind) for kind in generator.choice(list(KINDS), 64)]
    path = tmp_path_factory.mktemp("table") / "train.tsv"
    path.write_text("sentence\tkind\n" + "".join(f"{text}\t{kind}\n" for text, kind in rows))
    return str(path)


@pytest.fixture
def corpus(tmp_path, small_preset) -> tuple[Path, dict[str, str]]:
    """A folder with text, and options of a quick run of `pretrain` on it."""
    (tmp_path / "texts").mkdir()
    for seed, name in enumerate(("texts/a.txt", "texts/b.txt", "held.txt")):
        write_documents(tmp_path / name, 12, seed)
    config = BertConfig(vocab_size=len(small.VOCABULARY), **{**SIZES, "max_positions": 24})
    write_config(tmp_path / "config.json", config)
    paths = {"--size": "config.json", "--output": "model", "--eval": "held.txt"}
    paths = {option: str(tmp_path / name) for option, name in paths.items()}
    return tmp_path, {**QUICK_PRETRAINING, "--vocab": str(small_preset), **paths}
