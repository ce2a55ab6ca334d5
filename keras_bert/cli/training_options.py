"""How the commands train: the recipe, the devices, and the type to compute in."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from keras_bert.cli.errors import Misuse, one_line
from keras_bert.cli.options import together
from keras_bert.fields import types_of

if TYPE_CHECKING:
    import tensorflow as tf

strategy_option = click.option(
    "--strategy",
    type=click.Choice(["auto", "one", "mirrored", "multi_worker", "tpu"]),
    default="auto",
    show_default=True,
    help="The devices to train on; see `launch` for several processes.",
)
dtype_option = click.option(
    "--dtype",
    type=click.Choice(["float32", "mixed_bfloat16", "mixed_float16"]),
    default="float32",
    show_default=True,
    help="The dtype policy of training; the weights stay float32.",
)


def recipe_options(kind: type, without: str = "", name: str = "recipe") -> Callable[[Callable], Callable]:
    """An option for each field of a recipe, except `without`. The command gets the checked recipe as `name`."""
    fields = [field for field in dataclasses.fields(kind) if field.name != without]

    def add_to(command: Callable) -> Callable:
        @functools.wraps(command)
        def with_recipe(**options: Any) -> Any:
            try:
                recipe = kind(**{field.name: options.pop(field.name) for field in fields})
            except ValueError as error:
                raise Misuse(str(error)) from error
            return command(**{name: recipe}, **options)

        return together(*(_option(field, types_of(kind)[field.name].kind) for field in fields))(with_recipe)

    return add_to


def _option(field: dataclasses.Field, kind: type) -> Callable[[Callable], Callable]:
    settings: dict[str, Any] = {"type": kind, "help": field.metadata["help"]}
    if settings["type"] is Mapping:
        help = f"{settings['help']}  [may be repeated]"
        settings = {"multiple": True, "callback": _weights, "metavar": "LABEL=NUMBER", "help": help}
    if field.default is dataclasses.MISSING:
        settings["required"] = True
    elif field.default is not None:
        settings |= {"default": field.default, "show_default": True}
    name = field.metadata["option"] or field.name
    return click.option(f"--{name.replace('_', '-')}", field.name, **settings)


def _weights(_: click.Context, option: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    weights = {}
    for each in given:
        label, _, number = each.rpartition("=")
        try:
            weights[label] = float(number)
        except ValueError:
            raise Misuse(f"{option.opts[0]} {each}: expected LABEL=NUMBER, such as positive=2.5") from None
    return weights


def devices(kind: str) -> tf.distribute.Strategy:
    """The strategy to train with. Prints a line if it has several devices."""
    from keras_bert.training.strategy import choose

    try:
        found, told = choose(kind)
    except ValueError as error:
        raise Misuse(one_line(error)) from error
    if found.num_replicas_in_sync > 1:
        click.echo(f"training on {told}", err=True)
    return found


@contextlib.contextmanager
def computing_with(dtype: str) -> Iterator[None]:
    """Inside this block, models are made with this dtype policy, the value of `--dtype`."""
    import keras

    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
