"""Recipes: the hyper-parameters of training, each with its type, default, limits and help.

These fields make the checks and the documentation of `fine_tune` and `pretrain`, a run's settings and report, and the
command's options. This module imports nothing heavy, for a quick `--help`.
"""

import dataclasses
import inspect
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeVar

from keras_bert.choices import LAYOUTS, MASKED_UNITS, OBJECTIVES
from keras_bert.config import BertConfig, FieldType, types_of

_EXPECTED = {int: "a whole number", float: "a number", str: "a name", bool: "True or False", Mapping: "a dict"}
BALANCED = "balanced"  # class weights by how often each class occurs


class Limits(NamedTuple):
    """What a value may be."""

    text: str  # in messages and help texts
    allows: Callable[[Any], bool] = lambda value: True


_FROM_1 = Limits("1 or more", lambda value: value >= 1)
_FROM_5 = Limits("5 or more", lambda value: value >= 5)
_FROM_0 = Limits("0 or more", lambda value: 0 <= value < math.inf)
_ABOVE_0 = Limits("a number above 0", lambda value: 0 < value < math.inf)
_BETWEEN = Limits("a number between 0 and 1", lambda value: 0 < value < 1)
_SHARE = Limits("a share, 0 to 1", lambda value: 0 <= value <= 1)
_ANY = Limits("")

# The default learning rates of pre-training: (largest hidden size, rate). Smaller models take higher rates, about in
# proportion to 1 / width (Yang et al. 2022, "Tensor Programs V", for Adam).
PRETRAINING_RATES = (
    (128, 1e-3),  # BERT-Tiny: measured, see "Rates" in docs/benchmarks.md
    (256, 5e-4),  # ELECTRA-Small's (Clark et al. 2020, appendix A)
    (512, 2.5e-4),  # half the rate of a model half as wide; not measured
    (math.inf, 1e-4),  # BERT-Base's and BERT-Large's (Devlin et al. 2018, appendix A.2)
)

# How `pretrain_files` trains by default. In short rows, a new model soon learns to attend to the neighbours of a mask;
# see "Short rows" in docs/guides/pre-training.md. A small one begins with them. A third of its steps have longer ones:
# a tenth, with the rate near 0, is too few to learn positions that are new to it.
BATCH_SIZE = 32
_SMALL = 256  # the largest hidden size
_SMALL_SCHEDULE = {"steps": 6500, "batch_size": 64, "sequence_length": 32}
_SMALL_SCHEDULE |= {"then_steps": 2200, "then_batch_size": 16, "then_length": 128}
_SCHEDULE = {"batch_size": BATCH_SIZE, "sequence_length": 128, "then_length": 512, "then_batch_size": 8}

# The most texts per class for `few_shot` by default. On SST-2, it is 10 points better than ordinary fine-tuning with
# 32 texts per class, and 3 points with 128, see "Few examples" in docs/benchmarks.md.
FEW_EXAMPLES = 32
ENOUGH_UPDATES = 200  # with fewer updates, a model may learn little
EPOCHS = 3
_MOST_EPOCHS = 20


def _field(
    default: object,
    limits: Limits,
    help: str,
    option: str = "",
    choices: Sequence[str] = (),
    tasks: Sequence[str] = (),
) -> Any:
    """Makes a hyper-parameter, required if `default` is MISSING; `option` is its name in commands, if different."""
    # `tasks`: the subcommands of `finetune` that have it, keys of `task_table.FINE_TUNING`; by default all.
    help = f"{help}; {limits.text}." if limits.text else f"{help}."
    metadata = {"limits": limits, "help": help, "option": option, "choices": choices, "tasks": tasks}
    return dataclasses.field(default=default, metadata=metadata)


def _choice(choices: Sequence[str], help: str) -> Any:
    """Makes a hyper-parameter that is one of these names, by default the first."""
    return _field(choices[0], Limits(f"one of {', '.join(choices)}"), help, choices=choices)


@dataclass(frozen=True, kw_only=True)
class _Checked:
    """Settings that are checked when they are made."""  # without it, `dataclass` would take time to write one

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if getattr(value, "shape", None) == () and hasattr(value, "item"):  # NumPy's number, also in an array
                value = value.item()
            object.__setattr__(self, field.name, value)
            kind = types_of(type(self))[field.name]
            _check(field.name, value, kind, field.metadata["limits"], field.metadata["choices"])


R = TypeVar("R", bound="Recipe")
F = TypeVar("F", bound="FineTuningRecipe")
P = TypeVar("P", bound="PretrainingRecipe")
Q = TypeVar("Q", bound="_Checked")


@dataclass(frozen=True, kw_only=True)
class Recipe(_Checked):
    """The hyper-parameters that fine-tuning and pre-training have in common."""

    learning_rate: float = _field(5e-5, _ABOVE_0, "The highest learning rate")
    warmup: float = _field(0.1, _SHARE, "The share of all updates in which the learning rate rises")
    weight_decay: float = _field(0.01, _FROM_0, "The factor of weight decay")
    clip_norm: float | None = _field(1.0, _ABOVE_0, "The largest norm of the gradients; larger ones are scaled down")
    accumulate: int = _field(1, _FROM_1, "The number of batches that make one update; the last update may have fewer")
    seed: int = _field(0, _FROM_0, "The seed of the order of examples, of masks, and (in the command) of new weights")

    @classmethod
    def of(cls: type[R], **values: Any) -> R:
        """Makes a recipe with these fields. Raises TypeError, with the valid names, if a field does not exist."""
        names = cls.__dataclass_fields__
        if unknown := ", ".join(name for name in values if name not in names):
            raise TypeError(f"there is no hyper-parameter {unknown}; the hyper-parameters are {', '.join(names)}")
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class FineTuningRecipe(Recipe):
    """The hyper-parameters of `fine_tune`, with the defaults of Devlin et al. 2018, appendix A.3."""

    epochs: int | None = _field(
        None, _FROM_1, "The number of passes over the examples, by default 3, or up to 20 if there are few"
    )
    batch_size: int | None = _field(None, _FROM_1, "The number of examples in a batch, by default 32")
    batch_tokens: int | None = _field(
        None, _FROM_1, "The most tokens in a batch, padding included, in place of a batch size"
    )
    layer_decay: float = _field(1.0, _ABOVE_0, "The factor between a layer's learning rate and that of the layer above")
    class_weight: Mapping | Literal["balanced"] | None = _field(
        None,
        _FROM_0,
        "The weight of each class in the loss, by default 1; or balanced, so that all classes weigh the same",
        choices=(BALANCED,),
        tasks=("classify", "tag"),
    )
    frozen_layers: int = _field(0, _FROM_0, "The number of lowest layers to freeze, with the embeddings")
    lora_rank: int | None = _field(
        None, _FROM_1, "The rank of LoRA, such as 8; LoRA trains small matrices in place of whole layers"
    )
    few_shot: bool | None = _field(
        None,
        _ANY,
        "Learn from pairs of texts, then fit the head; by default on for a new head with at most "
        f"{FEW_EXAMPLES} texts per class",
        tasks=("classify",),
    )
    patience: int | None = _field(None, _FROM_1, "The number of epochs without improvement after which training ends")
    validation_split: float | None = _field(
        None, _BETWEEN, "The share of the examples to hold out for measuring each epoch", "eval_split"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.class_weight != BALANCED:
            object.__setattr__(self, "class_weight", dict(self.class_weight or {}))
        if self.batch_size is not None and self.batch_tokens is not None:
            raise ValueError("batch_size and batch_tokens exclude each other; pass only one")
        if self.few_shot and self.batch_tokens is not None:
            raise ValueError("few_shot makes batches of pairs; pass batch_size, not batch_tokens")
        if self.batch_size is None and self.batch_tokens is None:
            object.__setattr__(self, "batch_size", 32)

    @classmethod
    def lacks(cls, task: str) -> dict[str, tuple[str, ...]]:
        """The fields that a task, a subcommand of `finetune`, does not have, with those that have them."""
        tasks = {name: field.metadata["tasks"] for name, field in cls.__dataclass_fields__.items()}
        return {name: others for name, others in tasks.items() if others and task not in others}

    def may_be_few_shot(self, *arguments: object) -> bool:
        """Whether `few_shot` is open: nothing that is given, such as a loss or a teacher, excludes it."""
        return all(each is None for each in (self.few_shot, self.epochs, self.batch_tokens, *arguments))

    def for_examples(self: F, count: int, texts_per_class: float | None = None) -> F:
        """Sets `few_shot` and `epochs`, if None. `texts_per_class` is None if the model cannot learn by `few_shot`."""
        if self.few_shot is None:
            is_few = self.epochs is None and texts_per_class is not None and texts_per_class <= FEW_EXAMPLES
            return dataclasses.replace(self, few_shot=is_few).for_examples(count)
        if self.epochs is not None:
            return self
        if self.few_shot:  # whose epoch has many pairs of each example
            return dataclasses.replace(self, epochs=1)
        if self.batch_size is None:
            return dataclasses.replace(self, epochs=EPOCHS)
        # The number of updates matters (Mosbach et al. 2021, "On the Stability of Fine-tuning BERT": 20 epochs).
        batches = max(1, math.ceil(count / self.batch_size))
        epochs = math.ceil(ENOUGH_UPDATES / math.ceil(batches / self.accumulate))
        return dataclasses.replace(self, epochs=min(max(epochs, EPOCHS), _MOST_EPOCHS))


@dataclass(frozen=True, kw_only=True)
class PretrainingRecipe(Recipe):
    """The hyper-parameters of `pretrain`; see Devlin et al. 2018, appendix A.2."""

    steps: int | None = _field(
        None,
        _FROM_1,
        "The number of batches to train on, in both phases; new models up to 256 wide have a default, 6,500",
    )
    batch_size: int | None = _field(
        None, _FROM_1, "The number of sequences in a batch, by default 32; of new models up to 256 wide, 64"
    )
    optimizer: str = _choice(("adamw", "lamb"), "The optimizer; LAMB is for batches of thousands")
    learning_rate: float | None = _field(
        None, _ABOVE_0, "The highest learning rate, by default by the size of the model, 1e-3 to 1e-4"
    )
    warmup: float = dataclasses.field(default=0.05, metadata=Recipe.__dataclass_fields__["warmup"].metadata)
    measure_every: int = _field(1000, _FROM_1, "The number of steps from one measurement to the next")

    def for_width(self: P, hidden_size: int, trained: bool = False) -> P:
        """Sets the learning rate, if it is None, from `PRETRAINING_RATES`: the lowest if the weights are trained."""
        if self.learning_rate is not None:
            return self
        rate = next(rate for width, rate in PRETRAINING_RATES if (math.inf if trained else hidden_size) <= width)
        return dataclasses.replace(self, learning_rate=rate)


@dataclass(frozen=True, kw_only=True)
class RowsRecipe(_Checked):
    """The settings that make masked rows from text (Devlin et al. 2018, section 3.1); see `write_records`."""

    objective: str | None = _field(
        None,
        Limits(f"one of {', '.join(OBJECTIVES)}"),
        "The objective besides masked tokens. next_sentence: does the second segment follow the first; sentence_order: "
        "are both in order; sentences: only masked tokens, in rows of whole sentences. By default next_sentence; for "
        "trained weights, that of their heads",
        choices=OBJECTIVES,
    )
    layout: str = _choice(
        LAYOUTS, "Blank lines separate paragraphs (prose), or documents with one sentence per line (sentences)"
    )
    sequence_length: int | None = _field(
        None,
        _FROM_5,
        "The number of tokens in a row, by default 128; new models up to 256 wide are trained on 32, and then, for a "
        "third of the steps, on 128",
    )
    masked_unit: str = _choice(MASKED_UNITS, "The unit of masking")
    static_masking: bool = _field(False, _ANY, "Mask the same tokens in each epoch, unlike RoBERTa")
    copies: int = _field(1, _FROM_1, "The number of times to use each text, with new random pairs and masks each time")
    pack: bool = _field(False, _ANY, "Pack several short documents into a row, with the objective sentences")
    processes: int = _field(1, _FROM_1, "The number of processes that write training examples")


@dataclass(frozen=True, kw_only=True)
class SecondPhase(_Checked):
    """The settings of the command's second phase, on longer rows (Devlin et al. 2018, appendix A.2)."""

    then_steps: int | None = _field(
        None, _FROM_1, "The number of steps, the last ones, that have longer rows; by default see sequence_length"
    )
    then_length: int | None = _field(
        None, _FROM_5, "The number of tokens per row in the second phase, by default 512, or 128 after 32"
    )
    then_batch_size: int | None = _field(
        None, _FROM_1, "The number of rows per batch in the second phase, by default 8, or 16 after rows of 32"
    )


def with_schedule(
    new: BertConfig | None, recipe: P, rows: RowsRecipe, second: SecondPhase
) -> tuple[P, RowsRecipe, SecondPhase]:
    """Sets what is None of both phases of `pretrain_files`; `new` is the model's config if its weights are new."""
    longest = _SMALL_SCHEDULE["then_length"]
    small = new is not None and new.hidden_size <= _SMALL and new.max_positions >= longest
    schedule = _SMALL_SCHEDULE if small else _SCHEDULE
    if recipe.steps is None and not small:
        raise ValueError(
            f"steps is missing; only new models up to {_SMALL} wide, such as tiny and mini, with at least {longest} "
            "positions, have a default"
        )
    if small and rows.sequence_length is not None:  # no second phase, unless then_steps asks for one
        schedule = {**schedule, "then_steps": None}
        if new is not None and rows.sequence_length != _SMALL_SCHEDULE["sequence_length"]:
            length = min(_SCHEDULE["then_length"], new.max_positions)
            schedule |= {"then_length": length, "then_batch_size": _SCHEDULE["then_batch_size"]}
    elif small and recipe.steps is not None:
        share = recipe.steps * _SMALL_SCHEDULE["then_steps"] // _SMALL_SCHEDULE["steps"]
        schedule = {**schedule, "then_steps": share or None}

    def fill(each: Q) -> Q:
        missing = [name for name, value in vars(each).items() if value is None and name in schedule]
        return dataclasses.replace(each, **{name: schedule[name] for name in missing})

    given = [name for name, value in vars(second).items() if value is not None]
    recipe, second = fill(recipe), fill(second)
    if given and second.then_steps is None:
        raise ValueError(f"{given[0]} is for a second phase, but there is none: pass then_steps, too")
    if (second.then_steps or 0) >= (recipe.steps or 0):
        raise ValueError(
            f"then_steps is {second.then_steps:,}, but there are {recipe.steps:,} steps in all, of which these are the "
            "last; choose fewer, or raise steps"
        )
    return recipe, fill(rows), second


_TEMPERATURE = _field(2.0, _ABOVE_0, "The temperature of the teacher's probabilities; above 1, small ones count more")


@dataclass(frozen=True, kw_only=True)
class FineTuningWithTeacher(FineTuningRecipe):
    """The hyper-parameters of `fine_tune` with a teacher."""

    temperature: float = _TEMPERATURE


@dataclass(frozen=True, kw_only=True)
class PretrainingWithTeacher(PretrainingRecipe):
    """The hyper-parameters of `pretrain` with a teacher."""

    temperature: float = _TEMPERATURE


def split_by_kind(settings: Mapping[str, object], *kinds: type) -> list[Any]:
    """Makes a dataclass of each kind from the settings that are its fields. Raises TypeError if one is of none."""
    fields = [[field.name for field in dataclasses.fields(kind)] for kind in kinds]
    known = [name for names in fields for name in names]
    if unknown := ", ".join(name for name in settings if name not in known):
        raise TypeError(f"there is no setting {unknown}; the settings are {', '.join(known)}")
    settings_of_kind = [{name: settings[name] for name in names if name in settings} for names in fields]
    return [kind(**each) for kind, each in zip(kinds, settings_of_kind, strict=True)]


def takes_recipe(recipe: type[Recipe]) -> Callable[[Callable], Callable]:
    """Makes a decorator that lists a recipe's fields in a function's arguments and docstring in place of `**recipe`."""

    def document(function: Callable) -> Callable:
        parameters = dict(inspect.signature(function).parameters)
        del parameters["recipe"]
        fields = {name: each for name, each in inspect.signature(recipe).parameters.items() if name not in parameters}
        function.__signature__ = inspect.Signature([*parameters.values(), *fields.values()])
        lines = [f"{name}: {recipe.__dataclass_fields__[name].metadata['help']}" for name in fields]
        function.__doc__ = re.sub(r"(\n *)\*\*recipe:.*", r"\1" + r"\1".join(lines), function.__doc__ or "")
        return function

    return document


def _check(name: str, value: object, field: FieldType, limits: Limits, choices: Sequence[str] = ()) -> None:
    if isinstance(value, str) and value in choices:
        return
    if not field.fits(value):
        or_name = f", or {' or '.join(choices)}" if choices and field.kind is not str else ""
        raise TypeError(f"{name} is {value!r}; expected {_EXPECTED[field.kind]}{or_name}")
    if isinstance(value, Mapping):
        for key, each in value.items():
            _check(f"{name} of {key}", each, FieldType(float, may_be_none=False), limits)
    elif value is not None and not (value in choices if choices else limits.allows(value)):
        raise ValueError(f"{name} is {repr(value) if field.kind is str else value}; expected {limits.text}")
