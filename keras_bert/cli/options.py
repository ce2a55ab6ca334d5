"""Options that several commands have, and the commands that read texts and write results."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import click

from keras_bert.cli import models, streams
from keras_bert.cli.errors import Misuse, misuse
from keras_bert.recipe import type_of

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

prompt_option = click.option(
    "--prompt",
    metavar="NAME",
    help='The name of the model\'s prompt to put before each text, such as query; "" for none. By default, the '
    "model's default prompt.",
)


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


# -- The recipe of a training run.


def recipe_options(kind: type, without: str = "", **defaults: Any) -> Callable[[Callable], Callable]:
    """An option for each field of a recipe, except `without`. Its values are checked before the command starts."""
    fields = [field for field in dataclasses.fields(kind) if field.name != without]

    def add_to(command: Callable) -> Callable:
        @functools.wraps(command)
        def checked(**options: Any) -> Any:
            with misuse():
                kind(**{field.name: options[field.name] for field in fields})
            return command(**options)

        return together(*(_option(field, defaults) for field in fields))(checked)

    return add_to


def _option(field: dataclasses.Field, defaults: Mapping[str, Any]) -> Callable[[Callable], Callable]:
    kind, choices = type_of(field), field.metadata["choices"]
    settings: dict[str, Any] = {"type": click.Choice(choices) if choices else kind, "help": field.metadata["help"]}
    if kind is bool:
        settings = {"is_flag": True, "help": field.metadata["help"]}
    elif kind is Mapping:
        help = f"{settings['help']}  [may be repeated]"
        settings = {"multiple": True, "callback": _weights, "metavar": "LABEL=NUMBER", "help": help}
    default = defaults.get(field.name, field.default)
    if default is dataclasses.MISSING:
        settings["required"] = True
    elif default is not None and kind is not bool:
        settings |= {"default": default, "show_default": True}
    names = [field.name] if not field.metadata["option"] else [field.metadata["option"], field.name]
    return click.option(*(f"--{name.replace('_', '-')}" for name in names), field.name, **settings)


def _weights(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    weights = {}
    for each in given:
        label, _, number = each.rpartition("=")
        try:
            weights[label] = float(number)
        except ValueError:
            raise Misuse(f"{option.opts[0]} {each}: expected LABEL=NUMBER, such as positive=2.5") from None
    return weights
