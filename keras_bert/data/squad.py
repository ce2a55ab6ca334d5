"""Reads SQuAD: questions, contexts and answers, in its own JSON or as rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_bert.data.examples import Answer, Examples, Problems, Rows, check_text
from keras_bert.data.table_formats import FileKind, check_kind
from keras_bert.data.tables import Table
from keras_bert.files import parse_json, read_lines, read_text

_KINDS = ("squad", "json", "jsonl", "parquet", "text", "unknown")


def read_squad(path: str | Path, *, skip_bad: bool = False) -> Examples:
    """Reads questions from a JSON file in SQuAD's format (https://rajpurkar.github.io/SQuAD-explorer/).

    In version 2.0, a question that `is_impossible` has no answers. A file without any answers is read for prediction.

    The file may also be JSON lines or Parquet, as the library `datasets` writes SQuAD. Its rows have `id`, `question`,
    `context`, and `answers`, an object of two lists, `text` and `answer_start`. If these lists are empty, the question
    is impossible.

    Args:
        path: the file.
        skip_bad: leave out bad questions, with a warning, instead of raising.

    Raises:
        ValueError: as every reader (see `keras_bert.data`); or the file is not in SQuAD's format. A question is bad if
            it has no text, no unique id or no context; if it has no answers and is not impossible; or if an answer is
            not at its `answer_start`, in characters (code points).

    Example:
        >>> import json, pathlib, tempfile
        >>> question = {"id": "q1", "question": "Who sang?", "answers": [{"text": "Ada", "answer_start": 0}]}
        >>> article = {"title": "Songs", "paragraphs": [{"context": "Ada sang.", "qas": [question]}]}
        >>> path = pathlib.Path(tempfile.mkdtemp(), "train.json")
        >>> _ = path.write_text(json.dumps({"version": "1.1", "data": [article]}))
        >>> read_squad(path).labels
        [(Answer(text='Ada', start=0),)]
    """
    table = _open_table(path)
    content = _read_content(path) if table is None else None
    try:
        question_rows = list(_list_questions(content) if table is None else _read_rows(table))
    except (LookupError, TypeError) as error:
        raise ValueError(f"{path} is not in SQuAD's format, data > paragraphs > context and qas: {error!r}") from None
    if not question_rows:
        raise ValueError(f"{path} has no questions")
    has_answers = any(_list_answers(question) or question.get("is_impossible") for _, question, *_ in question_rows)
    problems = Problems(path, "questions")
    examples: dict[str, tuple[str, str, tuple[Answer, ...], int, Mapping[str, Any]]] = {}  # by id
    for number, (context, question, line, row) in enumerate(question_rows, start=1):
        name = f"question {question.get('id') or number}"
        try:
            if "fault" in question:
                raise ValueError(question["fault"])
            given = question.get("id")
            question_id = str(given) if type(given) is int else _read_field(question, "id")
            if question_id in examples:
                raise ValueError("its id is not unique")
            text = _read_field(question, "question")
            _read_field({"context": context}, "context")
            answers = tuple(_parse_answers(question, context)) if has_answers else ()
        except ValueError as error:
            problems.add(name, str(error))
            continue
        examples[question_id] = (text, context, answers, line, row)
    problems.settle(len(question_rows), skip_bad)
    questions, contexts, labels, lines, cells = (list(column) for column in zip(*examples.values(), strict=True))
    rows = Rows(path, {"id": list(examples)})
    if table is not None:
        used = ("id", "question", "context", "answers")
        rows = Rows(path, {"line": lines, "id": list(examples)}, table.unit, cells, used=used)
    return Examples({"question": questions, "context": contexts}, labels if has_answers else None, rows)


def _read_content(path: str | Path) -> Any:
    text = read_text(path, may_be_compressed=True)
    try:
        return parse_json(text)
    except ValueError as error:
        raise ValueError(f"{path} is not a JSON file: {error}") from None


def _list_questions(content: Any) -> Iterator[tuple[str, dict[str, Any], int, dict[str, Any]]]:
    """Yields each context, its question, no line and no row. Raises LookupError or TypeError in another format."""
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            context = paragraph["context"]
            for question in paragraph["qas"]:
                if not isinstance(context, str) or not isinstance(question, dict):
                    raise TypeError(f"a {type(context).__name__} as context, a {type(question).__name__} as question")
                yield context, question, 0, {}


def _open_table(path: str | Path) -> Table | None:
    """Opens a file with a question in each row, even if it is named .json, as `datasets` names JSON lines."""
    is_table = check_squad(path).is_table
    if Path(path).suffix.lower() == ".json":  # an object in one line may be no row
        is_table = is_table and '"question"' in next(read_lines(path), "")
    return Table(path) if is_table else None


def check_squad(path: str | Path) -> FileKind:
    """Recognizes a file. Raises ValueError if it is neither JSON nor a table that may hold SQuAD."""
    return check_kind(path, "SQuAD's JSON, or its rows as JSON lines or Parquet", *_KINDS)


def _read_rows(table: Table) -> Iterator[tuple[Any, dict[str, Any], int, dict[str, Any]]]:
    """Yields the context, the question (of a bad row, its `fault`), the number and the cells of each row."""
    for number, row in table:
        if not isinstance(row, dict):
            yield None, {"fault": f"line {number}: {row}"}, number, {}
            continue
        impossible = {} if row.get("answers") is None else {"is_impossible": not _list_answers(row)}
        yield row.get("context"), {**impossible, **row}, number, row


def _list_answers(question: Mapping[str, object]) -> object:
    """Converts the answers of a question to a list of objects. Damaged answers stay as they are."""
    answers = question.get("answers") or []
    if not isinstance(answers, dict):
        return answers
    texts, starts = answers.get("text"), answers.get("answer_start")
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        return answers
    return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]


def _read_field(question: Mapping[str, object], name: str) -> str:
    value = question.get(name)
    if not isinstance(value, str):
        raise ValueError(f"{name} is {value!r}, which is not a text")
    return check_text(value, name)


def _parse_answers(question: Mapping[str, object], context: str) -> list[Answer]:
    """Reads a question's answers. Raises ValueError if they are damaged or contradict `is_impossible`."""
    answers, impossible = _list_answers(question), question.get("is_impossible", False)
    if impossible and answers:
        raise ValueError("is_impossible is true, but the question has answers")
    if not impossible and not answers:
        raise ValueError("the question has no answers; set is_impossible to true if its context has none")
    if not isinstance(answers, list):
        what = "an object" if isinstance(answers, dict) else f"a {type(answers).__name__}"
        raise ValueError(f"answers are {what}; expected a list, or an object of two lists, text and answer_start")
    return [_parse_answer(each, context) for each in answers]


def _parse_answer(answer: object, context: str) -> Answer:
    if not isinstance(answer, dict):
        raise ValueError(f"an answer is {answer!r:.60} instead of an object with text and answer_start")
    text, start = _read_field(answer, "text"), answer.get("answer_start")
    if isinstance(start, float) and start.is_integer():
        start = int(start)
    if type(start) is not int:  # True is an int as well
        raise ValueError(f"answer_start of {text!r:.60} is {start!r:.60}, which is not a whole number")
    if not 0 <= start < len(context):
        raise ValueError(f"answer_start of {text!r:.60} is {start}, but its context has {len(context):,} characters")
    if not context.startswith(text, start):
        position = context.find(text)
        where = "nowhere in its context" if position < 0 else f"first at {position}, counted in characters"
        raise ValueError(f"answer {text!r:.60} is not at its answer_start {start}, but {where}")
    return Answer(text, start)
