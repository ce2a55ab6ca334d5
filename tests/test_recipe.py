"""A hyper-parameter is written in keras_bert/recipe.py, and nowhere else: all that its field becomes."""

import contextlib
import dataclasses
import inspect

import click
import pytest

from keras_bert import recipe, training
from keras_bert.cli import main, options
from keras_bert.config import BertConfig
from keras_bert.data import task_files
from keras_bert.task_table import FINE_TUNING
from keras_bert.tasks.registry import Job

from .support.messages import error_names

# The commands, and the recipe that each makes of its options.
COMMANDS = {
    ("finetune", "classify"): recipe.FineTuningRecipe,
    ("finetune", "tag"): recipe.FineTuningRecipe,
    ("finetune", "answer"): recipe.FineTuningRecipe,
    ("pretrain",): recipe.PretrainingRecipe,
    ("distill", "classify"): recipe.FineTuningWithTeacher,
    ("distill", "pretrain"): recipe.PretrainingWithTeacher,
}
FIELDS = {field.name: (kind, field) for kind in set(COMMANDS.values()) for field in dataclasses.fields(kind)}


BAD = {"a number between 0 and 1": 1, "1 or more": 0, "0 or more": -1, "a number above 0": 0, "a share, 0 to 1": 1.5}


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - {"class_weight", "few_shot"}))
def test_bad_values_are_refused_by_name(name):
    limits = FIELDS[name][1].metadata["limits"].text
    bad = BAD.get(limits, "sgd")
    with error_names(ValueError, name, repr(bad), limits):
        FIELDS[name][0].of(**{name: bad})
    with error_names(TypeError, name, ["many"], "expected a"):
        FIELDS[name][0].of(**{name: ["many"]})


@pytest.mark.parametrize(
    ("settings", "error", "words"),
    [
        ({"epochs": 2.0}, TypeError, ["epochs", 2.0, "whole number"]),
        ({"accumulate": True}, TypeError, ["accumulate", True, "whole number"]),
        ({"learning_rate": None}, TypeError, ["learning_rate", None, "a number"]),
        ({"learning_rate": float("inf")}, ValueError, ["learning_rate", "inf", "above 0"]),
        ({"learning_rate": float("nan")}, ValueError, ["learning_rate", "nan", "above 0"]),
        ({"warmup": -0.1}, ValueError, ["warmup", -0.1, "0 to 1"]),
        ({"class_weight": {"good": 1, "bad": -1.0}}, ValueError, ["class_weight of bad", -1.0, "0 or more"]),
        ({"class_weight": "even"}, TypeError, ["class_weight", "'even'", "dict", "balanced"]),
        ({"few_shot": "sgd"}, TypeError, ["few_shot", "'sgd'", "True or False"]),
        ({"few_shot": True, "batch_tokens": 9}, ValueError, ["few_shot", "batch_tokens", "batch_size"]),
    ],
)
def test_values_of_another_type_or_out_of_range_are_refused(settings, error, words):
    with error_names(error, *words):
        recipe.FineTuningRecipe.of(**settings)


@pytest.mark.parametrize("name", [name for name, (_, field) in FIELDS.items() if field.metadata["tasks"]])
@pytest.mark.parametrize("task", FINE_TUNING)
def test_a_field_that_a_task_lacks_is_refused(name, task, tmp_path):
    tasks_with = FIELDS[name][1].metadata["tasks"]
    assert {*tasks_with} < {*FINE_TUNING}
    value = {"class_weight": "balanced", "few_shot": True}[name]
    columns = {"choice_columns": ["a", "b"]} if task == "choose" else {}
    refused = error_names(ValueError, name, *map(repr, tasks_with), f"not {task!r}")
    with contextlib.nullcontext() if task in tasks_with else refused:
        Job(task, tmp_path, None, {name: value, **columns})


def test_settings_of_files_are_values():
    made = task_files.RankFiles(text_column="query", negative_columns=("a", "b"))
    assert made == task_files.RankFiles(text_column="query", negative_columns=("a", "b")) != task_files.RankFiles()
    assert task_files.EmbedFiles() != task_files.ComparedFiles()
    assert len({made, dataclasses.replace(made)}) == 1
    assert eval(repr(made), vars(task_files)) == made
    with pytest.raises(dataclasses.FrozenInstanceError, match="text_column"):
        made.text_column = "text"


def test_an_option_that_sets_a_field_to_false_has_hyphens():
    metadata = {"help": "Keep capitals.", "option": "", "choices": ()}
    kind = dataclasses.make_dataclass(
        "Settings", [("keeps_case", bool, dataclasses.field(default=True, metadata=metadata))]
    )
    command = options.field_options(kind)(click.Command("train"))
    assert [each.opts for each in command.params] == [["--no-keeps-case"]]


def test_few_texts_per_class_are_learned_from_pairs():
    given = recipe.FineTuningRecipe()
    assert given.may_be_few_shot(None)
    assert not given.may_be_few_shot(None, "a loss")
    assert not recipe.FineTuningRecipe(batch_tokens=9).may_be_few_shot()
    assert vars(given.for_examples(16, texts_per_class=8)) == {**vars(given), "few_shot": True, "epochs": 1}
    assert not given.for_examples(99, texts_per_class=33).few_shot
    assert not recipe.FineTuningRecipe(epochs=2).for_examples(16, texts_per_class=8).few_shot


def test_settings_are_split_by_kind():
    settings = {"then_steps": 3, "steps": 9}
    phases = recipe.split_by_kind(settings, recipe.PretrainingRecipe, recipe.SecondPhase)
    assert phases == [recipe.PretrainingRecipe(steps=9), recipe.SecondPhase(then_steps=3)]
    with error_names(TypeError, "setting then, now", "then_steps"):
        recipe.split_by_kind({"then": 1, "now": 2}, recipe.SecondPhase)


def test_what_is_not_given():
    found = recipe.FineTuningRecipe()
    assert (found.batch_size, found.class_weight, found.learning_rate, found.warmup) == (32, {}, 5e-5, 0.1)
    assert recipe.FineTuningRecipe(batch_tokens=64).batch_size is None
    found = recipe.PretrainingRecipe(steps=1)
    assert (found.learning_rate, found.warmup, found.weight_decay) == (None, 0.05, 0.01)


def test_smaller_models_are_pre_trained_at_higher_rates():
    for kind, settings in ((recipe.PretrainingRecipe, {}), (recipe.PretrainingWithTeacher, {"temperature": 3.0})):
        default = kind(steps=1, **settings)
        widths = (64, 128, 256, 384, 512, 768, 1024, 4096)
        rates = [default.for_width(width).learning_rate for width in widths]
        assert sorted(rates, reverse=True) == rates
        assert rates[1] > rates[2] > rates[4] > rates[5]
        assert rates[5:] == [1e-4] * 3  # the paper's, for BERT-Base and BERT-Large
        assert vars(default.for_width(128)) == {**vars(default), "learning_rate": rates[1]}
        assert default.for_width(128, trained=True).learning_rate == 1e-4
        chosen = kind(steps=1, learning_rate=3e-5, **settings)
        assert chosen.for_width(128) == chosen.for_width(128, trained=True) == chosen


@pytest.mark.parametrize(
    ("count", "settings", "epochs"),
    [
        (67_349, {}, 3),  # SST-2's
        (2144, {}, 3),  # 67 batches: 201 updates
        (2112, {}, 4),  # 66 batches
        (800, {}, 8),
        (800, {"accumulate": 2}, 16),
        (800, {"batch_size": 8}, 3),
        (100, {}, 20),
        (0, {}, 20),
        (100, {"epochs": 2}, 2),
        (100, {"batch_tokens": 1000}, 3),  # nobody knows yet how many batches these are
    ],
)
def test_few_examples_have_more_epochs(count, settings, epochs):
    for kind in (recipe.FineTuningRecipe, recipe.FineTuningWithTeacher):
        given = kind(**settings)
        found = given.for_examples(count)
        assert type(found) is kind
        assert vars(found) == {**vars(given), "epochs": epochs, "few_shot": False}


@pytest.mark.parametrize(
    ("function", "kind"),
    [(training.fine_tune, recipe.FineTuningWithTeacher), (training.pretrain, recipe.PretrainingWithTeacher)],
)
def test_functions_take_the_fields_and_refuse_other_names(function, kind):
    shown, documentation = inspect.signature(function).parameters, inspect.getdoc(function)
    for field in dataclasses.fields(kind):
        assert field.name in shown
        assert f"\n    {field.name}: " in documentation
    assert "recipe" not in shown
    assert "**recipe" not in documentation
    needed = {name: None for name, each in shown.items() if each.default is each.empty}
    names = ", ".join(field.name for field in dataclasses.fields(kind))
    with error_names(TypeError, "hyper-parameter epoch", names):
        function(**needed, epoch=2)


@pytest.mark.parametrize("names", COMMANDS)
def test_commands_have_the_fields_as_options(names):
    command = main
    for name in names:
        command = command.commands[name]
    found = {option.name: option for option in command.params}
    expected = {field.name: field for field in dataclasses.fields(COMMANDS[names])}
    if names[-1] == "answer":
        del expected["class_weight"]
    if names != ("finetune", "classify"):
        expected.pop("few_shot", None)
    assert found.keys() & FIELDS.keys() == expected.keys()
    for name, field in expected.items():
        names = {"validation_split": ["eval_split", name]}.get(name, [name])  # as --eval is validation
        assert found[name].opts == [f"--{each.replace('_', '-')}" for each in names]
        assert found[name].help.startswith(field.metadata["help"])
        assert found[name].required == (field.default is dataclasses.MISSING)
        if field.default not in (None, dataclasses.MISSING):
            assert (found[name].default, found[name].show_default) == (field.default, True)


# A new model or None, and what a user gives; then steps, batch size and row length of each phase.
TINY = BertConfig.tiny()
PHASES = [
    (TINY, {}, [(4300, 64, 32), (2200, 16, 128)]),
    (TINY, {"steps": 90, "batch_size": 8}, [(60, 8, 32), (30, 16, 128)]),
    (TINY, {"steps": 2}, [(2, 64, 32)]),
    (TINY, {"sequence_length": 64}, [(6500, 64, 64)]),
    (TINY, {"then_steps": 5, "then_length": 256}, [(6495, 64, 32), (5, 16, 256)]),
    (TINY, {"sequence_length": 128, "then_steps": 5}, [(6495, 64, 128), (5, 8, 512)]),
    (BertConfig.tiny(max_positions=128), {"sequence_length": 64, "then_steps": 5}, [(6495, 64, 64), (5, 8, 128)]),
    (BertConfig.tiny(max_positions=64), {"steps": 7}, [(7, 32, 128)]),
    (BertConfig.base(), {"steps": 7}, [(7, 32, 128)]),
    (None, {"steps": 7, "then_steps": 2}, [(5, 32, 128), (2, 8, 512)]),
]


@pytest.mark.parametrize(("new", "given", "phases"), PHASES)
def test_rows_of_small_new_models_grow_unless_their_length_is_given(new, given, phases):
    kinds = (recipe.PretrainingRecipe, recipe.RowsRecipe, recipe.SecondPhase)
    first, rows, second = recipe.with_schedule(new, *recipe.split_by_kind(given, *kinds))
    found = [(first.steps - (second.then_steps or 0), first.batch_size, rows.sequence_length)]
    if second.then_steps is not None:
        found.append((second.then_steps, second.then_batch_size, second.then_length))
    assert found == phases


def test_large_models_have_no_default_for_steps():
    with error_names(ValueError, "steps", "256"):
        recipe.with_schedule(None, recipe.PretrainingRecipe(), recipe.RowsRecipe(), recipe.SecondPhase())


def test_what_is_set_of_a_second_phase_that_does_not_exist_is_refused():
    settings = (recipe.PretrainingRecipe(steps=7), recipe.RowsRecipe(), recipe.SecondPhase(then_length=256))
    with error_names(ValueError, "then_length", "then_steps"):
        recipe.with_schedule(BertConfig.base(), *settings)


def test_the_first_rows_have_steps_too():
    with error_names(ValueError, "then_steps is 7", "7 steps in all"):
        recipe.with_schedule(
            None, recipe.PretrainingRecipe(steps=7), recipe.RowsRecipe(), recipe.SecondPhase(then_steps=7)
        )
