"""The choices of options, which are written again so that --help is quick, are those of the package."""

import pytest

from keras_bert import inference
from keras_bert.cli import main
from keras_bert.pretraining import corpus, masked_examples, masking
from keras_bert.search import neighbours
from keras_bert.tasks import ranking_losses, sentence_losses
from keras_bert.tasks.problem_types import PROBLEM_TYPES
from keras_bert.text import learning
from keras_bert.training.strategy import KINDS as STRATEGIES

CHOICES = {
    "encode --precision": inference.PRECISIONS,
    "finetune classify --problem-type": tuple(PROBLEM_TYPES),
    "finetune classify --strategy": STRATEGIES,
    "finetune embed --loss": sentence_losses.LOSSES,
    "finetune rank --loss": ranking_losses.LOSSES,
    "index --stored": neighbours.STORED,
    "pretrain --layout": corpus.LAYOUTS,
    "pretrain --masked-unit": masking.MASKED_UNITS,
    "pretrain --objective": masked_examples.OBJECTIVES,
    "vocab --kind": learning.KINDS,
}


@pytest.mark.parametrize("words", CHOICES)
def test_choices_are_those_of_the_package(words):
    *names, option = words.split()
    command = main
    for name in names:
        command = command.commands[name]
    (found,) = (each for each in command.params if option in each.opts)
    assert list(found.type.choices) == list(CHOICES[words])
