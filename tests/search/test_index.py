"""Indexes: what a search finds, what is encoded anew, what an interruption leaves, what is refused."""

import contextlib
import datetime
import itertools
import json
import random
import shutil
import sys
import threading

import numpy as np
import pytest

from keras_bert import BertReranker, BertSentenceEncoder
from keras_bert.search import TextIndex, build_index, building, neighbours, remove_rows
from keras_bert.search.building import EncodedTexts
from keras_bert.search.index_files import MANIFEST, IndexRows, read_index, write_rows

from ..support import small
from ..support.messages import error_names, warning_names


@pytest.fixture
def vectors(small_preset, read_once, sentences):
    return read_once(small_preset).encode(sentences, progress=False)


def names_of(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("stored", ["float32", "int8"])
@pytest.mark.parametrize("is_exact", [True, False])
def test_a_search_finds_the_nearest(
    corpus, tmp_path, small_preset, sentences, vectors, read_once, monkeypatch, stored, is_exact
):
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", 1000 if is_exact else 10)
    count = len(sentences)
    counts = build_index(corpus, tmp_path / "index", small_preset, stored=stored)
    assert counts == {"texts": count, "encoded": count, "truncated": 0}
    index = TextIndex(tmp_path / "index")
    assert (len(index), index.is_exact) == (count, is_exact)
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


def test_a_model_that_compares_by_dot_product(untraced, corpus, tmp_path, dot_preset, sentences, read_once):
    model = read_once(dot_preset)
    vectors, query = model.encode(sentences, progress=False), model.encode("film", progress=False)
    products = vectors @ query
    order = np.argsort(-products, kind="stable")[:5]
    assert order.tolist() != np.argsort(-products / np.linalg.norm(vectors, axis=1))[:5].tolist()  # of the cosines
    build_index(corpus, tmp_path / "index", dot_preset)
    assert json.loads((tmp_path / "index" / MANIFEST).read_text())["similarity"] == "dot"
    hits = TextIndex(tmp_path / "index").search("film", top_k=5)
    assert [hit["text"] for hit in hits] == [sentences[number] for number in order]
    np.testing.assert_allclose([hit["similarity"] for hit in hits], products[order], rtol=1e-5)
    more = shutil.copy(corpus, tmp_path / "more.txt")
    more.write_text(f"{corpus.read_text()}a film\n")
    assert build_index(more, tmp_path / "index", dot_preset)["encoded"] == 1


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
    size, quarter = ((tmp_path / stored / "vectors-1.faiss").stat().st_size for stored in ("float32", "int8"))
    assert size - quarter == pytest.approx(len(sentences) * 32 * 3, abs=500)


@pytest.mark.parametrize("limit", [1000, 10, 40])  # exact, approximate, and from one to the other
@pytest.mark.parametrize("add", [False, True])
def test_int8_holds_what_comes_after_the_first_texts(
    corpus, tmp_path, small_preset, sentences, vectors, monkeypatch, limit, add
):
    """However few these are."""
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", limit)
    parts = [sentences[:1], sentences[1:3], *(sentences[start : start + 10] for start in range(3, 60, 10))]
    for number in range(len(parts)):
        corpus.write_text("\n".join(itertools.chain(*parts[0 if not add else number : number + 1])))
        build_index(corpus, tmp_path / "index", small_preset, stored="int8", add=add)
    cosines = vectors @ vectors.T
    for row, hits in zip(cosines, TextIndex(tmp_path / "index").search(sentences, len(sentences)), strict=True):
        assert hits[0]["text"] == sentences[row.argmax()]
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
    with error_names(ValueError, "1 of 2 vectors", "not finite", "text 2"):
        build_index(tmp_path / "texts.txt", tmp_path / "index", tmp_path / "model")
    (tmp_path / "texts.txt").write_text("the river\n")
    assert build_index(tmp_path / "texts.txt", tmp_path / "index", tmp_path / "model")["texts"] == 1


@pytest.mark.parametrize("stored", ["float32", "int8"])
@pytest.mark.parametrize("limit", [1000, 10, 40])  # exact, approximate, and from one to the other
def test_only_new_texts_are_encoded(corpus, tmp_path, small_preset, sentences, monkeypatch, stored, limit):
    monkeypatch.setattr(neighbours, "EXACT_UP_TO", limit)
    directory, count = tmp_path / "index", len(sentences)

    def index(texts, **options):
        corpus.write_text("\n".join(texts))
        counts = build_index(corpus, directory, small_preset, stored=stored, **options)
        found = TextIndex(directory)
        assert len(names_of(directory)) == 4
        assert found.is_exact == (counts["texts"] <= limit)
        return counts, [hits[0]["text"] for hits in found.search(sentences, top_k=1)]

    assert index(sentences[:30])[0] == {"texts": 30, "encoded": 30, "truncated": 0}
    assert index(sentences) == ({"texts": count, "encoded": count - 30, "truncated": 0}, sentences)
    assert index(sentences[::-1]) == ({"texts": count, "encoded": 0, "truncated": 0}, sentences)
    with warning_names(directory, corpus, count - 20, "add=True"):
        counts, found = index(sentences[:20])
    assert counts == {"texts": 20, "encoded": 0, "truncated": 0}
    assert found[:20] == sentences[:20]
    assert index(sentences[10:], add=True) == ({"texts": count, "encoded": count - 20, "truncated": 0}, sentences)
    assert index(sentences[:5], add=True) == ({"texts": count, "encoded": 0, "truncated": 0}, sentences)


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

    def interrupt(self, texts, *arguments):
        if encoded:
            raise KeyboardInterrupt
        encoded.extend(texts)
        return encode(self, texts, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(type(model), "encode_counted", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_index(corpus, directory, small_preset)
    (left,) = names_of(directory)
    if killed:  # in the middle of a write
        with open(directory / left, "ab") as file:
            file.write(b"half an entry")
    with error_names(FileNotFoundError, directory, MANIFEST):
        TextIndex(directory)
    count = len(sentences)
    assert build_index(corpus, directory, small_preset) == {"texts": count, "encoded": count - 16, "truncated": 0}
    assert [hits[0]["text"] for hits in TextIndex(directory).search(sentences, top_k=1)] == sentences
    assert names_of(directory) == [MANIFEST, "rows-1.jsonl", "rows-1.npy", "vectors-1.faiss"]


def test_damaged_vectors_of_an_interrupted_run_are_encoded_again(tmp_path):
    path, keys = tmp_path / "encoded.bin", [bytes([i]) * 16 for i in range(3)]
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    with contextlib.closing(EncodedTexts(path, 4)) as encoded:
        encoded.add(keys, vectors)
    content = path.read_bytes()
    for place in range(len(content)):  # each bit of a key, a vector or a checksum counts
        path.write_bytes(content[:place] + bytes([content[place] ^ 1 << place % 8]) + content[place + 1 :])
        with contextlib.closing(EncodedTexts(path, 4)) as encoded:
            damaged = [key for key in keys if key not in encoded]
            assert damaged == [keys[place // (len(content) // 3)]]
            encoded.encode({keys[0]: "0", keys[1]: "1", keys[2]: "2"}, lambda texts: (vectors[[int(texts[0])]], 0))
            np.testing.assert_array_equal(encoded.vectors(keys), vectors)


def test_a_reader_beside_a_rebuild_reads_one_or_the_other(corpus, tmp_path, small_preset, sentences):
    directory, sizes = tmp_path / "index", []
    build_index(corpus, directory, small_preset)

    def opened(manifest):
        if manifest.version == 1 and not sizes:  # another process replaces the index right now
            sizes.append(0)
            corpus.write_text("the river\n")
            build_index(corpus, directory, small_preset)
        return len(IndexRows(directory / manifest.rows, directory / manifest.starts))

    assert read_index(directory, opened) == 1

    def rebuild():
        for count in range(2, 32):
            corpus.write_text("\n".join(sentences[:count]))
            build_index(corpus, directory, small_preset)

    thread = threading.Thread(target=rebuild)
    thread.start()
    while thread.is_alive():
        sizes.append(read_index(directory, opened))
    thread.join()
    assert sizes == sorted(sizes)
    assert len(TextIndex(directory)) == 31


def test_a_failed_run_leaves_the_old_index(corpus, tmp_path, small_preset, sentences, monkeypatch):
    directory = tmp_path / "index"
    build_index(corpus, directory, small_preset)
    before = {path.name: path.read_bytes() for path in directory.iterdir()}
    corpus.write_text("the river\n")

    def fail(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(building, "write_rows", fail)
        with error_names(OSError, "No space left"):
            build_index(corpus, directory, small_preset)
    assert before.items() <= {path.name: path.read_bytes() for path in directory.iterdir()}.items()
    assert TextIndex(directory).search(sentences[3], top_k=1)[0]["text"] == sentences[3]
    assert build_index(corpus, directory, small_preset) == {"texts": 1, "encoded": 0, "truncated": 0}
    assert names_of(directory) == [MANIFEST, "rows-2.jsonl", "rows-2.npy", "vectors-2.faiss"]


@pytest.fixture
def other_preset(tmp_path, small_preset):
    """Another model: two words of its vocabulary have changed places."""
    other = tmp_path / "other"
    shutil.copytree(small_preset, other)
    (other / "vocab.txt").write_text("\n".join([*small.VOCABULARY[:-2], small.VOCABULARY[-1], small.VOCABULARY[-2]]))
    return other


def test_another_model_is_refused(corpus, tmp_path, small_preset, other_preset):
    directory = tmp_path / "index"
    build_index(corpus, directory, small_preset)
    with error_names(ValueError, directory, small_preset, other_preset, "another directory"):
        build_index(corpus, directory, other_preset)
    with error_names(ValueError, directory, small_preset, other_preset, "use that model"):
        TextIndex(directory, other_preset)
    moved = tmp_path / "moved"
    shutil.copytree(small_preset, moved)
    assert len(TextIndex(directory, moved)) == len(TextIndex(directory))  # the same model, wherever it is


def test_a_corpus_that_cannot_be_indexed_is_refused(corpus, tmp_path, small_preset):
    """And that is said before anything is written."""
    files = {
        "empty.txt": "",
        "blank.txt": " \n\n",
        "short.csv": "text,id\na film\n",
        "twice.csv": "text,text\na,b\n",
        "rows.jsonl": '{"text": "a"}\n{"text": 5}\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    for name, options, error, words in (
        ("none.txt", {}, FileNotFoundError, ["none.txt"]),
        ("empty.txt", {}, ValueError, ["empty.txt", "empty"]),
        ("blank.txt", {}, ValueError, ["blank.txt", "empty"]),
        ("latin.txt", {}, ValueError, ["latin.txt", "line 1", "UTF-8"]),
        ("short.csv", {}, ValueError, ["short.csv", "1 of 1 rows", "line 2", "1 cell", 2]),
        ("twice.csv", {}, ValueError, ["twice.csv", "2 columns", "'text'"]),
        ("rows.jsonl", {}, ValueError, ["rows.jsonl", "1 of 2 rows", "line 2", "text is 5"]),
        ("rows.jsonl", {"text_column": "body"}, ValueError, ["rows.jsonl", "2 of 2 rows", "line 1", "'body'"]),
        ("sentences.txt", {"stored": "int4"}, ValueError, ["stored", "'int4'", "float32 or int8"]),
        ("sentences.txt", {"batch_tokens": 0}, ValueError, ["batch_tokens", 0, "at least 1"]),
        ("sentences.txt", {"preset": tmp_path / "no"}, FileNotFoundError, [tmp_path / "no", "directory", "preset"]),
    ):
        with error_names(error, *words):
            build_index(tmp_path / name, tmp_path / "index", **{"preset": small_preset, **options})
        assert not (tmp_path / "index").exists()


def test_other_settings_are_refused(corpus, tmp_path, small_preset):
    directory = tmp_path / "index"
    build_index(corpus, directory, small_preset, stored="int8")
    (tmp_path / "films.jsonl").write_text('{"body": "a film"}\n')
    with error_names(ValueError, directory, "int8", "float32", "another directory"):
        build_index(corpus, directory, small_preset, stored="float32")
    with error_names(ValueError, directory, "column", "'text'", "'body'"):
        build_index(tmp_path / "films.jsonl", directory, small_preset, "body", add=True)
    with error_names(ValueError, "top_k", 0, "at least 1"):
        TextIndex(directory).search("film", top_k=0)
    for top_k in (float("nan"), 2.5, "3", None, True):
        with error_names(ValueError, "top_k", repr(top_k), "whole number"):
            TextIndex(directory).search("film", top_k=top_k)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("index.json", lambda content: b"{"),
        ("index.json", lambda content: content.replace(b'"texts": ', b'"texts": 1')),
        ("index.json", lambda content: content.replace(b'"stored"', b'"kept"')),
        ("index.json", lambda content: content.replace(b'"text_column": "text"', b'"text_column": "tezt"')),
        ("index.json", lambda content: content.replace(b'"float32"', b'"int8"')),
        ("rows-1.jsonl", lambda content: content[:-9]),
        ("rows-1.npy", lambda content: b"x" * len(content)),
        ("rows-1.npy", lambda content: content[:-8] + bytes(8)),
        ("vectors-1.faiss", lambda content: content[:-99] + bytes([content[-99] ^ 1]) + content[-98:]),
        ("vectors-1.faiss", lambda content: content[:-1]),
        ("vectors-1.faiss", lambda content: b"x" * len(content)),
        ("vectors-1.faiss", None),
    ],
)
def test_a_damaged_index_is_refused(corpus, tmp_path, small_preset, name, damage):
    directory = tmp_path / "index"
    build_index(corpus, directory, small_preset)
    if damage:
        (directory / name).write_bytes(damage((directory / name).read_bytes()))
    else:
        (directory / name).unlink()
    with pytest.raises(ValueError, match=r"damaged|is not a JSON file|has no stored") as error:
        TextIndex(directory)
    assert name in str(error.value) or "its files differ in length" in str(error.value)


def test_without_faiss(corpus, tmp_path, small_preset, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with error_names(ImportError, "faiss-cpu", "pip install 'keras-bert-models[search]'"):
        build_index(corpus, tmp_path / "index", small_preset)


def test_columns_that_cannot_be_written_are_named(tmp_path, small_preset):
    """Half of a surrogate pair, which JSON can escape, in a column that is not the text."""
    path = tmp_path / "films.jsonl"
    for other, name in (
        ('"by": "\\ud83d"', "'by'"),
        ('"more": {"by": ["\\udc00"]}', "'more'"),
        ('"\\ud83d": 1', r"'\ud83d'"),
    ):
        path.write_text(f'{{"text": "good film"}}\n{{"text": "cold river", {other}}}\n')
        with error_names(ValueError, path, "1 of 2 rows", "line 2", name, "surrogate pair"):
            build_index(path, tmp_path / "index", small_preset)


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
@pytest.mark.parametrize("stored", ["float32", "int8"])
def test_damaged_files_are_refused_with_their_directory(corpus, tmp_path, small_preset, stored):
    """A byte or a few, of any file: the same hits, or an error of ours."""
    directory, refused, unnamed = tmp_path / "index", 0, []
    build_index(corpus, directory, small_preset, stored=stored)
    hits = TextIndex(directory).search("film", top_k=3)
    files = sorted(path for path in directory.iterdir() if path.is_file() and path.stat().st_size)
    for seed in range(1000):
        chance = random.Random(seed)
        path = chance.choice(files)
        content = path.read_bytes()
        damaged = bytearray(content)
        for _ in range(chance.choice([1, 1, 2, 4])):
            damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged[: chance.choice([len(damaged)] * 3 + [chance.randrange(len(damaged))])])
        try:
            assert TextIndex(directory).search("film", top_k=3) == hits, (seed, path)
        except (ValueError, OSError) as error:
            refused += 1
            if str(directory) not in str(error):
                unnamed.append((seed, path.name, str(error)))
        path.write_bytes(content)
    assert unnamed == []
    assert refused > 800


@pytest.fixture
def films(tmp_path, small_preset, sentences):
    """An index of sixty rows: their ids, one of three kinds, and a year that JSON holds as a number."""
    kinds = itertools.cycle(["drama", "comedy", None])
    rows = [
        {"id": f"{number}", "text": text, "kind": kind, "year": 2000 + number % 5}
        for number, (text, kind) in enumerate(zip(sentences, kinds, strict=False))
    ]
    path = tmp_path / "films.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_index(path, tmp_path / "index", small_preset)
    return rows, tmp_path / "index"


@pytest.mark.parametrize(
    ("where", "keeps"),
    [
        ({"kind": "drama"}, lambda row: row["kind"] == "drama"),
        ({"kind": ["drama", "comedy"], "year": 2003}, lambda row: row["kind"] is not None and row["year"] == 2003),
        ({"year": "2003"}, lambda row: row["year"] == 2003),
        ({"kind": None}, lambda row: row["kind"] is None),
        ({"kind": "western"}, lambda row: False),
    ],
)
def test_a_filter_leaves_what_matches_in_the_order_of_the_search(films, where, keeps, monkeypatch):
    monkeypatch.setattr(neighbours, "_ROWS", 7)
    rows, directory = films
    index = TextIndex(directory)
    for query in ("good film", "cold river"):
        expected = [hit["row"]["id"] for hit in index.search(query, len(rows)) if keeps(hit["row"])]
        found = index.search(query, len(rows), where=where)
        assert [hit["row"]["id"] for hit in found] == expected
        assert [hit["row"]["id"] for hit in index.search(query, 3, where=where)] == expected[:3]
    assert len(expected) == sum(map(keeps, rows))


@pytest.mark.parametrize(
    ("values", "cells"),
    [
        ([2025, 2025.0, "2025", "2025.0", np.int64(2025), np.float32(2025)], [2025, 2025.0]),
        ([2025, 2025.0, np.int64(2025)], ["2025", "2025.0"]),
        ([True, "true", "True", "TRUE", np.True_], [True]),
        ([True, np.True_], ["true", "True", "TRUE"]),
        ([2.5, "2.5", np.float64(2.5)], [2.5]),
        ([datetime.date(2025, 1, 2), "2025-01-02", np.datetime64("2025-01-02")], ["2025-01-02"]),
        ([range(2024, 2026), {1, 2025}, np.arange(2020, 2030), (each for each in [2025])], [2025, "2025"]),
    ],
)
def test_a_value_is_its_text_in_filters(tmp_path, values, cells):
    others = ["2025a", "02025", "", None, 2024.5, False, "false", "2025-01-03", [2025], 7]
    lines = [json.dumps({"cell": cell}).encode() + b"\n" for cell in [*cells, *others]]
    write_rows(lines, tmp_path / "rows", tmp_path / "starts")
    rows = IndexRows(tmp_path / "rows", tmp_path / "starts")
    for value in values:
        assert rows.matching({"cell": value}).tolist() == list(range(len(cells))), value
    path = tmp_path / "versions"
    write_rows([b'{"v": "1.1"}\n', b'{"v": "1.10"}\n'], path, tmp_path / "starts")
    assert IndexRows(path, tmp_path / "starts").matching({"v": "1.1"}).tolist() == [0]  # texts are exact


def test_filters_of_no_column_are_refused(films):
    index = TextIndex(films[1])
    with error_names(ValueError, "'Kind'", "columns", "did you mean 'kind'"):
        index.search("good", where={"Kind": "drama"})
    with error_names(ValueError, "where", "empty", "column"):
        index.search("good", where={})


@pytest.mark.parametrize(("query", "name"), [("", "query"), (" \n", "query"), (["good", ""], "query 2")])
def test_an_empty_query_is_refused(films, query, name):
    with error_names(ValueError, name, "empty"):
        TextIndex(films[1]).search(query)


@pytest.mark.parametrize("stored", ["float32", "int8"])
def test_removed_rows_are_not_found_and_the_others_are_as_before(films, small_preset, tmp_path, stored):
    rows, _ = films
    directory = tmp_path / stored
    build_index(tmp_path / "films.jsonl", directory, small_preset, stored=stored)
    before = {hit["row"]["id"]: hit["similarity"] for hit in TextIndex(directory).search("good film", len(rows))}
    assert remove_rows(directory, {"id": ["3", 4, "none"]}) == 2
    assert remove_rows(directory, {"id": "3"}) == 0
    after = {hit["row"]["id"]: hit["similarity"] for hit in TextIndex(directory).search("good film", len(rows))}
    assert after.keys() == before.keys() - {"3", "4"}
    for key, similarity in after.items():
        assert similarity == pytest.approx(before[key], abs=1e-6 if stored == "float32" else 1e-3)
    (tmp_path / "more.jsonl").write_text('{"id": "3", "text": "a new film"}\n')
    assert build_index(tmp_path / "more.jsonl", directory, small_preset, add=True)["encoded"] == 1
    assert len(TextIndex(directory)) == len(rows) - 1


def test_all_rows_of_an_index_cannot_be_removed(films, tmp_path):
    with error_names(FileNotFoundError, tmp_path / "none", MANIFEST):
        remove_rows(tmp_path / "none", {"id": "3"})
    with error_names(ValueError, "60 rows", films[1], "remove the directory"):
        remove_rows(films[1], {"year": [2000, 2001, 2002, 2003, 2004]})
    assert len(TextIndex(films[1])) == 60
