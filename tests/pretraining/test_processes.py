"""A function of many items, in processes: they import no TensorFlow here, which would take seconds each."""

import pytest

from keras_bert.processes import in_processes

from ..support.processes import shout


def test_each_item_once(capfd):
    assert sorted(in_processes(shout, ["a", "b", "c"], 2)) == ["A", "B", "C"]
    assert capfd.readouterr() == ("", "")


def test_an_error_is_raised_here():
    with pytest.raises(ValueError, match="nothing to shout"):
        list(in_processes(shout, [""], 1))


def test_a_process_that_is_killed():
    with pytest.raises(RuntimeError, match="(?s)use fewer processes or smaller parts.*the last words"):
        list(in_processes(shout, ["die"], 1))
