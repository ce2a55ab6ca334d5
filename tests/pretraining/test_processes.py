"""A function of many items, in processes: they import no TensorFlow here, which would take seconds each."""

from keras_bert.processes import in_processes

from ..support.processes import shout


def test_each_item_once(capfd):
    assert sorted(in_processes(shout, ["a", "b", "c"], 2)) == ["A", "B", "C"]
    assert capfd.readouterr() == ("", "")
