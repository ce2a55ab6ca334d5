"""What a pipeline asks of `evaluate`: requirements on measures, and a JSON file that says what was measured."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

import keras_bert
from keras_bert import files
from keras_bert.cli.terminal import Failure, Misuse
from keras_bert.counted import did_you_mean

if TYPE_CHECKING:
    from keras_bert.answers import Score

_SIGNS = {">=": operator.ge, "<=": operator.le, ">": operator.gt, "<": operator.lt}
_REQUIREMENT = re.compile(rf"(.+)({'|'.join(_SIGNS)})(.+)", re.DOTALL)


class Requirement(NamedTuple):
    """A bound of a measure."""

    measure: str
    sign: str
    bound: float

    def __str__(self) -> str:
        return f"{self.measure} {self.sign} {self.bound:g}"

    def is_met(self, measures: Mapping[str, float]) -> bool:
        return _SIGNS[self.sign](measures[self.measure], self.bound)  # NaN meets none


def _parse(_: click.Context, option: click.Parameter, texts: Sequence[str]) -> list[Requirement]:
    requirements = []
    for text in texts:
        match = _REQUIREMENT.fullmatch(text)
        if match is None or not math.isfinite(bound := _number(match[3])):
            raise Misuse(f"{option.opts[0]} {text}: expected a measure and a bound, such as 'accuracy >= 0.8'")
        requirements.append(Requirement(match[1].strip(), match[2], bound))
    return requirements


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


require_option = click.option(
    "--require",
    "requirements",
    metavar="CONDITION",
    multiple=True,
    callback=_parse,
    help="End with exit code 1 unless a measure has this bound: 'accuracy >= 0.8', 'f1 of PER > 0.7'. May be repeated.",
)


def check_names(requirements: Sequence[Requirement], names: Collection[str]) -> None:
    """Raises Misuse if a requirement is on a measure that these examples do not have."""
    for each in requirements:
        if each.measure not in names:
            advice = did_you_mean(each.measure, names)
            raise Misuse(f"there is no measure {each.measure!r}; the measures are {', '.join(names)}{advice}")


def check(requirements: Sequence[Requirement], measures: Mapping[str, float]) -> None:
    """Raises Failure, with exit code 1, if a requirement is not met."""
    check_names(requirements, measures)
    if unmet := [each for each in requirements if not each.is_met(measures)]:
        facts = (f"{each}, but it is {measures[each.measure]:.4f}" for each in unmet)
        raise Failure(f"not met: {'; '.join(facts)}")


def document(
    model: Path, kind: str, score: Score, examples: int | None, data: Path, requirements: Sequence[Requirement]
) -> str:
    """Formats JSON of measures, those of classes apart, with the digests of the files of the model and of the data."""
    from keras_bert.answers.tables import by_class, without_classes
    from keras_bert.formats import model_files

    measures = {**score.measures, **score.details}
    patterns = (*model_files.MODEL, *model_files.TOKENIZER, *model_files.SETTINGS)
    folder, names = data.parent, [data.name]
    if data.is_dir():
        folder, names = data, [str(path.relative_to(data)) for path in sorted(data.rglob("*")) if path.is_file()]
    values: dict[str, Any] = {
        "model": {
            "path": str(model),
            "class": kind,
            "sha256": files.digests_of(model, model_files.present(model, patterns)),
        },
        "data": {"path": str(data), "sha256": files.digests_of(folder, names)},
        "measures": without_classes(measures),
        "classes": by_class(measures),
        "requirements": [{**each._asdict(), "is_met": each.is_met(measures)} for each in requirements],
        "keras_bert": keras_bert.__version__,
    }
    if examples is not None:
        values["data"]["examples"] = examples
    if score.confusion is not None:
        classes, counts = score.confusion
        values["confusion"] = {"classes": classes, "counts": counts.tolist()}  # rows are true classes
    return files.to_json(files.with_nulls(values))
