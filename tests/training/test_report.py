"""report.md and its pictures: with what was measured only sometimes, and without matplotlib."""

import importlib.util

import pytest

from keras_bert.training.report import write_report

HISTORY = [{"step": 10, "loss": 3.0}, {"step": 20, "loss": 2.0, "accuracy": 0.5}]


@pytest.mark.parametrize("panels", [None, {"loss": ["loss"], "never measured": ["f1"], "accuracy": ["accuracy"]}])
def test_a_measure_that_came_later(tmp_path, panels):
    write_report(tmp_path, {"seed": 0}, HISTORY, {"accuracy": 0.5}, panels=panels)
    report = (tmp_path / "report.md").read_text()
    assert (
        "## Steps\n\n| step | loss | accuracy |\n| --- | --- | --- |\n| 10 | 3.0000 |  |\n| 20 | 2.0000 | 0.5000 |"
        in report
    )
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_without_matplotlib(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    write_report(tmp_path, {}, HISTORY[:1], {}, (["a", "b"], None))
    assert [path.name for path in tmp_path.iterdir()] == ["report.md"]
    assert "png" not in (tmp_path / "report.md").read_text()
