"""The names that arguments and options accept. This module imports nothing heavy, for a quick `--help`."""

from collections.abc import Iterable
from typing import NamedTuple


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raises ValueError if the value of an argument is not one of its choices."""
    names = list(choices)
    if value not in names:
        raise ValueError(f"{name} is {value!r:.60}; expected one of {', '.join(names)}")


OBJECTIVES = ("next_sentence", "sentence_order", "sentences")  # of pre-training, in addition to masked tokens
LAYOUTS = ("prose", "sentences")  # of a corpus
MASKED_UNITS = ("token", "word", "span")
VOCABULARIES = ("wordpiece", "bytepair", "sentencepiece")
# How texts become rows: with special tokens, such as `[CLS] a [SEP]`; without them; or so, and unknown tokens masked.
PACKINGS = ("special", "plain", "known")


class LongText(NamedTuple):
    """A way to fit texts that are too long."""

    truncation: str | None = None  # see `text.packing.truncate`; None: as the preset's
    has_windows: bool = False
    keeps_words: bool = True  # whether words that stand together in a row do in the text, too


LONG_TEXTS = {
    "truncate": LongText(),
    "head_tail": LongText("head_tail", keeps_words=False),
    "windows": LongText(has_windows=True),
}


class EncoderPooling(NamedTuple):
    """How an encoder without a pooler makes `pooled_output`: `BertConfig.pooling`."""

    name: str  # in a `config.json`: "classifier_pooling"
    is_mean: bool = False  # of all tokens; else it is the first one's
    is_scaled: bool = False  # to length 1
    is_late: bool = False  # a text classifier makes logits of all tokens, and then their mean


ENCODER_POOLINGS = {
    "first": EncoderPooling("cls"),
    "mean": EncoderPooling("mean", is_mean=True),
    "unit_mean": EncoderPooling("unit_mean", is_mean=True, is_scaled=True),
    "late": EncoderPooling("late", is_late=True),
}
# `window_pooling`, of a long text's windows -> NumPy's function of two vectors; that of all vectors, but of padding, in
# `tasks/heads/pooling.py`; whether the result is divided by the number of windows.
WINDOW_POOLINGS = {"mean": ("add", "total", True), "max": ("maximum", "largest", False)}


class Pooling(NamedTuple):
    """How the hidden states of a text become one vector."""

    function: str  # in `tasks/heads/pooling.py`
    switch: str  # in sentence-transformers' files up to version 5; later ones have {"pooling_mode": "mean"} instead


POOLINGS = {
    "mean": Pooling("mean", "pooling_mode_mean_tokens"),
    "cls": Pooling("first_token", "pooling_mode_cls_token"),
    "max": Pooling("maximum", "pooling_mode_max_tokens"),
    "lasttoken": Pooling("last_token", "pooling_mode_lasttoken"),
    "mean_sqrt_len_tokens": Pooling("mean_by_root", "pooling_mode_mean_sqrt_len_tokens"),
    "weightedmean": Pooling("mean_by_position", "pooling_mode_weightedmean_tokens"),
}
SPARSE_POOLINGS = ("max", "sum")  # of `BertSparseEncoder`


class ProblemType(NamedTuple):
    """What the labels of a classifier of texts are."""

    labels: str  # how files hold them: one of `data.texts.KINDS`
    activations: tuple[str | None, ...] = ()  # of its logits in a graph of Keras


# By Hugging Face's names. Each has a class in `tasks/kinds/classes.py`.
PROBLEM_TYPES = {
    "single_label_classification": ProblemType("class", (None, "Softmax")),
    "multi_label_classification": ProblemType("multi_label", ("Sigmoid",)),
    "regression": ProblemType("number"),
}

STRATEGIES = ("auto", "one", "mirrored", "multi_worker", "tpu")
SIGNATURES = ("transformers",)  # of exports, besides this package's own
