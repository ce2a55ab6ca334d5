"""Evaluates a model on examples, with the measures of its task."""

from __future__ import annotations

from typing import Any

from keras_bert.tasks.columns import plain_labels
from keras_bert.tasks.task import BertTask


def evaluate(model: BertTask, x: Any, y: Any) -> dict[str, float]:
    """Measures a model on examples. The first measure is the one to choose models by.

    Args:
        model: a task model; its `measures` documents the measures.
        x: examples, as `fit` takes them.
        y: their labels, by name.

    Raises:
        ImportError: the measure needs the extra `train`.
        TypeError: there are no measures for this model.
        ValueError: the model lacks a label, or the numbers of examples and labels differ.

    Example:
        >>> from keras_bert import BertClassifier
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> list(evaluate(model, ["What a film!", "Never again."], ["good", "bad"]))
        ['accuracy']
    """
    if not isinstance(model, BertTask):
        raise TypeError(f"no measures are known for a {type(model).__name__}; evaluate it with Keras's own metrics")
    model.check_examples(x, y)
    return model.measures(model.answers(x), plain_labels(y, model.label_columns))
