"""The choices of options are those of the package."""

import pytest

from keras_bert.cli import main
from keras_bert.tasks import ranking_losses, sentence_losses
from keras_bert.tasks.kinds.classes import PROBLEM_TYPES

CHOICES = {  # that are the names of classes; all others are in `keras_bert.choices`
    "finetune classify --problem-type": PROBLEM_TYPES,
    "finetune embed --loss": sentence_losses.LOSSES,
    "finetune rank --loss": ranking_losses.LOSSES,
}


@pytest.mark.parametrize("words", CHOICES)
def test_choices_are_those_of_the_package(words):
    *names, option = words.split()
    command = main
    for name in names:
        command = command.commands[name]
    (found,) = (each for each in command.params if option in each.opts)
    assert list(found.type.choices) == list(CHOICES[words])
