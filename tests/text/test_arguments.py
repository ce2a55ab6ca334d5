"""What holds many texts, and what does not, whichever library made it."""

import numpy as np
import pandas as pd
import pytest

from keras_bert.text.arguments import check_many, columns_of_table, list_of_str

from ..support.messages import error_names


class Column:
    """An old kind of sequence, as of data sets that predate Python 2.2's iterators."""

    def __getitem__(self, row: int) -> str:
        return ["a", "b"][row]


@pytest.mark.parametrize(
    "many",
    [[], (), ["a"], np.array(["a"]), pd.Series(["a"]), pd.Index(["a"]), {"a": 1}.keys(), range(2), Column(), iter("a")],
)
def test_what_holds_many(many):
    check_many(many)


def test_nothing_is_read_by_the_check():
    texts = iter(["a", "b"])
    check_many(texts)
    assert list_of_str(texts) == ["a", "b"]


TABLES = {
    "pyarrow": lambda pyarrow, data: pyarrow.table(data),
    "datasets": lambda datasets, data: datasets.Dataset.from_dict(data),
    "polars": lambda polars, data: polars.DataFrame(data),
}


@pytest.mark.parametrize("library", TABLES)
def test_tables_of_other_libraries(library):
    table = TABLES[library](pytest.importorskip(library), {"text": ["a", "b"], "label": [0, 1]})
    assert columns_of_table(table) == ["text", "label"]
    with error_names(TypeError, "columns 'text', 'label'", "table['text']"):
        check_many(table)
    check_many(table["text"])


def test_a_message_has_five_columns_and_their_table_may_be_empty():
    with error_names(TypeError, "columns 0, 1, 2, 3, 4, ...", "table[0]"):
        check_many(pd.DataFrame(np.zeros((1, 7))))
    with error_names(TypeError, "texts", "empty dict", "list"):
        check_many({})
