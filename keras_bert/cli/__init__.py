"""The `keras-bert` command, one file a subcommand. Only a subcommand that runs imports TensorFlow, --help does not."""

import errno
import os

import click

import keras_bert
from keras_bert.cli import interrupts, quiet
from keras_bert.cli.attention import attention
from keras_bert.cli.convert import convert
from keras_bert.cli.detokenize import detokenize
from keras_bert.cli.distill import distill
from keras_bert.cli.embed import embed
from keras_bert.cli.encode import encode
from keras_bert.cli.evaluate import evaluate
from keras_bert.cli.export import export
from keras_bert.cli.fill import fill
from keras_bert.cli.finetune import finetune
from keras_bert.cli.inspect import inspect
from keras_bert.cli.launch import launch
from keras_bert.cli.predict import predict
from keras_bert.cli.pretrain import pretrain
from keras_bert.cli.project import project
from keras_bert.cli.senses import senses
from keras_bert.cli.serve import serve
from keras_bert.cli.similarity import similarity
from keras_bert.cli.streams import Misuse, one_line
from keras_bert.cli.summary import summary
from keras_bert.cli.tokenize import tokenize
from keras_bert.cli.vocab import vocab


class _Commands(click.Group):
    """A group whose commands end with one line, not with a traceback, when a file fails them or Ctrl-C comes."""

    def invoke(self, ctx: click.Context) -> object:
        try:
            with interrupts.end_the_command():
                return super().invoke(ctx)
        except OSError as error:
            if error.errno == errno.EPIPE:  # `| head` has read enough; click ends quietly
                raise
            if isinstance(error, FileNotFoundError):
                raise Misuse(f"{error.filename}: {error.strerror}" if error.filename else one_line(error)) from error
            raise click.ClickException(f"{error.filename or 'output'}: {error.strerror or error}") from error


_COMMANDS = [encode, embed, project, tokenize, detokenize, similarity, senses, attention]
_COMMANDS += [finetune, evaluate, predict, fill, vocab, pretrain, distill, launch]
_COMMANDS += [inspect, summary, convert, export, serve]


@click.group(
    cls=_Commands,
    commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(keras_bert.__version__, prog_name="keras-bert")
@click.pass_context
def main(ctx: click.Context) -> None:
    """BERT on the command line: text to pieces, to ids, to vectors; and models to servers.

    A command that reads texts takes them from its arguments, from --file, or from a pipe, one text a line. An empty
    line is an empty text, so that line N of the input is always line N of the output.

    \b
    Example:
      $ keras-bert tokenize --format ids "I love pizza" | keras-bert detokenize
      i love pizza
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"  # which these commands need, whatever Keras is set to elsewhere
    ctx.with_resource(quiet.python_warnings())
