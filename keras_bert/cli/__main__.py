"""The `keras-bert` command, also `python -m keras_bert.cli`: the list of its subcommands, one file each."""

import errno
import functools
import gc
import importlib
import os
import sys
from typing import Any

import click

import keras_bert
from keras_bert.cli import terminal
from keras_bert.extras import ImportedIn, LighterImports, needing_tensorflow_text

# The module `keras_bert.cli.<name>` defines the command <name>. These run batches of texts side by side, ...
_SIDE_BY_SIDE = ("encode", "embed", "project", "similarity", "index", "search", "duplicates", "mine", "predict", "fill")
# ... and these do other work.
_OTHERS = (
    *("tokenize", "detokenize", "senses", "attention", "finetune", "evaluate", "vocab", "pretrain", "distill"),
    *("launch", "inspect", "summary", "convert", "push", "export", "serve"),
)


class _Commands(click.Group):
    """A group of commands that print one line, not a traceback, after a file error or Ctrl-C."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[terminal.ARGUMENTS] = list(args)  # subcommands have the same `meta`
        return super().parse_args(ctx, args)

    def main(self, *args: Any, **kwargs: Any) -> Any:
        terminal.open_standard_streams()
        try:
            return super().main(*args, **kwargs)
        except OSError as error:  # of what click itself prints, such as --help
            failure = _failure(error)
            failure.show()
            sys.exit(failure.exit_code)
        finally:
            terminal.drop_unwritten_output()

    def invoke(self, ctx: click.Context) -> object:
        try:
            with terminal.end_the_command(), needing_tensorflow_text("this command"):
                return super().invoke(ctx)
        except ImportError as error:
            raise terminal.Misuse(terminal.one_line(error)) from error
        except RuntimeError as error:
            from keras_bert.processes import KilledError  # imports multiprocessing, which no command's help needs

            if not isinstance(error, KilledError):
                raise
            raise terminal.Failure(str(error).partition("\n")[0]) from error  # without the logs of the process
        except OSError as error:
            if error.errno == errno.EPIPE:  # `| head` has read enough: click ends quietly
                raise
            raise _failure(error) from error


def _failure(error: OSError) -> terminal.Failure:
    if isinstance(error, FileNotFoundError):
        return terminal.Misuse(terminal.one_line(error))
    if error.errno == errno.EBADF and not error.filename:
        return terminal.Failure("standard output is closed")
    return terminal.Failure(f"{error.filename or 'output'}: {error.strerror or error}")


@click.group(
    cls=_Commands,
    commands=[getattr(importlib.import_module(f"keras_bert.cli.{name}"), name) for name in _SIDE_BY_SIDE + _OTHERS],
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True},
)
@click.version_option(keras_bert.__version__, prog_name="keras-bert")
@click.pass_context
def main(ctx: click.Context) -> None:
    """BERT on the command line: tokens and vectors of texts; models to train, to export and to serve.

    Texts come from arguments, from --file, or from a pipe, one text per line. An empty line is an empty text: line N of
    the output always belongs to line N of the input.

    \b
    Example:
      $ keras-bert tokenize --format ids "I love pizza" | keras-bert detokenize
      i love pizza
    """
    os.environ["KERAS_BACKEND"] = "tensorflow"  # over the setting in Keras's configuration file
    if ctx.invoked_subcommand in _SIDE_BY_SIDE:  # up to 8 batches; within one, cores would wait for each other
        os.environ.setdefault("TF_NUM_INTRAOP_THREADS", str(max(1, (os.cpu_count() or 1) // 8)))
    # Importing TensorFlow and tracing make millions of objects, hardly any of them garbage. With Python's default
    # threshold, garbage collection takes a tenth of a short command's time.
    gc.set_threshold(50_000, 10, 10)
    for finder in (ImportedIn("tensorflow", terminal.quiet_imports), LighterImports):
        sys.meta_path.insert(0, finder)
        ctx.call_on_close(functools.partial(sys.meta_path.remove, finder))
    ctx.with_resource(terminal.python_warnings())


if __name__ == "__main__":
    main(prog_name="keras-bert")
