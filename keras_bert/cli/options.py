"""Options that several commands have, and the commands that read texts and write results."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from keras_bert.cli import models, streams
from keras_bert.cli.errors import Misuse

_MODEL_HELP = "The model: the name of an installed preset, a directory, or hf://org/name."

file_option = click.option("--file", metavar="FILE", help="Read texts from FILE, one per line; - is standard input.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace FILE of --output if it exists.")
# The name of a preset, and its directory.
handle_option = click.option("--preset", default="all-MiniLM-L6-v2", metavar="MODEL", help=_MODEL_HELP)
preset_option = click.option(
    "--preset", default="all-MiniLM-L6-v2", callback=models.find_preset, metavar="MODEL", help=_MODEL_HELP
)
batch_tokens_option = click.option(
    "--batch-tokens",
    type=int,
    default=1024,
    help="The most tokens in a batch, padding included. A longer text is a batch of its own.",
)

skip_bad_option = click.option(
    "--skip-bad", is_flag=True, help="Leave out rows that cannot be used, and print their number."
)
prompt_option = click.option(
    "--prompt",
    metavar="NAME",
    help='The name of the model\'s prompt to put before each text, such as query; "" for none. By default, the '
    "model's default prompt.",
)


def values_by_column(_: click.Context, option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, list[str]]:
    """Parses COLUMN=VALUE, which may be repeated: the values of each column."""
    columns: dict[str, list[str]] = {}
    for each in pairs:
        column, sign, value = each.partition("=")
        if not sign:
            raise Misuse(f"{option.opts[0]} {each}: expected COLUMN=VALUE, such as language=en")
        columns.setdefault(column, []).append(value)
    return columns


def together(*options: Callable[[Callable], Callable]) -> Callable[[Callable], Callable]:
    """Combines options into one decorator."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


texts_argument = click.argument("text", nargs=-1)


def texts_to(*formats: str, preset: bool = True, texts: Callable = texts_argument) -> Callable[[Callable], Callable]:
    """The arguments and options of a command that reads texts and writes one of these formats, by default the first.

    The command gets the input `lines`, the open output `results`, the `output_format`, and, if `preset`, the preset.
    """
    options = together(texts, file_option, *([preset_option] if preset else []), output_options(*formats))

    def add_to(command: Callable) -> Callable:
        @functools.wraps(command)
        def with_files(text: tuple[str, ...], file: str | None, output: str | None, overwrite: bool, **more) -> None:
            lines = streams.open_texts(text, file)
            with streams.open_output(output, overwrite) as results:
                command(lines=lines, results=results, **more)

        return options(with_files)

    return add_to


def output_options(*formats: str) -> Callable[[Callable], Callable]:
    """The options for an output in one of these formats: `output_format`, `output` and `overwrite`."""
    formats_help = f"The format to write. By default that of the name of FILE in --output, else {formats[0]}."
    return together(
        click.option(
            "--format", "output_format", type=click.Choice(formats), callback=_choose_format, help=formats_help
        ),
        output_option(is_eager=True),
        overwrite_option,
    )


def output_option(**settings: Any) -> Callable[[Callable], Callable]:
    return click.option(
        "--output", metavar="FILE", help="Write to FILE; after an error, no file is written.", **settings
    )


def _choose_format(ctx: click.Context, parameter: click.Parameter, given: str | None) -> str:
    output = ctx.params.get("output")  # --output is eager: it is known by now
    formats = parameter.type.choices
    chosen = given or streams.format_of(output, formats, f"choose --format {' or '.join(formats)}")
    if chosen == "npy" and output in (None, "-"):
        raise Misuse("the format npy needs --output FILE")
    return chosen
