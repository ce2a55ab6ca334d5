"""Indexes: what a search finds, what is encoded anew, what an interruption leaves, what is refused."""

import contextlib
import datetime
import errno
import itertools
import json
import os
import random
import re
import shutil
import sqlite3
import sys
import threading

import numpy as np
import pytest

from keras_bert import BertReranker, BertSentenceEncoder, files
from keras_bert.search import TextIndex, build_index, database, neighbours, remove_rows
from keras_bert.search.database import Settings
from keras_bert.search.neighbours import Neighbours

from ..support import small
from ..support.disks import files_of_at_most
from ..support.messages import error_names, warning_names


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def vectors(small_preset, read_once, sentences):
    return read_once(small_preset).encode(sentences, progress=False)


@pytest.mark.parametrize("stored", ["float32", "int8", "binary"])
@pytest.mark.parametrize("is_exact", [True, False])
def test_a_search_finds_the_nearest(
    corpus, tmp_path, small_preset, sentences, vectors, read_once, monkeypatch, stored, is_exact
):
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 1000 if is_exact else 10)
    count = len(sentences)
    counts = build_index(corpus, tmp_path / "index", small_preset, stored=stored)
    assert counts == {"texts": count, "encoded": count, "truncated": 0}
    index = TextIndex(tmp_path / "index")
    assert (len(index), index.is_exact) == (count, is_exact and stored != "binary")
    cosines = vectors @ read_once(small_preset).encode("a good film", progress=False)
    hits = index.search("a good film", top_k=5)
    tolerance = 1e-5 if stored == "float32" else 0.01
    expected = np.sort(cosines)[::-1][:5]
    np.testing.assert_allclose([hit["similarity"] for hit in hits], expected, rtol=0, atol=tolerance)
    for hit in hits:
        np.testing.assert_allclose(hit["similarity"], cosines[sentences.index(hit["text"])], rtol=0, atol=tolerance)
    assert [hit["row"] for hit in hits] == [{"text": hit["text"]} for hit in hits]
    found = index.search(sentences, top_k=1)
    assert [hits[0]["text"] for hits in found] == sentences
    assert len(index.search("film", top_k=10**6)) == count


@pytest.mark.slow
def test_a_model_that_compares_by_dot_product(untraced, corpus, tmp_path, dot_preset, sentences, read_once):
    model = read_once(dot_preset)
    vectors, query = model.encode(sentences, progress=False), model.encode("film", progress=False)
    products = vectors @ query
    order = np.argsort(-products, kind="stable")[:5]
    assert order.tolist() != np.argsort(-products / np.linalg.norm(vectors, axis=1))[:5].tolist()  # of the cosines
    build_index(corpus, tmp_path / "index", dot_preset)
    hits = TextIndex(tmp_path / "index").search("film", top_k=5)
    assert [hit["text"] for hit in hits] == [sentences[number] for number in order]
    np.testing.assert_allclose([hit["similarity"] for hit in hits], products[order], rtol=1e-5)
    more = shutil.copy(corpus, tmp_path / "more.txt")
    more.write_text(f"{corpus.read_text()}a film\n")
    assert build_index(more, tmp_path / "index", dot_preset)["encoded"] == 1


@pytest.mark.slow
def test_prompts_of_queries_and_documents(untraced, corpus, tmp_path, sentences):
    """A model without Normalize, too: similarities are cosines."""
    prompts = {"query": "good ", "passage": "the bad "}
    model = BertSentenceEncoder(small.encoder(), small.preprocessor(), normalize=False, prompts=prompts)
    model.save_preset(tmp_path / "model")
    build_index(corpus, tmp_path / "index", tmp_path / "model")
    (hit,) = TextIndex(tmp_path / "index").search("film", top_k=1)
    query, *documents = model.encode(["good film", *(f"the bad {text}" for text in sentences)])
    cosines = documents @ query / np.linalg.norm(documents, axis=1) / np.linalg.norm(query)
    assert hit["text"] == sentences[cosines.argmax()]
    assert hit["similarity"] == pytest.approx(cosines.max(), abs=1e-5)


@pytest.mark.slow
def test_a_reranker_puts_the_hits_in_order(untraced, corpus, tmp_path, small_preset, sentences):
    reranker = small.task(BertReranker, config={"num_layers": 1})
    build_index(corpus, tmp_path / "index", small_preset)
    index = TextIndex(tmp_path / "index")
    candidates = {hit["text"]: hit for hit in index.search("film", top_k=50)}
    scores = reranker.score(["film"] * 50, list(candidates))
    best = [text for _, text in sorted(zip(-scores, candidates, strict=True))]
    hits = index.search("film", top_k=3, reranker=reranker)
    assert [hit["text"] for hit in hits] == best[:3]
    assert hits[0].pop("score") == pytest.approx(float(scores.max()), abs=1e-5)
    assert hits[0] == candidates[best[0]]
    assert {hit["text"] for hit in index.search("film", top_k=55, reranker=reranker)} > candidates.keys()


def test_int8_takes_a_quarter(corpus, tmp_path, small_preset, sentences):
    for stored in ("float32", "int8"):
        build_index(corpus, tmp_path / stored, small_preset, stored=stored)
    size, quarter = (sum(path.stat().st_size for path in (tmp_path / each).iterdir()) for each in ("float32", "int8"))
    assert size - quarter == pytest.approx(len(sentences) * 32 * 3, abs=500)


def test_int8_holds_what_lies_between_a_tenth_below_and_above():
    """Of the range of the first vectors; others would be clipped."""
    index = Neighbours.empty(2, 5, np.float32([[0, -1], [1, 1]]))
    inside, outside = [[-0.09, -1.19], [1.09, 1.19]], [[-0.11, 0], [0, -1.21], [1.11, 0], [0, 1.21]]
    assert index.holds(np.float32(inside))
    assert index.holds(None)
    for point in np.float32(outside):
        assert not index.holds(np.stack([np.minimum(point, 0), np.maximum(point, 0)]))


def test_neighbours_of_another_width_are_made_again(tmp_path):
    index = Neighbours.empty(4, 1)
    index.add(np.ones((1, 4)))
    index.write(tmp_path, 7)
    (tmp_path / database.NAME).write_bytes(bytes(2**20))
    assert len(Neighbours.open(tmp_path, Settings("", "", "text", "float32", 4, 7))) == 1
    assert Neighbours.open(tmp_path, Settings("", "", "text", "float32", 5, 7)) is None


def test_binary_finds_the_best_of_those_with_the_nearest_signs(tmp_path):
    random, most = np.random.default_rng(0), 5 * neighbours._OVERSAMPLING
    vectors, queries = (random.standard_normal((count, 48)).astype(np.float32) for count in (2000, 20))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    index = Neighbours.empty(48, len(vectors), np.stack([vectors.min(axis=0), vectors.max(axis=0)]), by_signs=True)
    for some in np.array_split(vectors, 3):
        index.add(some)
    index.write(tmp_path, 7)
    (path,) = tmp_path.glob("*.faiss")
    assert path.stat().st_size == pytest.approx(len(vectors) * (48 + 48 / 8), abs=1000)
    (tmp_path / database.NAME).write_bytes(bytes(len(vectors)))
    for each in (index, Neighbours.open(tmp_path, Settings("", "", "text", "binary", 48, 7))):
        for query, products, numbers in zip(queries, *each.nearest(queries, 5), strict=True):
            differing = ((vectors > 0) != (query > 0)).sum(axis=1)
            farthest, exact = np.sort(differing)[most - 1], vectors @ query
            np.testing.assert_allclose(products, exact[numbers], atol=0.05)
            assert differing[numbers].max() <= farthest  # several vectors may be the farthest, in any order
            assert products[-1] > np.sort(exact[differing < farthest])[-5] - 0.05
    few = np.arange(0, 2000, 400)  # with a filter, each is compared
    np.testing.assert_array_equal(np.sort(index.nearest(queries, 5, few)[1]), np.tile(few, (20, 1)))


@pytest.mark.parametrize("stored", ["float32", "int8", "binary"])
@pytest.mark.parametrize("limit", [1000, 10, 40])  # exact, approximate, and from one to the other
def test_only_new_texts_are_encoded(corpus, tmp_path, small_preset, sentences, vectors, monkeypatch, stored, limit):
    """However few the first ones are, from which int8 takes its range."""
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", limit)
    directory, cosines, indexed = tmp_path / "index", vectors @ vectors.T, set()
    for texts, add in (
        (sentences[:1], False),
        (sentences[1:30], True),
        (sentences[::-1], False),
        (sentences[:20], False),
        (sentences[10:], True),
        (sentences[:5], True),
    ):
        corpus.write_text("\n".join(texts))
        leaving = set() if add else indexed - set(texts)
        with warning_names(directory, corpus, len(leaving), "add=True") if leaving else contextlib.nullcontext():
            counts = build_index(corpus, directory, small_preset, stored=stored, add=add)
        new, indexed = set(texts) - indexed, indexed - leaving | set(texts)
        assert counts == {"texts": len(indexed), "encoded": len(new), "truncated": 0}
        index = TextIndex(directory)
        assert index.is_exact == (stored != "binary" and len(indexed) <= limit)
        for row, hits in zip(cosines, index.search(sentences, 60), strict=True):
            assert {hit["text"] for hit in hits} == indexed
            expected = [row[sentences.index(hit["text"])] for hit in hits]
            np.testing.assert_allclose([hit["similarity"] for hit in hits], expected, rtol=0, atol=0.01)


def test_vectors_of_a_damaged_model_are_not_stored(untraced, tmp_path, small_preset, read_once):
    """One weight is not a number: only some texts need it."""
    model = BertSentenceEncoder(small.encoder(), small.preprocessor())
    table = model.encoder.embeddings.word_embeddings.embeddings
    values = np.array(table)
    values[small.VOCABULARY.index("film"), 3] = np.nan
    table.assign(values)
    model.save_preset(tmp_path / "model")
    (tmp_path / "texts.txt").write_text("the river\na good film\n")
    with error_names(ValueError, "1 of 2 texts", "not finite", "text 2"):
        build_index(tmp_path / "texts.txt", tmp_path / "index", tmp_path / "model")
    (tmp_path / "texts.txt").write_text("the river\n")
    assert build_index(tmp_path / "texts.txt", tmp_path / "index", tmp_path / "model")["texts"] == 1


def test_rows_of_tables(tmp_path, small_preset):
    """Equal rows are one; equal texts of different rows are encoded once."""
    table, lines, directory = tmp_path / "films.csv", tmp_path / "films.jsonl", tmp_path / "index"
    table.write_text('id,review\n7,"good film, great plot"\n8,bad film\n8,bad film\n9,bad film\n')
    assert build_index(table, directory, small_preset, "review") == {"texts": 3, "encoded": 2, "truncated": 0}
    hits = TextIndex(directory).search("bad film")
    assert [hit["row"] for hit in hits[:2]] == [{"id": str(n), "review": "bad film"} for n in (8, 9)]
    assert hits[2]["row"] == {"id": "7", "review": "good film, great plot"}
    rows = [{"review": "日本語 \u2028", "stars": [1, None]}, {"review": "word " * 600}]
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert build_index(lines, directory, small_preset, "review", add=True) == {"texts": 5, "encoded": 2, "truncated": 1}
    assert TextIndex(directory).search("日本語 \u2028", top_k=1)[0]["row"] == rows[0]


@pytest.mark.parametrize("killed", [False, True])
def test_an_interrupted_run_goes_on(corpus, tmp_path, small_preset, sentences, monkeypatch, read_once, killed):
    directory, model, encoded = tmp_path / "index", read_once(small_preset), []
    encode = type(model).encode_counted

    def interrupt(self, texts, **arguments):
        if encoded:
            raise KeyboardInterrupt
        encoded.extend(texts)
        return encode(self, texts, **arguments)

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "encode_counted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_index(corpus, directory, small_preset)
    if killed:  # in the middle of a write
        for path in directory.glob("*-wal"):
            path.write_bytes(b"half a page" * 1000)
    with error_names(FileNotFoundError, directory, database.NAME):
        TextIndex(directory)
    count = len(sentences)
    assert build_index(corpus, directory, small_preset) == {"texts": count, "encoded": count - 16, "truncated": 0}
    assert [hits[0]["text"] for hits in TextIndex(directory).search(sentences, top_k=1)] == sentences


def test_a_reader_beside_a_writer_finds_one_state_or_the_other(corpus, tmp_path, small_preset, sentences):
    """Each state has one more row, which takes the place of another. The readers are open all the time."""
    directory, ended, wrong, counts = tmp_path / "index", threading.Event(), [], set()
    rows = [{"id": number, "state": 0, "text": text} for number, text in enumerate(sentences)]

    def write(rows, **options):
        build_index(write_rows(tmp_path / "rows.jsonl", rows), directory, small_preset, **options)

    write(rows[:20])
    index = TextIndex(directory)

    def read():
        while not ended.is_set():
            hits = index.search("good film", top_k=100, hybrid=len(counts) % 2 == 0)
            states = [hit["row"]["state"] for hit in hits]
            newest = max(states)
            if len(hits) != 20 + newest or sorted({row["row"]["id"] for row in hits}) != list(range(20 + newest)):
                wrong.append(hits)
            if sorted(states) != sorted([0] * (20 - newest) + [each for s in range(1, newest + 1) for each in (s, s)]):
                wrong.append(states)
            counts.add(len(hits))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for state in range(1, 15):
        changed = [{**rows[number], "state": state} for number in (state, 19 + state)]
        write(changed, add=True, id_column="id")
    ended.set()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(counts) > 1
    assert (len(index), len(TextIndex(directory))) == (34, 34)


@pytest.mark.parametrize(("full", "reason"), [("rows", "disk"), ("neighbours", "No space left")])
def test_a_failed_run_leaves_the_old_index(corpus, tmp_path, small_preset, sentences, monkeypatch, full, reason):
    directory = tmp_path / "index"
    build_index(corpus, directory, small_preset)
    before = TextIndex(directory).search(sentences[3], top_k=5)
    corpus.write_text("the river\n" + "".join(f"the river {number}\n" for number in range(600)))

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(neighbours.Neighbours, "write", fail)
        with files_of_at_most(10**9 if full == "neighbours" else 100_000), error_names(OSError, reason):
            build_index(corpus, directory, small_preset)
    assert TextIndex(directory).search(sentences[3], top_k=5) == before
    assert build_index(corpus, directory, small_preset)["texts"] == 601
    assert TextIndex(directory).search("the river", top_k=1)[0]["text"] == "the river"


def test_another_model_and_other_settings_are_refused(corpus, tmp_path, small_preset):
    directory, other, moved = (tmp_path / name for name in ("index", "other", "moved"))
    build_index(corpus, directory, small_preset, stored="int8")
    for path in (moved, other):
        shutil.copytree(small_preset, path)
    assert len(TextIndex(directory, moved)) == len(TextIndex(directory))  # the same model, wherever it is
    (other / "vocab.txt").write_text("\n".join([*small.VOCABULARY[:-2], small.VOCABULARY[-1], small.VOCABULARY[-2]]))
    with error_names(ValueError, directory, small_preset, other, "another directory"):
        build_index(corpus, directory, other)
    with error_names(ValueError, directory, small_preset, other, "use that model"):
        TextIndex(directory, other)
    with error_names(ValueError, directory, "int8", "float32", "another directory"):
        build_index(corpus, directory, small_preset, stored="float32")
    with error_names(ValueError, directory, "column", "'text'", "'body'"):
        build_index(write_rows(tmp_path / "a.jsonl", [{"body": "a film"}]), directory, small_preset, "body", add=True)


def test_a_corpus_that_cannot_be_indexed_is_refused(corpus, tmp_path, small_preset):
    """And that is said before anything is written."""
    (tmp_path / "blank.txt").write_text(" \n\n")
    write_rows(tmp_path / "rows.jsonl", [{"text": "a", "id": 1}, {"text": 5}])
    write_rows(tmp_path / "ids.jsonl", [{"text": "a", "id": 7}, {"text": "b", "id": "7"}, {"text": "c"}])
    for name, options, error, words in (
        ("none.txt", {}, FileNotFoundError, ["none.txt"]),
        ("blank.txt", {}, ValueError, ["blank.txt", "empty"]),
        ("rows.jsonl", {}, ValueError, ["rows.jsonl", "1 of 2 rows", "line 2", "text is 5"]),
        ("rows.jsonl", {"text_column": "body"}, ValueError, ["rows.jsonl", "'body'", "'text', 'id'"]),
        ("ids.jsonl", {"id_column": "id"}, ValueError, ["ids.jsonl", "id", "'7'", "twice", "1 and 2"]),
        ("ids.jsonl", {"id_column": "name"}, ValueError, ["ids.jsonl", "line 1", "'name'"]),
        ("sentences.txt", {"stored": "int4"}, ValueError, ["stored", "'int4'", "float32 or int8"]),
        ("sentences.txt", {"batch_tokens": 0}, ValueError, ["batch_tokens", 0, "at least 1"]),
        ("sentences.txt", {"preset": tmp_path / "no"}, FileNotFoundError, [tmp_path / "no", "directory", "preset"]),
    ):
        with error_names(error, *words):
            build_index(tmp_path / name, tmp_path / "index", **{"preset": small_preset, **options})
        assert not (tmp_path / "index").exists()


def cut_short(path):
    path.write_bytes(path.read_bytes()[:-20000])


def overwrite(path):
    path.write_bytes(b"x" * path.stat().st_size)


def execute(statement, neighbours=True):
    def damage(path):
        if not neighbours:  # the vectors themselves are read
            next(path.parent.glob("*.faiss")).unlink()
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.executescript(statement)

    return damage


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (cut_short, ["damaged"]),
        (overwrite, ["damaged"]),
        (execute("PRAGMA application_id = 7"), ["another program"]),
        (execute("PRAGMA user_version = 7"), ["another version"]),
        (execute("CREATE TRIGGER t AFTER DELETE ON rows BEGIN DELETE FROM vectors; END"), ["was changed"]),
        (execute("UPDATE vectors SET vector = x'00'", neighbours=False), ["damaged", "vector"]),
        (execute("DELETE FROM vectors WHERE id = 3", neighbours=False), ["damaged", "differ"]),
        (execute("UPDATE rows SET text = 'x'"), ["damaged", "row"]),
        (execute("UPDATE rows SET text = CAST(x'ff' AS TEXT)"), ["damaged", "UTF-8"]),
        *((execute(f"UPDATE {each}"), ["damaged", "rows or settings"]) for each in (
            "settings SET width = 'x'",
            "settings SET preset = 'another'",
            "settings SET digest = NULL",
            "rows SET words = 'many'",
            "rows SET words = words + 1 WHERE id = 7",
            "rows SET vector = vector - 1 WHERE id = 7",
            "rows SET id = 700 WHERE id = 7",
            "postings SET rows = x'0102'",
            "postings SET rows = x'01000000' WHERE value = 'film'",
            "postings SET value = 'fulm' WHERE value = 'film'",
            "postings SET text = 'x' WHERE value = 'film'",
            "postings SET value = CAST('film' AS BLOB) WHERE value = 'film'",
        )),
        (execute("DELETE FROM settings"), ["no complete"]),
        (lambda path: path.write_bytes(b""), ["no complete"]),
        (lambda path: path.unlink(), ["no complete"]),
    ],
)  # fmt: skip
def test_a_damaged_or_foreign_index_is_refused(corpus, tmp_path, small_preset, damage, words):
    directory = tmp_path / "index"
    build_index(corpus, directory, small_preset)
    damage(directory / database.NAME)
    with error_names((ValueError, FileNotFoundError), directory, database.NAME, *words) as raised:
        TextIndex(directory).search("film", hybrid=True)
    assert "\n" not in str(raised.value)


def test_an_index_of_the_old_format_is_upgraded_without_encoding(films, tmp_path, small_preset):
    """Its words and the meanings of its cells were others, so a search does not read them."""
    rows, directory = films
    expected = TextIndex(directory).search("good film", 100, where={"year": {">": 2001}}, hybrid=True)
    more = write_rows(tmp_path / "more.jsonl", [rows[0]])
    old = "; ".join(
        [
            "CREATE TABLE kept AS SELECT preset, model, text_column, stored, width, version FROM settings",
            f"DROP TABLE settings; {database._OLD_SCHEMA[0]}",
            "INSERT INTO settings SELECT * FROM kept; DROP TABLE kept; DELETE FROM postings; UPDATE rows SET words = 1",
            "PRAGMA user_version = 2",
        ]
    )
    for change in (
        lambda: build_index(more, directory, small_preset, add=True)["encoded"],
        lambda: remove_rows(directory, {"id": "none"}),
    ):
        execute(old)(directory / database.NAME)
        with error_names(ValueError, directory, "older version", "index the corpus again", "no text is encoded twice"):
            TextIndex(directory)
        assert change() == 0
        assert TextIndex(directory).search("good film", 100, where={"year": {">": 2001}}, hybrid=True) == expected
    execute(old + "; UPDATE rows SET text = 'x' WHERE id = 3")(directory / database.NAME)
    with error_names(ValueError, directory, "damaged", "row 3"):
        build_index(more, directory, small_preset, add=True)


@pytest.mark.parametrize("add", [True, False])
@pytest.mark.parametrize("are_same", [True, False])
def test_two_writers_where_the_file_system_has_no_locks(
    corpus, tmp_path, small_preset, sentences, monkeypatch, read_once, add, are_same
):
    """The second makes its change while the first one encodes, and takes the vectors without rows for leftovers."""
    directory, other, model, calls = tmp_path / "index", tmp_path / "other.txt", read_once(small_preset), []
    other.write_text(corpus.read_text() if are_same else "the river\ngood money\n")
    (tmp_path / "first.txt").write_text("a film\n")
    build_index(tmp_path / "first.txt", directory, small_preset)
    encode = type(model).encode_counted

    def change_meanwhile(self, texts, **arguments):
        calls.append(len(texts))
        if len(calls) == 3:  # an empty batch checks the arguments
            build_index(other, directory, small_preset, add=True)
        return encode(self, texts, **arguments)

    def no_locks(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(files.fcntl, "flock", no_locks)
    monkeypatch.setattr(type(model), "encode_counted", change_meanwhile)
    leaving = 0 if add else 1 if are_same else 3
    with warning_names(directory, leaving, "add=True") if leaving else contextlib.nullcontext():
        build_index(corpus, directory, small_preset, add=add)
    expected = {*sentences, *(["a film"] if add else []), *(other.read_text().splitlines() if add else [])}
    assert sorted(hit["text"] for hit in TextIndex(directory).search("film", 100)) == sorted(expected)
    assert len(list(directory.glob("*.faiss"))) == 1


@pytest.mark.parametrize("name", [".lock", database.NAME, f"{database.NAME}-wal", f"{database.NAME}-journal"])
def test_an_index_is_not_changed_through_links(films, tmp_path, name):
    """Whoever made its directory may have made them."""
    mine, link = tmp_path / "mine", films[1] / name
    if name == database.NAME:
        shutil.move(link, mine)
    else:
        mine.write_text("precious")
    content = mine.read_bytes()
    link.symlink_to(mine)
    with error_names(OSError, films[1]):
        remove_rows(films[1], {"id": "3"})
    assert mine.read_bytes() == content


def test_a_path_that_is_not_utf8(tmp_path, small_preset, sentences, corpus):
    directory = tmp_path / os.fsdecode(b"M\xfcnchen")
    build_index(corpus, directory, small_preset)
    assert TextIndex(directory).search(sentences[3], 1)[0]["text"] == sentences[3]
    assert len(list(directory.glob("*.faiss"))) == 1
    shutil.copytree(small_preset, directory / "model")
    with error_names(ValueError, "model", "M\\udcfcnchen", "surrogate"):
        build_index(corpus, tmp_path / "other", directory / "model")


def put_a_pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize(
    "damage", [cut_short, overwrite, lambda path: path.unlink(), put_a_pipe, lambda path: os.truncate(path, 40 << 30)]
)
def test_the_file_of_neighbours_is_made_again(corpus, tmp_path, small_preset, sentences, damage):
    build_index(corpus, tmp_path / "index", small_preset)
    (path,) = (tmp_path / "index").glob("*.faiss")
    content = path.read_bytes()
    damage(path)
    assert [hits[0]["text"] for hits in TextIndex(tmp_path / "index").search(sentences, top_k=1)] == sentences
    assert path.read_bytes() == content


def test_an_index_where_nothing_can_be_written(corpus, tmp_path, small_preset, monkeypatch):
    """Such as in an image: without the files that SQLite's readers share, and maybe without that of the neighbours."""
    build_index(corpus, tmp_path / "index", small_preset)
    next((tmp_path / "index").glob("*.faiss")).unlink()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    monkeypatch.setattr(neighbours.Neighbours, "write", lambda *_: (_ for _ in ()).throw(PermissionError(13, "no")))
    assert TextIndex(tmp_path / "index").search("film", where={"text": "a film"}) == []
    assert [path.name for path in (tmp_path / "index").iterdir()] == [database.NAME]


def test_without_faiss(corpus, tmp_path, small_preset, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with error_names(ImportError, "faiss-cpu", "pip install 'keras-bert-models[search]'"):
        build_index(corpus, tmp_path / "index", small_preset)


def test_parquet_with_values_that_python_cannot_hold(tmp_path, small_preset):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "films.parquet"
    days = pa.array(np.array(["1970-01-01", "12000-01-01"], "datetime64[D]"))
    parquet.write_table(pa.table({"day": days, "text": ["good film", "cold river"]}), path)
    build_index(path, tmp_path / "index", small_preset)
    (hits,) = TextIndex(tmp_path / "index").search(["cold river"], 1)
    assert hits[0]["row"] == {"day": "12000-01-01", "text": "cold river"}
    word = pa.StringArray.from_buffers(1, pa.py_buffer(np.int32([0, 3])), pa.py_buffer(b"h\xe9h"))
    parquet.write_table(pa.table({"text": ["good film"], "word": word}), path)
    with error_names(ValueError, path, "1 of 1 rows", "row 1", "word", "UTF-8", "0xe9", "byte 1"):
        build_index(path, tmp_path / "other", small_preset)


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["float32", "int8", "binary"])
def test_damaged_files_are_refused_with_their_directory(corpus, tmp_path, small_preset, stored):
    """A byte or a few, of any file: the same hits, or an error of ours."""
    directory, refused, unnamed = tmp_path / "index", 0, []
    build_index(corpus, directory, small_preset, stored=stored)
    hits = {hybrid: TextIndex(directory).search("film", top_k=3, hybrid=hybrid) for hybrid in (False, True)}
    contents = {path: path.read_bytes() for path in directory.iterdir() if path.stat().st_size}
    for seed in range(400):
        chance = random.Random(seed)
        path = chance.choice(sorted(contents))
        damaged = bytearray(contents[path])
        for _ in range(chance.choice([1, 1, 2, 4])):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged[: chance.choice([len(damaged)] * 3 + [chance.randrange(len(damaged))])])
        if chance.random() < 0.5 and path.name == database.NAME:  # the vectors themselves are read
            next(directory.glob("*.faiss")).unlink()
        try:
            hybrid = chance.random() < 0.5
            assert TextIndex(directory, small_preset).search("film", top_k=3, hybrid=hybrid) == hits[hybrid], seed
        except (ValueError, OSError) as error:
            refused += 1
            if str(directory) not in str(error):
                unnamed.append((seed, path.name, str(error)))
        for path, content in contents.items():
            path.write_bytes(content)
    assert unnamed == []
    assert refused > 40


@pytest.fixture
def films(tmp_path, small_preset, sentences):
    """An index of sixty rows: their ids, one of three kinds, and a year that JSON holds as a number."""
    kinds = itertools.cycle(["drama", "comedy", None])
    rows = [
        {"id": f"{number}", "text": text, "kind": kind, "year": 2000 + number % 5}
        for number, (text, kind) in enumerate(zip(sentences, kinds, strict=False))
    ]
    build_index(write_rows(tmp_path / "films.jsonl", rows), tmp_path / "index", small_preset)
    return rows, tmp_path / "index"


@pytest.mark.parametrize(
    ("where", "keeps"),
    [
        ({"kind": "drama"}, lambda row: row["kind"] == "drama"),
        ({"kind": ["drama", "comedy"], "year": 2003}, lambda row: row["kind"] is not None and row["year"] == 2003),
        ({"year": "2003"}, lambda row: row["year"] == 2003),
        (
            {"year": {">": 2001, "<=": 2003}, "kind": "drama"},
            lambda r: r["year"] in (2002, 2003) and r["kind"] == "drama",
        ),
        ({"kind": {"<": "d"}}, lambda row: row["kind"] == "comedy"),
        ({"kind": None}, lambda row: row["kind"] is None),
        ({"kind": "western"}, lambda row: False),
        ({"kind": []}, lambda row: False),
        ({"id": [*range(10, 90), *(f"x{each}" for each in range(40000))]}, lambda row: int(row["id"]) >= 10),
    ],
)
@pytest.mark.parametrize("limit", [1000, 10])
def test_a_filter_leaves_what_matches_in_the_order_of_the_search(films, where, keeps, limit, monkeypatch):
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", limit)
    rows, directory = films
    if limit < 1000:
        next(directory.glob("*.faiss")).unlink()  # a graph is made instead
    index = TextIndex(directory)
    for query in ("good film", "cold river"):
        expected = [hit["row"]["id"] for hit in index.search(query, len(rows)) if keeps(hit["row"])]
        found = index.search(query, len(rows), where=where)
        assert [hit["row"]["id"] for hit in found] == expected
        assert [hit["row"]["id"] for hit in index.search(query, 3, where=where)] == expected[:3]
        both = index.search(query, len(rows), where=where, hybrid=True)
        assert sorted(hit["row"]["id"] for hit in both) == sorted(expected)
    assert len(expected) == sum(map(keeps, rows))


DAY, TIME = datetime.date(2025, 1, 2), datetime.datetime(2025, 1, 2, 10, 30, tzinfo=datetime.timezone.utc)
NANOSECONDS = np.datetime64("2025-01-02T10:30:00.000000001")


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([2025, 2025.0, "2025", "2025.0", np.int64(2025), np.float32(2025)], [2025, 2025.0]),
        ([2025, 2025.0, np.int64(2025)], ["2025", "2025.0"]),
        ([True, "true", "True", "TRUE", np.True_], [True]),
        ([True, np.True_], ["true", "True", "TRUE"]),
        ([2.5, "2.5", np.float64(2.5)], [2.5]),
        ([2**70, str(2**70)], [2**70, str(2**70)]),
        ([None, float("nan"), np.float32("nan"), np.datetime64("NaT")], [None]),
        ([DAY, "2025-01-02", np.datetime64("2025-01-02"), np.datetime64("2025-01-02", "ns")], ["2025-01-02"]),
        ([TIME, np.datetime64("2025-01-02T10:30", "ns")],
         ["2025-01-02 10:30:00", "2025-01-02T11:30:00.0+01:00", "2025-01-02T07:00-03:30"]),
        ([NANOSECONDS, "2025-01-02T10:30:00.000000001"], ["2025-01-02T10:30:00.000000001"]),
        ([range(2024, 2026), {1, 2025}, np.arange(2020, 2030), (each for each in [2025])], [2025, "2025"]),
        ([{">=": 2025}, {">": "2024.5", "<": 2026}, {">=": np.int64(2025), "<": float("inf")}], [2025, "2025", 2025.5]),
        ([{">=": DAY, "<=": TIME}, {">": datetime.date(2025, 1, 1), "<": np.datetime64("2025-01-03", "ns")}],
         ["2025-01-02", "2025-01-02T10:29:59.999999999Z"]),
        ([{">": "z"}, {">=": "z' OR 1=1 --"}], ["z' OR 1=1 --", "zz" * 5000]),
        (["x' OR 1=1 --"], ["x' OR 1=1 --"]),
        (["y" * 5000], ["y" * 5000]),
    ],
)  # fmt: skip
def test_a_value_is_its_text_in_filters(tmp_path, small_preset, values, cells):
    others = ["2025a", "02025", "", -1, 2024.5, False, "false", "2025-01-03", "2025-13-01", [2025], 7, "y" * 4999]
    name = 'cell" OR 1=1 --'
    others += [] if None in cells else [None]
    rows = [{name: cell, "text": "film"} for cell in (*cells, *others)]
    rows += [{"version": cell, "text": "film"} for cell in ("1.1", "1.10", 1.1)]
    build_index(write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "index", small_preset)
    index = TextIndex(tmp_path / "index")

    def cells_where(**where):
        return [next(iter(hit["row"].values())) for hit in index.search("film", 100, where=where)]

    for value in values:
        assert cells_where(**{name: value}) == cells, value
    assert cells_where(version="1.1") == ["1.1", 1.1]  # texts are exact
    assert cells_where(version=1.1) == ["1.1", "1.10", 1.1]


def test_ranges_are_those_of_brute_force(tmp_path, small_preset):
    """Numbers and times, in JSON and in texts, of all kinds of rows."""
    chance, compare = random.Random(0), {">=": "__ge__", ">": "__gt__", "<=": "__le__", "<": "__lt__"}
    start = datetime.datetime(2025, 1, 1)
    numbers = [chance.choice([float(chance.randrange(-50, 50)), chance.uniform(-50, 50)]) for _ in range(300)]
    times = [start + datetime.timedelta(minutes=chance.randrange(10**5)) for _ in numbers]
    rows = [
        {"number": chance.choice([value, f"{value:.20f}".rstrip("0").rstrip(".")]), "time": str(time), "text": "film"}
        for value, time in zip(numbers, times, strict=True)
    ]
    build_index(write_rows(tmp_path / "rows.jsonl", rows), tmp_path / "index", small_preset)
    index = TextIndex(tmp_path / "index")
    for _ in range(100):
        signs = chance.sample(list(compare), chance.choice([1, 2]))
        where = {"number": {sign: chance.choice(numbers) for sign in signs}}
        where["time"] = {sign: chance.choice(times) for sign in signs}
        expected = [
            row
            for row, *pair in zip(rows, numbers, times, strict=True)
            if all(
                getattr(value, compare[sign])(limit)
                for value, limits in zip(pair, where.values(), strict=True)
                for sign, limit in limits.items()
            )
        ]
        assert [hit["row"] for hit in index.search("film", 300, where=where)] == expected, where


@pytest.mark.parametrize(
    ("query", "options", "words"),
    [
        ("", {}, ["query", "empty"]),
        (" \n", {}, ["query", "empty"]),
        (["good", ""], {}, ["query 2", "empty"]),
        *(("good", {"top_k": each}, ["top_k", each, "whole number"]) for each in (float("nan"), 2.5, None, True)),
        ("good", {"top_k": 0}, ["top_k", 0, "at least 1"]),
        ("good", {"where": {}}, ["where", "empty", "column"]),
        ("good", {"where": {"Kind": "drama"}}, ["'Kind'", "columns", "did you mean 'kind'"]),
        ("good", {"where": {"year": {}}}, ["'year'", "empty", ">="]),
        ("good", {"where": {"year": {"=>": 3}}}, ["'year'", "'=>'", ">="]),
        ("good", {"where": {"year": {">=": None}}}, ["'year'", "None", "number"]),
        ("good", {"where": {"year": {">=": True}}}, ["'year'", "True", "number"]),
        ("good", {"where": {"year": {">=": [1, 2]}}}, ["'year'", "[1, 2]", "number"]),
    ],
)
def test_a_search_that_means_nothing_is_refused(films, query, options, words):
    with error_names(ValueError, *words):
        TextIndex(films[1]).search(query, **options)


def test_a_hybrid_search_merges_two_rankings(films):
    """By reciprocal ranks: that of the vectors, and BM25's of the words, as computed here."""
    rows, directory = films
    index = TextIndex(directory)
    words_of = [re.findall(r"\w+", row["text"].lower()) for row in rows]
    average = sum(map(len, words_of)) / len(rows)
    for query in ("good film", "cold river money", 'bank" OR NOT (the* -x: "', "?!", "zebra"):
        by_vectors = [hit["row"]["id"] for hit in index.search(query, 50)]
        scores = np.zeros(len(rows))
        for word in dict.fromkeys(re.findall(r"\w+", query.lower())):
            having = sum(word in words for words in words_of)
            rarity = np.log(1 + (len(rows) - having + 0.5) / (having + 0.5))
            for number, words in enumerate(words_of):
                count = words.count(word)
                scores[number] += rarity * count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(words) / average))
        by_words = [rows[number]["id"] for number in np.argsort(-scores, kind="stable")[:50] if scores[number] > 0]
        merged = {}
        for ranking in (by_vectors, by_words):
            for rank, each in enumerate(ranking, start=1):
                merged[each] = merged.get(each, 0) + 1 / (60 + rank)
        expected = sorted(merged, key=lambda each: (-merged[each], int(each)))
        found = index.search(query, 20, hybrid=True)
        assert [hit["row"]["id"] for hit in found] == expected[:20], query
        similarities = {hit["row"]["id"]: hit["similarity"] for hit in index.search(query, 60)}
        for hit in found:
            assert hit["similarity"] == pytest.approx(similarities[hit["row"]["id"]], abs=1e-5)


def test_a_changed_index_is_like_a_new_one(films, tmp_path, small_preset, monkeypatch):
    """Also one that was not written as a whole."""
    monkeypatch.setattr(database, "_ROWS_AT_A_TIME", 7)
    rows, directory = films
    assert remove_rows(directory, {"id": ["3", 3, 4, "none"]}) == 2
    assert remove_rows(directory, {"id": "3"}) == 0
    changes = [{"id": 7, "text": "a new film"}, {"id": "99", "text": rows[8]["text"]}, rows[5]]
    changes += [{"id": f"{number}", "text": "good film", "kind": "new", "year": number} for number in range(100, 120)]
    counts = build_index(
        write_rows(tmp_path / "changes.jsonl", changes), directory, small_preset, add=True, id_column="id"
    )
    assert counts == {"texts": 79, "encoded": 2, "truncated": 0}
    build_index(write_rows(tmp_path / "price.jsonl", [{"id": "7", "text": "good"}]), directory, small_preset, add=True)
    again = build_index(tmp_path / "changes.jsonl", directory, small_preset, add=True, id_column="id")
    assert again["texts"] == 79  # a row that was there already replaces that of its id, too
    assert remove_rows(directory, {"kind": "new", "year": {">=": 110}}) == 10
    left = [row for row in rows if row["id"] not in ("3", "4", "7")] + [*changes[:2], *changes[3:13]]
    build_index(write_rows(tmp_path / "left.jsonl", left), tmp_path / "new", small_preset)
    indexes = TextIndex(directory), TextIndex(tmp_path / "new")
    for options in ({}, {"where": {"kind": ["new", "drama"]}}, {"where": {"year": {"<": 2003}}}):
        for hybrid in (False, True):
            changed, new = (index.search("the good film", 100, hybrid=hybrid, **options) for index in indexes)
            assert [hit["row"] for hit in changed] == [hit["row"] for hit in new]
            assert len(new) == len(left) or options


def test_all_rows_of_an_index_cannot_be_removed(films, tmp_path):
    with error_names(FileNotFoundError, tmp_path / "none", database.NAME):
        remove_rows(tmp_path / "none", {"id": "3"})
    with error_names(ValueError, "60 rows", films[1], "remove the directory"):
        remove_rows(films[1], {"year": [2000, 2001, 2002, 2003, 2004]})
    assert len(TextIndex(films[1])) == 60
