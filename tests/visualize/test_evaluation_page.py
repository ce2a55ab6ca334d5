"""The page of an evaluation: what it shows of measures, classes and answers, and that texts are only texts."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import numpy as np

from keras_bert.visualize.evaluation_page import ExampleAnswer, page


class Tables(HTMLParser):
    """The tables of a page: rows of cells, each a text; and of each cell its attributes."""

    def __init__(self, html):
        super().__init__()
        self.tables, self.attributes, self._inside = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("th", "td"):
            self.tables[-1][-1].append("")
            self.attributes.append(dict(attributes))
        self._inside = tag in ("th", "td")

    def handle_endtag(self, tag):
        self._inside = False

    def handle_data(self, data):
        if self._inside:
            self.tables[-1][-1][-1] += data


HOSTILE = "</td><script>alert(1)</script>"
WORST = [
    ExampleAnswer({"text": HOSTILE}, [{"label": "a", "answer": HOSTILE, "probability": 0.75}]),
    ExampleAnswer(
        {"text": ["two", "words"]},
        [{"label": "a", "answer": "b", "probability": 0.5}, {"label": "b", "answer": None, "probability": None}],
    ),
]


def test_tables():
    details = {"mae": 2.0, "recall of a": 0.5, "f1 of a": 0.25, "support of a": 1200, "f1 of b of c": 1.0}
    confusion = ["a", HOSTILE], np.array([[1, 3], [0, 1200]])
    shown = Tables(page("model", {"accuracy": 1 / 3}, details, confusion, WORST, "2 of 9"))
    measures, classes, matrix, answers = shown.tables
    assert measures == [["measure", "value"], ["accuracy", "0.3333"], ["mae", "2.0000"]]
    assert classes == [
        ["class", "recall", "f1", "support"],
        ["a", "0.5000", "0.2500", "1,200"],
        ["b of c", "", "1.0000", ""],
    ]
    assert matrix == [["", "a", HOSTILE], ["a", "1", "3"], [HOSTILE, "0", "1,200"]]
    assert answers == [
        ["text", "label", "answer", "probability"],
        [HOSTILE, "a", HOSTILE, "0.7500"],
        ["two words", "a", "b", "0.5000"],
        ["b", "", ""],
    ]
    shades = [each["class"] for each in shown.attributes if re.search(r"\d", each.get("class", ""))]
    assert shades == ["number right2", "number wrong8", "number wrong0", "number right10"]  # tenths of the row
    assert [each["rowspan"] for each in shown.attributes if "rowspan" in each] == ["2"]


def test_a_baseline_stands_beside_its_measure():
    shown = Tables(page("model", {"mae": 1.0, "rmse": 0.5, "rmse_baseline": 1.25}, {}, None, [], ""))
    assert shown.tables == [[["measure", "value", "baseline"], ["mae", "1.0000", ""], ["rmse", "0.5000", "1.2500"]]]


def test_without_classes_and_mistakes():
    html = page("model", {"f1": 0.5}, {}, None, [], "0 of 0")
    assert len(Tables(html).tables) == 1
    assert "Worst" not in html


def test_the_page_loads_and_runs_nothing():
    html = page(HOSTILE, {"accuracy": 0.5}, {}, None, WORST, HOSTILE)
    assert not re.search(r"https?:|src=|<script|style=", html)
    style = html[html.index("<style>") + 7 : html.index("</style>")]
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"content=\"default-src 'none'; style-src 'sha256-{digest}'\"" in html
