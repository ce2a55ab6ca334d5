"""report.md and its pictures: with what was measured only sometimes, and without matplotlib."""

import importlib.util

import numpy as np
import pytest

from keras_bert.answers import Score
from keras_bert.training.report import CONFUSION, write_report

from ..support.messages import warning_names

HISTORY = [{"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.0, "accuracy": 0.5}]


@pytest.mark.parametrize("panels", [None, {"loss": ["loss"], "never measured": ["f1"], "accuracy": ["accuracy"]}])
def test_a_measure_that_came_later(tmp_path, panels):
    write_report(tmp_path, {"seed": 0}, HISTORY, Score({"accuracy": 0.5}), panels)
    report = (tmp_path / "report.md").read_text()
    rows = ["| step | loss | accuracy |", "| --- | --- | --- |", "| 10 | 3.0000 |  |", "| 20 | 2.0000 | 0.5000 |"]
    assert "## Steps\n\n" + "\n".join(rows) in report
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_baseline_stands_beside_its_measure(tmp_path):
    last = {"step": 30, "loss": 1.0, "accuracy": 0.75, "accuracy_baseline": 0.25}
    write_report(tmp_path, {}, [*HISTORY, last], Score({"loss": 1.0, "accuracy": 0.75, "accuracy_baseline": 0.25}))
    report = (tmp_path / "report.md").read_text()
    rows = ["| measure | value | baseline |", "| loss | 1.0000 |  |", "| accuracy | 0.7500 | 0.2500 |"]
    assert all(f"{row}\n" in report for row in [*rows, "| step | loss | accuracy |"])
    assert "_baseline" not in report


def test_each_class_has_its_support_beside_its_measures(tmp_path):
    details = {"macro_f1": 0.5, "f1 of a": 0.25, "support of a": 1200, "f1 of b | c": 0.75, "support of b | c": 3}
    details |= {"f1 of <script>alert(1)</script>": 0.5, "f1 of [x](javascript:y) `&\\[": 0.5}
    write_report(tmp_path, {}, HISTORY, Score({"accuracy": 0.5}, compute_details=lambda: details))
    report = (tmp_path / "report.md").read_text()
    assert "| accuracy | 0.5000 |\n| macro_f1 | 0.5000 |\n" in report
    rows = ["| class | f1 | support |", "| --- | --- | --- |", "| a | 0.2500 | 1200 |", "| b \\| c | 0.7500 | 3 |"]
    rows += ["| &lt;script&gt;alert(1)&lt;/script&gt; | 0.5000 |  |"]
    rows += ["| \\[x\\](javascript:y) \\`&amp;\\\\\\[ | 0.5000 |  |"]
    assert "## Classes\n\n" + "\n".join(rows) in report


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    write_report(tmp_path, {}, HISTORY[:1], Score({}, compute_confusion=lambda: (["a", "b"], None)))
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    assert "png" not in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("labels", [["up to $10^$", "$\\frac$"], ["_", "a\nb"], ["l" * 5000, "<&>"]])
@pytest.mark.filterwarnings("error")
def test_labels_in_pictures_are_texts_and_no_formulas(tmp_path, labels):
    history = [{"epoch": 1, "loss": 1.0, "f1 of $10^$": 0.5}]
    score = Score({"f1 of $10^$": 0.5}, compute_confusion=lambda: (labels, np.eye(2, dtype=int)))
    write_report(tmp_path, {"train": "a\nb|c"}, history, score)
    assert (tmp_path / CONFUSION).read_bytes().startswith(b"\x89PNG")
    assert "| train | a b\\|c |" in (tmp_path / "report.md").read_text()


def test_a_picture_that_cannot_be_drawn_is_a_warning_and_the_report_is_written(tmp_path):
    (tmp_path / CONFUSION).write_text("of the run before")
    with warning_names(tmp_path / CONFUSION, "drawn"):
        bad = (["a", "b"], np.array([["no", "number"], [1, 2]]))
        write_report(tmp_path, {}, HISTORY, Score({}, compute_confusion=lambda: bad))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["learning_curve.png", "report.md"]
    assert "confusion" not in (tmp_path / "report.md").read_text()
