"""Options of several commands, and the functions that load what they name: models, and files of examples."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click
from click.core import ParameterSource

from keras_bert import files, precisions
from keras_bert.cli import streams
from keras_bert.cli.terminal import Misuse, echo, misuse, without_advice
from keras_bert.config import FieldType, types_of
from keras_bert.data import table_formats, tables
from keras_bert.data.task_files import AnswerFiles, ChooseFiles, ClassifyFiles, TableFiles

if TYPE_CHECKING:
    from keras_bert.tasks.base.task import BertTask

Model = TypeVar("Model", bound="BertTask")


def find_preset(ctx: click.Context, parameter: click.Parameter, handle: str | None) -> Path | None:
    """Finds the directory of a model's handle, as a callback of click. Raises Misuse like `directory_of`."""
    return None if handle is None else directory_of(handle)


def find_model(ctx: click.Context, parameter: click.Parameter, handle: str) -> Path | None:
    """Finds a model like `find_preset`, of a command whose other arguments are texts or files."""
    check_is_first(ctx, parameter, handle)
    return find_preset(ctx, parameter, handle)


def check_is_first(ctx: click.Context, parameter: click.Parameter, given: str) -> str:
    """Returns the first argument, a directory. Raises Misuse if it is missing, so that a text or a file is first."""
    if os.path.isfile(given) or (re.search(r"\s", given) and not os.path.exists(given)):  # False for a long text
        name, usage = parameter.make_metavar(ctx), ctx.get_usage().partition(": ")[2]
        what = "a file" if os.path.isfile(given) else "a text"
        raise Misuse(f"{given!r:.60} is {what}, and {name}, which comes first, is missing: {' '.join(usage.split())}")
    return given


def directory_of(handle: str) -> Path:
    """Finds the directory of a model's handle. Raises Misuse if its configuration cannot be read."""
    from keras_bert.formats import Preset, recognition

    with misuse(OSError):
        if os.path.isfile(handle):
            what = recognition.recognize(Path(handle)).title
            raise Misuse(f"{handle!r} is a file, {what}; a preset is the directory that holds the files")
        preset = Preset(handle)
        preset.check()
    return preset.home / (preset.saved_model or "")


def _check_handle(ctx: click.Context, parameter: click.Parameter, handle: str) -> str:
    """Checks a model's handle as `find_preset` does, but returns the handle itself."""
    find_preset(ctx, parameter, handle)
    return handle


def _find_tokenizer(ctx: click.Context, parameter: click.Parameter, handle: str) -> Path:
    """Finds the directory of a tokenizer's handle, as a callback of click. Raises Misuse without a vocabulary."""
    from keras_bert.formats import Preset

    with misuse(OSError):
        preset = Preset(handle)
        preset.tokenizer_files.find_vocabulary()
    return preset.home


def check_prompts(preset: Path, *names: str | None) -> None:
    """Raises Misuse if a model lacks a prompt."""
    from keras_bert.formats import Preset
    from keras_bert.formats.libraries import sentence_transformers

    with misuse(OSError):
        for name in filter(None, names):
            sentence_transformers.check_prompt(name, Preset(preset).sentence_settings.prompts)


# -- Options.


def given_options(ctx: click.Context) -> dict[str, str]:
    """Maps the parameters of the options on the command line to what they are called there."""
    return {
        str(each.name): each.opts[0]
        for each in ctx.command.params
        if isinstance(each, click.Option) and ctx.get_parameter_source(str(each.name)) is ParameterSource.COMMANDLINE
    }


def together(*options: Callable[[Callable], Callable]) -> Callable[[Callable], Callable]:
    """Combines options into one decorator."""
    return lambda command: functools.reduce(lambda inner, option: option(inner), reversed(options), command)


_MODEL_HELP = "The model: the name of an installed preset, a directory, or hf://org/name."

file_option = click.option("--file", metavar="FILE", help="Read texts from FILE, one per line; - is standard input.")
raw_cells_option = click.option(
    "--raw-cells",
    is_flag=True,
    expose_value=False,
    callback=lambda ctx, _, value: ctx.meta.__setitem__(streams.RAW_CELLS, value),
    help="In CSV and TSV, write texts that begin with =, +, - or @ as they are; by default a ' before them keeps "
    "spreadsheets from computing them.",
)
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace FILE of --output if it exists.")
# --preset in three forms: the command gets the handle of a model, its directory, or the directory of a tokenizer.
handle_option, preset_option, tokenizer_option = (
    click.option("--preset", default="all-MiniLM-L6-v2", callback=callback, metavar="MODEL", help=_MODEL_HELP)
    for callback in (_check_handle, find_preset, _find_tokenizer)
)
batch_tokens_option = click.option(
    "--batch-tokens",
    type=click.IntRange(1),
    default=1024,
    help="The most tokens in a batch, padding included. A longer text is a batch of its own.",
)

calibration_columns = together(
    click.option("--text-column", metavar="C", help="The column of the texts in a table of --calibration."),
    click.option("--text-pair-column", metavar="C", help="The column of the second texts there, for pairs."),
)

text_column_option = click.option("--text-column", default="text", metavar="C", help="The column of the texts.")
skip_bad_option = click.option(
    "--skip-bad", is_flag=True, help="Leave out rows that cannot be used, and print their number."
)
# Of a command that encodes the rows of a corpus.
corpus_options = together(text_column_option, handle_option, skip_bad_option, batch_tokens_option)
prompt_option = click.option(
    "--prompt",
    metavar="NAME",
    help='The name of the model\'s prompt to put before each text, such as query; "" for none. By default, the '
    "model's default prompt.",
)


_CONDITION = re.compile(r"(.*?)(>=|<=|=|>|<)(.*)", re.DOTALL)


def filter_of(_: click.Context, option: click.Parameter, conditions: tuple[str, ...]) -> dict[str, Any]:
    """Parses repeated COLUMN=VALUE, COLUMN>=VALUE and so on into a filter of rows, as a callback of click."""
    columns: dict[str, Any] = {}
    for each in conditions:
        if any("\ud800" <= character <= "\udfff" for character in each):  # Python turns other bytes to surrogates
            raise Misuse(f"{option.opts[0]} {each!a} is not UTF-8, as the texts of an index are")
        if not (match := _CONDITION.fullmatch(each)):
            raise Misuse(f"{option.opts[0]} {each}: expected COLUMN=VALUE, such as language=en, or 'year>=2025'")
        column, sign, value = match.groups()
        known = columns.setdefault(column, [] if sign == "=" else {})
        if isinstance(known, list) != (sign == "=") or sign in known:
            raise Misuse(f"{option.opts[0]} {each}: {column} has another condition already")
        known.extend(_values_in(value, option)) if sign == "=" else known.update({sign: value})
    return columns


def _values_in(value: str, option: click.Parameter) -> list[str]:
    """Lists a value, or those in the lines of a file, which `--remove` takes as @FILE."""
    if option.name != "remove" or not value.startswith("@"):
        return [value]
    if values := [line for line in streams.open_texts((), value[1:] or "-").parsed() if line]:
        return values
    raise Misuse(f"{value[1:]} is empty; expected a value in each line")


texts_argument = click.argument("text", nargs=-1)


def texts_to(
    *formats: str, preset: Callable | None = preset_option, texts: Callable = texts_argument
) -> Callable[[Callable], Callable]:
    """Adds input texts and an output in one of `formats`: the command gets `lines`, `results` and `output_format`."""
    options = together(texts, file_option, *([preset] if preset else []), output_options(*formats))

    def add_to(command: Callable) -> Callable:
        @functools.wraps(command)
        def with_files(text: tuple[str, ...], file: str | None, output: str | None, overwrite: bool, **more) -> None:
            lines = streams.open_texts(text, file)
            with streams.open_output(output, overwrite) as results:
                command(lines=lines, results=results, **more)

        return options(with_files)

    return add_to


def output_options(*formats: str) -> Callable[[Callable], Callable]:
    """Adds the options of an output in one of `formats`: `output_format`, `output` and `overwrite`."""
    formats_help = f"The format to write. By default that of the name of FILE in --output, else {formats[0]}."
    return together(
        *([raw_cells_option] if "csv" in formats else []),
        click.option(
            "--format", "output_format", type=click.Choice(formats), callback=_choose_format, help=formats_help
        ),
        output_option(is_eager=True),
        overwrite_option,
    )


def output_option(is_eager: bool = False, required: bool = False) -> Callable[[Callable], Callable]:
    return click.option(
        "--output",
        metavar="FILE",
        help="Write to FILE; after an error, no file is written.",
        is_eager=is_eager,
        required=required,
    )


def _choose_format(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str:
    output = ctx.params.get("output")  # --output is eager, so click has parsed it already
    formats = cast("click.Choice", parameter.type).choices
    chosen = value or streams.format_of(output, formats, f"choose --format {' or '.join(formats)}")
    if chosen == "npy" and output in (None, "-"):
        raise Misuse("the format npy needs --output FILE")
    return chosen


# -- The fields of a recipe, or of the files of a task.


def field_options(
    kind: type, without: Collection[str] = (), only: Collection[str] = (), **defaults: object
) -> Callable[[Callable], Callable]:
    """Adds an option for each field of a dataclass of settings, or for some, maybe with other defaults."""
    fields, types = kind.__dataclass_fields__, types_of(kind)
    names = [name for name in only or fields if name not in without]
    return together(*(_option(fields[name], types[name], defaults.get(name, fields[name].default)) for name in names))


def _option(field: dataclasses.Field, field_type: FieldType, default: object) -> Callable[[Callable], Callable]:
    kind, metadata = field_type.kind, field.metadata
    choices, metavar, least = metadata["choices"], metadata.get("metavar") or None, metadata.get("least")
    name = (metadata["option"] or field.name).replace("_", "-")
    options = [f"--{name}"]
    settings: dict[str, Any] = {"help": metadata["help"]}
    if kind is bool:
        if field.default is True:  # the option sets it to False
            options = [f"--no-{name}"]
            settings |= {"is_flag": True, "callback": lambda ctx, _, is_off: not is_off}
        elif field_type.may_be_none:  # --few-shot, --no-few-shot, or neither
            options = [f"--{name}/--no-{name}"]
            settings["default"] = None
        else:
            settings["is_flag"] = True
    elif field.default == ():
        settings |= {"callback": parse_numbers} if metavar == "N,..." else {"multiple": True}
        settings["metavar"] = metavar
    else:
        options = list(dict.fromkeys([*options, f"--{field.name.replace('_', '-')}"]))
        if kind is Mapping:
            settings["help"] += "  [may be repeated]"
            settings |= {"multiple": True, "metavar": "|".join(["LABEL=NUMBER", *choices])}
            settings["callback"] = functools.partial(_parse_weights, choices)
        elif least is not None:
            settings |= {"type": (click.FloatRange if kind is float else click.IntRange)(least), "metavar": metavar}
        else:
            settings |= {"type": click.Choice(choices) if choices else kind, "metavar": metavar}
        if default is dataclasses.MISSING:
            settings["required"] = True
        elif default is not None:
            settings |= {"default": default, "show_default": True}
    return click.option(*options, field.name, **settings)


def _parse_weights(
    choices: Sequence[str], ctx: click.Context, option: click.Parameter, pairs: tuple[str, ...]
) -> dict[str, float] | str:
    if len(pairs) == 1 and pairs[0] in choices:
        return pairs[0]
    weights, only = {}, f", or only {' or '.join(choices)}" if choices else ""
    for each in pairs:
        label, _, number = each.rpartition("=")
        try:
            weights[label] = float(number)
        except ValueError:
            raise Misuse(f"{option.opts[0]} {each}: expected LABEL=NUMBER, such as positive=2.5{only}") from None
    return weights


def parse_numbers(ctx: click.Context, option: click.Parameter, text: str | None) -> tuple[int, ...]:
    """Parses positive whole numbers with commas between them. Raises Misuse for anything else."""
    try:
        numbers = tuple(int(each) for each in text.split(",")) if text else ()
    except ValueError:
        numbers = (0,)
    if any(number < 1 for number in numbers):
        raise Misuse(f"{option.opts[0]} is {text}; expected whole numbers with commas, such as 384,128")
    return numbers


precision_option = click.option(
    "--precision",
    type=click.Choice(precisions.INFERENCE),
    default="float32",
    help="The precision of inference. On CPUs, bfloat16 and int8 are faster; answers change a little.",
)
_CALIBRATION = together(
    precision_option,
    click.option(
        "--calibration",
        metavar="FILE",
        help="A few hundred texts to calibrate int8 with, like those that the model will read: one per line, or a "
        "table with the model's columns, which pairs need. By default, the model's saved ranges are used, or a few "
        "built-in sentences, most of them English.",
    ),
)


def precision_options(command: Callable) -> Callable:
    """Adds the options --precision and --calibration. Checks the file of texts before the command starts."""

    @functools.wraps(command)
    def checked(precision: str, calibration: str | None, **options: Any) -> None:
        if calibration is not None and not precisions.PRECISIONS[precision].has_ranges:
            raise Misuse("--calibration is for --precision int8")
        with misuse(OSError):
            if calibration is not None and table_formats.format_of(calibration) is None:
                files.read_text(calibration, may_be_compressed=True)
        command(precision=precision, calibration=calibration, **options)

    return _CALIBRATION(checked)


def load_in_precision(
    from_preset: Callable[[Path], Model],
    preset: Path,
    precision: str,
    calibration: str | None,
    text_column: str | int | None = None,
    text_pair_column: str | int | None = None,
) -> Model:
    """Calls `from_preset(preset)`, and sets the model's precision. Raises Misuse if either is impossible."""
    # The columns are those of a table in `calibration`; by default they are named as the model names its texts.
    columns = {"text": text_column, "text_pair": text_pair_column}
    with misuse(OSError):
        model = from_preset(preset)
        if precision != "float32" and not hasattr(model, "set_precision"):
            raise Misuse(f"--precision is for models of Keras; {preset} is an export, whose precision is fixed")
        if calibration is not None:
            names = {name: str(columns.get(name) or name) for name in model.text_names}
            model.set_precision(precision, _read_calibration_texts(calibration, names))
        elif precision != "float32":
            model.set_precision(precision)
    if precisions.PRECISIONS[precision].has_ranges and model.encoder.inference.ranges.is_built_in:
        message = "int8: calibrated with a few built-in sentences; use --calibration FILE with texts like yours"
        echo(message, err=True)
    return model


def _read_calibration_texts(path: str, names: Mapping[str, str]) -> list[str] | tuple[list[str], ...]:
    """Reads calibration texts, by the model's name of a text -> its column. Raises ValueError or OSError."""
    if table_formats.format_of(path) is not None:
        try:
            rows = [row for _, row in tables.text_rows(path, [*names.values()])]
        except ValueError as error:  # a command's options of tables are for its other file
            raise ValueError(without_advice(str(error))) from None
        columns = [[row[column] for row in rows] for column in names.values()]
    elif len(names) > 1:
        raise ValueError(f"{path}: this model reads {' and '.join(names)}; give a .csv, .tsv or .jsonl of both")
    else:
        columns = [[line for line in files.split_lines(files.read_text(path, may_be_compressed=True)) if line.strip()]]
    return tuple(columns) if len(columns) > 1 else columns[0]


TABLE_OPTIONS = ("format", "delimiter", "sheet", "header")
format_options = field_options(TableFiles, only=TABLE_OPTIONS)
_OF_CHOICES = ("question_column", "choice_columns")
column_options = together(
    field_options(ClassifyFiles, only=("text_column", "text_pair_column")),
    field_options(ChooseFiles, only=_OF_CHOICES),
    format_options,
)
threshold_option = field_options(AnswerFiles, only=("no_answer_threshold",))


_ADVICE_ON_CHOICES = (
    "--choice-column is for a BertMultipleChoice, which needs it, twice or more; --question-column goes with it"
)


def choice_files(settings: Mapping[str, Any]) -> ChooseFiles | None:
    """Makes the settings of multiple choice if its columns are among the options. Raises Misuse for too few choices."""
    given = {name: settings[name] for name in _OF_CHOICES}
    if not given["choice_columns"] and given["question_column"] == ChooseFiles.question_column:
        return None
    if len(given["choice_columns"]) < 2:
        raise Misuse(_ADVICE_ON_CHOICES)
    return ChooseFiles(**given)


def check_choices(task: BertTask, choices: ChooseFiles | None) -> None:
    """Raises Misuse unless columns of choices are given for a model of multiple choice, and for no other."""
    if (task.FILES is ChooseFiles) != (choices is not None):
        raise Misuse(_ADVICE_ON_CHOICES)


def threshold_argument(preset: Path, no_answer_threshold: float | None) -> dict[str, Any]:
    """Makes the argument of `from_preset` that sets a threshold. Raises Misuse unless the preset answers questions."""
    from keras_bert.formats import Preset
    from keras_bert.tasks.registry import heads_of

    if no_answer_threshold is None:
        return {}
    with misuse(OSError), Preset.open(preset) as opened:
        AnswerFiles(no_answer_threshold=no_answer_threshold)
        if "spans" not in heads_of(opened):
            raise Misuse(f"--no-answer-threshold is for question answerers, and {preset} is none")
    return {"no_answer_threshold": no_answer_threshold}
