import functools

import pytest
from click.testing import CliRunner, Result

from keras_bert import BertSentenceEncoder
from keras_bert.cli import main
from keras_bert.text import WordPieceTokenizer


@pytest.fixture(scope="package", autouse=True)
def _each_model_loaded_once():  # and only for the tests in this folder
    with pytest.MonkeyPatch.context() as patch:
        for model in (BertSentenceEncoder, WordPieceTokenizer):
            patch.setattr(model, "from_preset", functools.cache(model.from_preset))
        yield


@pytest.fixture
def run():
    """Runs a command in this process: run("encode", "a cat", input=b"what a pipe would bring")."""

    def run(*arguments: str, input: bytes = b"") -> Result:
        return CliRunner().invoke(main, arguments, input=input, catch_exceptions=False)

    return run


@pytest.fixture
def fails(run):
    """Runs a command that must fail with exit code 2 and one line, which it returns without its `Error: `."""

    def fails(*arguments: str, input: bytes = b"", exit_code: int = 2) -> str:
        result = run(*arguments, input=input)
        assert result.exit_code == exit_code, result.output
        assert result.stdout == ""
        # What TensorFlow says when a process has made many models is of the tests' process, not of the command.
        (line,) = (line for line in result.stderr.splitlines() if not line.startswith("WARNING:tensorflow:"))
        assert line.startswith("Error: ")
        return line.removeprefix("Error: ")

    return fails
