"""Numbers with their nouns."""

import pytest

from keras_bert.counted import counted


@pytest.mark.parametrize(
    ("what", "nouns", "expected"),
    [
        (0, ["row"], "0 rows"),
        (1, ["row"], "1 row"),
        (2048, ["row"], "2,048 rows"),
        (["one"], ["text"], "1 text"),
        (1, ["query", "queries"], "1 query"),
        ({"a": 1, "b": 2}, ["query", "queries"], "2 queries"),
    ],
)
def test_a_noun_has_the_number_of_what_is_counted(what, nouns, expected):
    assert counted(what, *nouns) == expected
