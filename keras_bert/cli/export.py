"""Export a model to TF Hub, TF Serving or another runtime.

\b
Examples:
  $ keras-bert export preprocessor --output saved_models/preprocessor
  $ keras-bert export encoder --preset my-bert --output saved_models/encoder
  $ keras-bert export serving --output saved_models/minilm
  $ keras-bert export serving --preset bert-books --task fill --output saved_models/bert-books
  $ keras-bert export onnx --precision int8 --output minilm-onnx
  $ keras-bert export --check saved_models/minilm
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click

import keras_bert
from keras_bert import files, precisions
from keras_bert.choices import SIGNATURES
from keras_bert.cli import options
from keras_bert.cli.terminal import Failure, Misuse, echo, errors_in_one_line, misuse, one_line
from keras_bert.runtime_table import RUNTIMES
from keras_bert.task_table import PRETRAINED

_SAVED_MODEL = "saved_model.pb"  # every SavedModel has this file
_options = options.together(  # for all exports
    click.option("--output", metavar="DIR", required=True, help="Write into DIR; an error leaves no files."),
    click.option("--overwrite", is_flag=True, help="Replace an earlier export in DIR."),
)
_signature = click.option(
    "--signature",
    type=click.Choice(SIGNATURES),
    help="Name inputs and outputs for clients of another library: transformers' TensorFlow models took input_ids, "
    "attention_mask and token_type_ids, and gave last_hidden_state and pooler_output, or logits.",
)
_dtype = click.option(
    "--dtype",
    type=click.Choice(precisions.SAVED_MODELS),
    help="The type to store the weights in. 16 bits halve the size, but make every call slower.",
)
_task = click.option(
    "--task",
    type=click.Choice([*PRETRAINED]),
    help="What the model does: encode texts as vectors, fill masks, or score whether a text follows another. By "
    "default what the preset was fine-tuned for, else encode.",
)
_length = click.option(
    "--sequence-length", type=int, help="Tokens per row, with one row at a time. By default any size."
)
_RUNTIME_HELP = """\
Export a model for {users}: ids to answers.

A fine-tuned preset has its task's outputs; any other has sentence vectors, or does the --task. The outputs are compared
with Keras's; if they differ by more than the precision explains, nothing is written.
"""


@click.group(invoke_without_command=True, help=__doc__)
@click.option("--check", metavar="DIR", help="Check that TF Serving can serve DIR, an export.")
@click.pass_context
def export(ctx: click.Context, check: str | None) -> None:
    if bool(check) == bool(ctx.invoked_subcommand):
        raise Misuse(f"give a command ({', '.join(export.commands)}), or --check DIR alone")
    if not check:
        return
    if not Path(check).is_dir():
        raise Failure(f"there is no directory {check}")
    from keras_bert.saved_model.check import check_serving

    try:
        for line in check_serving(check):
            echo(line)
    except (OSError, ImportError, ValueError) as error:
        raise Failure(one_line(error)) from error


@export.command()
@_options
@options.tokenizer_option
@click.option(
    "--sequence-length", type=int, help="The number of tokens per row, by default 128; 0: that of the longest text."
)
def preprocessor(preset: Path, output: str, sequence_length: int | None, overwrite: bool) -> None:
    """Export a preprocessor: strings to the encoder's inputs.

    The inputs are input_word_ids, input_mask and input_type_ids; .tokenize and .bert_pack_inputs work as on TF Hub.
    """
    _check_output(output, _SAVED_MODEL, overwrite)
    from keras_bert.saved_model import export_preprocessor

    length: dict[str, Any] = {} if sequence_length is None else {"sequence_length": sequence_length or None}
    with errors_in_one_line(output):
        export_preprocessor(keras_bert.BertPreprocessor.from_preset(preset, **length), output, overwrite)
    _echo_size(output)


@export.command()
@_options
@options.preset_option
@_dtype
@_signature
@options.precision_options
def encoder(
    preset: Path, output: str, dtype: str | None, overwrite: bool, signature: str | None, **numeric: Any
) -> None:
    """Export an encoder, for inference and training; below float32, for inference only.

    It has .mlm if the preset has a masked language modeling head.
    """
    _check_output(output, _SAVED_MODEL, overwrite)
    from keras_bert.formats import open_checkpoint
    from keras_bert.saved_model import export_encoder

    with errors_in_one_line(output):
        with open_checkpoint(preset) as checkpoint:
            has_masked_lm = "masked_lm" in checkpoint.heads
        if has_masked_lm:
            model = options.load_in_precision(keras_bert.BertMaskedLM.from_preset, preset, **numeric)
        elif numeric["precision"] == "float32":
            model = options.load_in_precision(keras_bert.BertEncoder.from_preset, preset, **numeric)  # no tokenizer
        else:
            model = options.load_in_precision(keras_bert.BertSentenceEncoder.from_preset, preset, **numeric).encoder
        export_encoder(model, output, dtype, overwrite, signature)
    _echo_size(output)


@export.command()
@_options
@options.preset_option
@_task
@click.option("--version", type=click.IntRange(1), help="The version; by default, the highest in DIR plus 1.")
@_dtype
@options.prompt_option
@_signature
@click.option(
    "--dimensions",
    metavar="N,...",
    callback=options.parse_numbers,
    help="Sizes to which clients may shorten vectors, such as 256,128; by default those that config.json names.",
)
@options.threshold_option
@options.precision_options
@options.calibration_columns
def serving(
    preset: Path,
    output: str,
    task: str | None,
    version: int | None,
    dtype: str | None,
    prompt: str | None,
    overwrite: bool,
    signature: str | None,
    dimensions: tuple[int, ...],
    no_answer_threshold: float | None,
    **numeric: Any,
) -> None:
    """Export a model for TF Serving: strings to answers.

    Writes DIR/<version>/, which `keras-bert serve` serves too. A fine-tuned preset answers as `predict` does; any other
    gives sentence vectors, with the prompt before each text, or does the --task. With --signature, it takes ids, needs
    no tokenizer, and gives the logits of all heads of the preset, or the hidden states if there are none.
    """
    if signature is not None and (prompt or task or no_answer_threshold is not None):
        raise Misuse("--prompt, --task and --no-answer-threshold are for texts; a model with --signature takes ids")
    if numeric["calibration"] is None and (numeric["text_column"] or numeric["text_pair_column"]):
        raise Misuse("--text-column and --text-pair-column are for a table of --calibration")
    options.check_prompts(preset, prompt)
    threshold = options.threshold_argument(preset, no_answer_threshold)
    with misuse(OSError):
        files.check_writable(output)
        if version is not None:
            files.refuse_to_replace(Path(output, str(version)), _SAVED_MODEL, overwrite)
    from keras_bert.saved_model import export_serving
    from keras_bert.saved_model.transformers_signature import HeadedEncoder

    with errors_in_one_line(output):
        found = HeadedEncoder if signature else _class_for(task, preset)
        settings: dict[str, Any] = threshold if prompt is None else {"default_prompt": prompt}
        try:
            model = options.load_in_precision(functools.partial(found.from_preset, **settings), preset, **numeric)
        except TypeError as error:
            raise Misuse(f"{preset} is exported as a {found.__name__}, which takes no {', '.join(settings)}") from error
        with misuse(TypeError):
            path = export_serving(model, output, version, dtype, overwrite, signature, dimensions or None)
    _echo_size(path)


def _add_runtime(name: str) -> None:
    """Adds the command of a runtime, which calls its function of `keras_bert.runtimes`."""
    runtime = RUNTIMES[name]

    @export.command(name, help=_RUNTIME_HELP.format(users=runtime.users))
    @_options
    @options.preset_option
    @click.option(
        "--precision",
        type=click.Choice(precisions.EXPORTS),
        default="float32",
        help="The type to store the weights in; fewer bits make a smaller file.",
    )
    @_task
    @click.option("--encoder", is_flag=True, help="Export the encoder alone: hidden states instead of answers.")
    @options.threshold_option
    @(_length if runtime.has_fixed_length else options.together())
    def command(
        output: str, preset: Path, task: str | None, encoder: bool, precision: str, overwrite: bool,
        no_answer_threshold: float | None, **settings: Any,
    ) -> None:  # fmt: skip
        if encoder and (task or no_answer_threshold is not None):
            raise Misuse("--task and --no-answer-threshold are for answers, and --encoder exports hidden states")
        _check_output(output, runtime.file, overwrite)
        threshold = options.threshold_argument(preset, no_answer_threshold)
        with errors_in_one_line(output):
            if encoder:
                model = keras_bert.BertEncoder.from_preset(preset)
                settings["preprocessor"] = keras_bert.BertPreprocessor.from_preset(preset)
            else:
                model = _class_for(task, preset).from_preset(preset, **threshold)
            differences = runtime.export(model, output, precision, overwrite, **settings)
            for each in differences:
                echo(str(each))
            if not differences:
                echo(f"not compared with Keras: pip install {runtime.package}", err=True)
        _echo_size(output)


for _name in RUNTIMES:
    _add_runtime(_name)


def _check_output(output: str, mark: str, overwrite: bool) -> None:
    """Raises Misuse if an export cannot be written, or would replace a directory that lacks the file `mark`."""
    with misuse(OSError):
        files.check_writable(output)
        files.refuse_to_replace(Path(output), mark, overwrite)


def _class_for(task: str | None, preset: Path) -> Any:
    """Finds the class of the model to export, by --task, or by the preset."""
    from keras_bert.tasks.registry import task_of

    return getattr(keras_bert, PRETRAINED[task]) if task else task_of(preset)


def _echo_size(path: str | Path) -> None:
    """Prints the path and the size of an export."""
    size = sum(each.stat().st_size for each in Path(path).rglob("*") if each.is_file())
    echo(f"{path}: {size / 1e6:.1f} MB")
