"""Files that are written part by part: what goes on, and what is refused. No TensorFlow here."""

import pytest

from keras_bert.output_files import OutputFiles, check_processes

from .support.messages import error_names

NAMES = ["a.txt", "b.txt", "c.txt"]


def write_number(number, path):
    """Two steps for each file."""
    path.write_text(str(number))
    yield {"files": 1, "characters": 0}
    yield {"characters": 1}


def outputs(directory, write=write_number, names=NAMES, **settings):
    return OutputFiles(directory, "notes.json", "numbers", settings, names, write)


def written(directory, processes=1, **options):
    told, work = [], outputs(directory, **options)
    with work.lock() as left:
        work.write(left, processes, told.append)
    assert sum(counts.get("characters", 0) for counts in told) == len(left)
    return left, work.totals("files", "characters")


@pytest.mark.parametrize("processes", [1, 2])
def test_what_is_left_is_written(tmp_path, processes):
    assert written(tmp_path / "new", processes) == ([0, 1, 2], {"files": 3, "characters": 3})
    (tmp_path / "new" / "a.txt").write_text("left alone")
    (tmp_path / "new" / "b.txt").unlink()
    assert written(tmp_path / "new", processes) == ([1], {"files": 3, "characters": 3})
    assert written(tmp_path / "new") == ([], {"files": 3, "characters": 3})
    assert [(tmp_path / "new" / name).read_text() for name in NAMES] == ["left alone", "1", "2"]
    assert sorted(path.name for path in (tmp_path / "new").iterdir()) == [*NAMES, "notes.json"]


def test_an_error_in_the_middle(tmp_path):
    def fail(number, path):
        yield from write_number(number, path)
        if number == 1:
            raise ValueError("no more")

    with error_names(ValueError, "no more"):
        written(tmp_path, write=fail)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "notes.json"]
    (tmp_path / "b.txt").write_text("complete, but the process was killed before it was noted")
    assert written(tmp_path) == ([1, 2], {"files": 3, "characters": 3})


def test_other_work_is_refused(tmp_path):
    written(tmp_path, size=1, kind="x")
    with error_names(ValueError, tmp_path, "numbers", "other size", "another directory"):
        outputs(tmp_path, size=2, kind="x")
    (tmp_path / "d.txt").write_text("years of work")
    with error_names(ValueError, tmp_path, "d.txt", "another directory"):
        outputs(tmp_path, names=[*NAMES, "d.txt"], size=1, kind="x")


def test_what_was_begun_without_a_file_binds_nobody(tmp_path):
    def fail(number, path):
        raise ValueError("size is bad")
        yield

    with error_names(ValueError, "size is bad"):
        written(tmp_path, write=fail, size=0)
    assert written(tmp_path, size=1)[0] == [0, 1, 2]


def test_a_pipeline_has_its_own_workers():
    check_processes(1, object())
    with error_names(ValueError, "processes", 0, "at least 1"):
        check_processes(0, None)
    with error_names(ValueError, "processes", 2, "pipeline", "workers"):
        check_processes(2, object())
