"""Measures a model, and writes the report of a training run: report.md, the learning curve, the confusion matrix."""

from __future__ import annotations

import importlib.util
import io
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from keras_bert import files
from keras_bert.answers import BASELINE, Score
from keras_bert.answers.tables import Cell, class_table, measure_table, shares, without_classes
from keras_bert.data import Examples
from keras_bert.extras import import_extra
from keras_bert.formats import saved
from keras_bert.formats.model_card import Training, table
from keras_bert.tasks.base.task import BertTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from keras_bert.answers.columns import Labels, Texts


REPORT = "report.md"
CURVE = "learning_curve.png"
CONFUSION = "confusion_matrix.png"
_NOT_MEASURED = "There were no examples to measure the model with; pass `validation` or `validation_split`."
_MAX_INCHES = 40.0  # inches: the side of a confusion matrix
_MAX_CHARACTERS = 40  # characters: longer labels are truncated in a picture
_MAX_CLASSES_WITH_ZEROS = 30  # classes: a larger matrix is drawn without its zeros


def check_installed() -> None:
    """Raises ImportError if the extra `train` is not installed. Call it before the training starts, not after."""
    for module in ("sklearn.metrics", "scipy.stats", "seqeval.metrics", "matplotlib"):
        import_extra(module, module.partition(".")[0].replace("sklearn", "scikit-learn"))


def write_report(
    directory: str | Path,
    settings: Mapping[str, object],
    history: Sequence[Mapping[str, float]],
    score: Score,
    panels: Mapping[str, Sequence[str]] | None = None,
) -> None:
    """Writes `report.md` and, if matplotlib is installed, its pictures into a model's directory, over older ones."""
    # `panels` are those of the learning curve: title -> names in the history; by default the loss, and all measures. A
    # picture that cannot be drawn is left out, with a warning: it must not cost the trained model.
    directory = Path(directory)
    draw_functions: dict[str, Callable[[], bytes]] = {}
    if importlib.util.find_spec("matplotlib"):
        draw_functions[CURVE] = lambda: _draw_curve(history, panels or _default_panels(history))
        if (confusion := score.confusion) is not None:
            draw_functions[CONFUSION] = lambda: _draw_confusion(*confusion)
    pictures = []
    for name, draw_picture in draw_functions.items():
        try:
            picture = draw_picture()
        except Exception as error:
            warnings.warn(f"{directory / name} could not be drawn: {type(error).__name__}: {error}", stacklevel=2)
            (directory / name).unlink(missing_ok=True)  # the picture of another run
            continue
        files.write_texts(directory, {name: picture})
        pictures.append(name)
    names, measures = _collect_names(history), {**score.measures, **without_classes(score.details)}
    parts = [
        "# Training report",
        _format_table(*measure_table(measures)) if score.measures else _NOT_MEASURED,
        *(["## Classes", _format_table(*classes)] if (classes := class_table(score.details)) else []),
        f"## {next(iter(history[0])).capitalize()}s",
        table(names, [[_format_number(each.get(name)) for name in names] for each in history]),
        *(f"![{name.removesuffix('.png').replace('_', ' ')}]({name})" for name in pictures),
        "## Settings",
        table(["setting", "value"], settings.items()),
    ]
    files.write_texts(directory, {REPORT: "\n\n".join(parts) + "\n"})


def write_card(
    model: BertTask,
    output: str | Path,
    base: str | Path | None,
    measures: Mapping[str, float],
    settings: Mapping[str, object],
) -> None:
    """Writes the model card again, with what is known now. It tells no path of this machine."""
    start = {} if base is None else {"weights of": Path(base).name if Path(base).is_dir() else base}
    known = {name: value for name, value in settings.items() if value not in (None, False, {})}
    saved.write_card(output, model.saved(), Training(base, measures, {**start, **known}))


def _format_table(header: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    return table(header, [[each if isinstance(each, str) else _format_number(each) for each in row] for row in rows])


def _collect_names(history: Sequence[Mapping[str, float]]) -> list[str]:
    """Collects the names of all entries, which may differ if a run gets validation examples later. Drops baselines."""
    return list(dict.fromkeys(name for each in history for name in each if not name.endswith(BASELINE)))


def _format_number(value: float | None) -> str:
    if value is None:
        return ""
    return str(value) if isinstance(value, int) else f"{value:.4f}"


def _default_panels(history: Sequence[Mapping[str, float]]) -> dict[str, list[str]]:
    measures = [name for name in _collect_names(history)[1:] if name != "loss"]
    return {"training loss": ["loss"], "on the validation examples": measures}


def _draw_curve(history: Sequence[Mapping[str, float]], panels: Mapping[str, Sequence[str]]) -> bytes:
    """Draws the panels, by epoch or step, as a PNG. Leaves out panels without values."""
    drawn = {title: [name for name in names if name in _collect_names(history)] for title, names in panels.items()}
    drawn = {title: names for title, names in drawn.items() if names}
    unit = next(iter(history[0]))
    figure, all_axes = _make_figure(len(drawn))
    for axes, (title, names) in zip(all_axes, drawn.items(), strict=True):
        for name in names:
            values = [each.get(name, np.nan) for each in history]
            axes.plot([each[unit] for each in history], values, marker="o" if len(history) < 50 else "", label=name)
        axes.set(title=title, xlabel=unit)
        axes.xaxis.get_major_locator().set_params(integer=True)
        if names != ["loss"]:
            for text in axes.legend().get_texts():
                text.set_parse_math(False)
    return _to_png(figure)


def _draw_confusion(labels: Sequence[str], counts: np.ndarray) -> bytes:
    figure, (axes,) = _make_figure(1, size=min(max(4.0, 0.5 * len(labels) + 2), _MAX_INCHES))
    row_shares = shares(counts)
    is_right = np.eye(len(labels), dtype=bool)
    for colours, hidden in (("Blues", ~is_right), ("Oranges", is_right)):
        axes.imshow(np.ma.masked_where(hidden, row_shares), cmap=colours, vmin=0, vmax=1)
    ticks = range(len(labels))
    axes.set(xlabel="predicted class", ylabel="true class", xticks=ticks, yticks=ticks)
    tick_labels = [label if len(label) <= _MAX_CHARACTERS else f"{label[: _MAX_CHARACTERS - 3]}..." for label in labels]
    axes.set_xticklabels(tick_labels, rotation=45, ha="right", parse_math=False)  # a $ in a label begins no formula
    axes.set_yticklabels(tick_labels, parse_math=False)
    for (row, column), count in np.ndenumerate(counts):
        if not count and len(labels) > _MAX_CLASSES_WITH_ZEROS:
            continue
        colour = "white" if row_shares[row, column] > 0.5 else "black"
        axes.text(column, row, f"{count:,}", ha="center", va="center", color=colour)
    return _to_png(figure)


def _make_figure(columns: int, size: float = 4.0) -> tuple[Figure, np.ndarray]:
    # Not pyplot, which keeps figures in memory and may need a display.
    figure = import_extra("matplotlib.figure", "matplotlib").Figure(
        figsize=(size * columns * 1.2, size), layout="constrained"
    )
    return figure, figure.subplots(1, columns, squeeze=False)[0]


def _to_png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=100)
    return buffer.getvalue()


def evaluate(
    model: BertTask, x: Examples | Texts, y: Labels | None = None, progress: bool | None = None
) -> dict[str, float]:
    """Measures a model on examples.

    Use it to compare models on test examples. `fine_tune` calls it for validation examples after each epoch.

    Args:
        model: a task model; its kind, in `keras_bert.tasks.kinds`, documents the measures.
        x: what a reader of `keras_bert.data` returns; or examples, as `fit` takes them.
        y: for the latter, their labels, by name.
        progress: whether to show a progress bar; by default on a terminal, elsewhere a line a minute.

    Returns:
        The measures by name. Choose models by the first one: higher is better.

    Raises:
        ImportError: a measure needs the extra `train`.
        TypeError: `model` is not a task model, or its task has no measures.
        ValueError: the model lacks a label, or the numbers of examples and labels differ.

    Example:
        >>> from keras_bert import BertClassifier
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> list(evaluate(model, ["What a film!", "Never again."], ["good", "bad"]))
        ['accuracy']
    """
    return score(model, x, y, progress).measures


def score(model: BertTask, x: Examples | Texts, y: Labels | None = None, progress: bool | None = None) -> Score:
    """Measures a model on examples, and finds its mistakes.

    The arguments and errors are those of `evaluate`.

    Returns:
        `measures`, as of `evaluate`; `details`, such as the measures of each class; `mistakes`, the indices of wrongly
        answered examples, and `worst`, the worst of them first; and the `confusion` of classes.

    Example:
        >>> from keras_bert import BertClassifier
        >>> model = BertClassifier.from_preset("all-MiniLM-L6-v2", labels=["good", "bad"])
        >>> texts, labels = ["What a film!", "Never again."], ["good", "bad"]
        >>> found = score(model, texts, labels)
        >>> found.mistakes == [i for i in (0, 1) if model.classify(texts[i])["label"] != labels[i]]
        True
        >>> found.details["support of good"]
        1
    """
    if not isinstance(model, BertTask):
        raise TypeError(f"no measures are known for a {type(model).__name__}; evaluate it with Keras's own metrics")
    if isinstance(x, Examples):
        x, y = x.xy
    model.kind.check(model.columns(x), y)
    return model.kind.score(model.answers(x, progress), model.kind.plain(y))
