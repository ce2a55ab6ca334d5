"""keras-bert index, search and duplicates: what they write and say, and what they refuse."""

import json

import pytest

from keras_bert import BertReranker
from keras_bert.data.tables import read_rows
from keras_bert.search import NegativeRules, TextIndex, mine_negatives

from ..support import small
from ..support.commands import json_lines

TABLE = 'id,review\n7,good film\n8,the cold river\n9,"good film\n!"\n'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.csv").write_text(TABLE)
    return tmp_path


def out(result) -> str:
    assert result.stderr == ""
    return result.stdout


def test_index_and_search(run, folder, small_preset):
    command = ("index", "films.csv", "--text-column", "review", "--output", "films")
    assert out(run(*command)) == "films: 3 texts, 3 encoded now, 0 of them truncated\n"
    (folder / "more.csv").write_text("review\nbank money\n")
    assert (
        out(run("index", "more.csv", *command[2:], "--add")) == "films: 4 texts, 1 encoded now, 0 of them truncated\n"
    )
    expected = TextIndex("films").search("good film", top_k=2)
    text = [f"{hit['similarity']:.3f}\t{' '.join(hit['text'].split())}" for hit in expected]
    assert text == ["1.000\tgood film", f"{expected[1]['similarity']:.3f}\tgood film !"]
    assert out(run("search", "films", "good film", "--top-k", "2", small=False)).splitlines() == text
    several = out(run("search", "films", "--top-k", "1", small=False, input=b"good film\nbank\tmoney\n"))
    assert several == "good film\t1.000\tgood film\nbank money\t1.000\tbank money\n"
    (folder / "queries.txt").write_text("good film\nbank money\n")
    run("search", "films", "--file", "queries.txt", "--output", "hits.jsonl", "--preset", small_preset, small=False)
    first, second = json_lines((folder / "hits.jsonl").read_text())
    assert (first["query"], second["query"], len(second["hits"])) == ("good film", "bank money", 4)
    best = {"similarity": pytest.approx(1, abs=1e-5), "text": "good film", "row": {"id": "7", "review": "good film"}}
    assert first["hits"][0] == best


@pytest.mark.slow
def test_rows_are_left_out_by_their_columns_and_removed(run, fails, folder):
    (folder / "films.jsonl").write_text(
        '{"id": 1, "text": "good film", "lang": "en"}\n{"id": 2, "text": "good film !", "lang": "de"}\n'
        '{"id": 3, "text": "bank money", "lang": "de"}\n{"id": 4, "text": null, "lang": "de"}\n'
    )
    command = ("index", "films.jsonl", "--output", "films")
    assert "1 of 4 rows cannot be used: line 4: text is empty" in fails(*command)
    result = run(*command, "--skip-bad")
    assert "1 of 4 rows are left out: line 4: text is empty" in result.stderr
    assert result.stdout == "films: 3 texts, 3 encoded now, 0 of them truncated\n"

    def ids(*options):
        lines = out(run("search", "films", "good film", "--format", "jsonl", *options, small=False))
        return [hit["row"]["id"] for hit in json.loads(lines)["hits"]]

    assert ids() == [1, 2, 3]
    assert ids("--where", "lang=de") == [2, 3]
    assert ids("--where", "lang=de", "--where", "id=3", "--where", "id=1") == [3]
    assert ids("--where", "id>=2", "--where", "id<3") == [2]
    assert ids("--where", "id>1", "--hybrid") == [2, 3]
    for second in ("id>=3", "id=3"):
        message = fails("search", "films", "good", "--where", "id>=2", "--where", second, small=False)
        assert f"--where {second}: id has another condition" in message
    assert "no column 'Lang'; its columns are 'id', 'lang', 'text'; did you mean 'lang'?" in fails(
        "search", "films", "good", "--where", "Lang=de", small=False
    )
    for command in (("search", "films", "good", "--where"), ("index", "--output", "films", "--remove")):
        message = fails(*command, "lang=d\udcfc", small=False)
        assert message == f"{command[-1]} 'lang=d\\udcfc' is not UTF-8, as the texts of an index are"
    assert "--where lang: expected COLUMN=VALUE" in fails("search", "films", "good", "--where", "lang", small=False)
    (folder / "more.jsonl").write_text('{"id": 3, "text": "a good film", "lang": "en"}\n')
    added = run("index", "more.jsonl", "--output", "films", "--add", "--id-column", "id")
    assert added.stdout == "films: 3 texts, 1 encoded now, 0 of them truncated\n"
    assert sorted(ids("--where", "lang=en")) == [1, 3]
    assert out(run("index", "--remove", "id=2", "--output", "films", small=False)) == "films: rows removed: 1\n"
    assert sorted(ids()) == [1, 3]
    (folder / "gone.txt").write_text("2\n\n3\n7\n")
    result = run("index", "--remove", "id=@gone.txt", "--output", "films", small=False)
    assert result.stdout == "films: rows removed: 1\n"
    assert result.stderr == "Warning: no row of films has id=2, id=7\n"
    assert ids() == [1]
    message = fails("index", "--remove", "id=@empty.txt", "--output", "films", small=False)
    assert message == "cannot read empty.txt: No such file or directory"
    (folder / "empty.txt").write_text("\n")
    message = fails("index", "--remove", "id=@empty.txt", "--output", "films", small=False)
    assert message == "empty.txt is empty; expected a value in each line"
    assert "give CORPUS to index, or --remove" in fails("index", "--output", "films", small=False)
    (folder / "queries.txt").write_text("good film\n\n")
    message = fails("search", "films", "--file", "queries.txt", small=False)
    assert message == "queries.txt, line 2: query is empty"


def test_rerank(run, fails, folder, classifier):
    out(run("index", "films.csv", "--text-column", "review", "--output", "films"))
    reranker = small.task(BertReranker, config={"num_layers": 1})
    reranker.save_preset("reranker")
    best = TextIndex("films").search("a river", top_k=2, reranker=reranker)
    command = ("search", "films", "a river", "--top-k", "2", "--rerank")
    shown = out(run(*command, "reranker", small=False))
    assert shown == "".join(f"{hit['score']:.3f}\t{' '.join(hit['text'].split())}\n" for hit in best)
    written = json.loads(out(run(*command, "reranker", "--format", "jsonl", small=False)))
    assert [hit["row"] for hit in written["hits"]] == [hit["row"] for hit in best]
    assert list(written["hits"][0]) == ["score", "similarity", "text", "row"]
    message = fails(*command, classifier, small=False)
    assert message == f"{classifier} has no head that scores pairs; use a cross-encoder, or fine-tune a BertReranker"
    assert "neither a directory nor a known preset" in fails(*command, "none", small=False)


def test_duplicates(run, folder):
    options = ("duplicates", "films.csv", "--text-column", "review", "--threshold", "0.999")
    (folder / "films.csv").write_text(TABLE + "10,good film\n")
    assert out(run(*options)) == "1.000\t2\t6\tgood film\tgood film\n"
    rows = {"first": {"id": "7", "review": "good film"}, "second": {"id": "10", "review": "good film"}}
    pair = {"similarity": 1.0, "first_line": 2, "second_line": 6, **rows}
    assert json.loads(out(run(*options, "--format", "jsonl"))) == pair


def test_groups_of_duplicates_and_a_corpus_without_them(run, fails, folder):
    """A chain of pairs makes a group, whose first row stays; the others are written as they are in the corpus."""
    rows = [
        '1,a,"[1, 0]"',
        '2,=b,"[0, 1]"',
        '3,c,"[0.8, 0.6]"',
        '4,d,"[0.3, 0.95]"',
        '5,"e, f","[-1, 0]"',
        '6,a,"[1, 0]"',
    ]
    (folder / "vectors.csv").write_text("id,text,vector\n" + "\n".join(rows) + "\n")
    command = ("duplicates", "vectors.csv", "--vectors", "--threshold", "0.79")
    pairs = out(run(*command, "--cleaned", "cleaned.csv", small=False))
    assert [line.split("\t")[1:3] for line in pairs.splitlines()] == [["2", "7"], ["2", "4"], ["3", "5"], ["4", "5"]]
    assert (folder / "cleaned.csv").read_text() == "".join(f"{line}\n" for line in ("id,text,vector", rows[0], rows[4]))
    groups = out(run(*command, "--groups", small=False))
    assert groups == "1\t2\ta\n1\t3\t=b\n1\t4\tc\n1\t5\td\n1\t7\ta\n"
    second = json_lines(out(run(*command, "--groups", "--format", "jsonl", small=False)))[1]
    assert second == {"group": 1, "line": 3, "row": {"id": "2", "text": "=b"}}
    (folder / "films.txt").write_text("good film\ncold river\ngood film\n")
    out(run("duplicates", "films.txt", "--threshold", "0.9999", "--cleaned", "cleaned.txt"))
    assert (folder / "cleaned.txt").read_text() == "good film\ncold river\n"
    assert "--preset is for texts that have no vectors yet" in fails(*command)
    assert "other.txt: duplicates does not write text" in fails(*command, "--cleaned", "other.txt", small=False)
    assert "films.txt, row at line 1 has no 'vector'" in fails("duplicates", "films.txt", "--vectors", small=False)


def test_tables_of_hits_and_of_duplicates(run, folder):
    """A row of CSV for each hit, with JSON in the cell of its row."""
    out(run("index", "films.csv", "--text-column", "review", "--output", "films"))
    queries = ("search", "films", "good film", "the cold river", "--top-k", "2")
    out(run(*queries, "--output", "hits.csv", small=False))
    answers = json_lines(out(run(*queries, "--format", "jsonl", small=False)))
    expected = [{"query": each["query"], **hit} for each in answers for hit in each["hits"]]
    found = read_rows("hits.csv", "csv", header=True)
    rows = [dict(zip(found.names, cells, strict=True)) for _, cells in found.rows]
    rows = [{**row, "similarity": float(row["similarity"]), "row": json.loads(row["row"])} for row in rows]
    assert rows == expected
    options = ("duplicates", "films.csv", "--text-column", "review", "--threshold", "-1")
    out(run(*options, "--output", "pairs.jsonl"))
    out(run(*options, "--output", "pairs.tsv"))
    pairs = json_lines((folder / "pairs.jsonl").read_text())
    cells = [row for _, row in read_rows("pairs.tsv", "tsv", header=True).rows]
    assert [[json.loads(cell) for cell in row] for row in cells] == [list(pair.values()) for pair in pairs]


def test_mine(run, fails, folder, small_preset):
    (folder / "pairs.csv").write_text("question,context\ngood ?,good film\nthe bank ?,bank money\n")
    command = ("mine", "pairs.csv", "--query-column", "question", "--positive-column", "context", "--negatives", "2")
    command += ("--corpus", "films.csv", "--text-column", "review", "--output", "triplets.jsonl")
    result = run(*command)
    assert result.stderr == "triplets.jsonl: 4 triplets of 2 pairs\n"
    rules = NegativeRules(negatives=2)
    texts = ["good film", "the cold river", "good film\n!"]
    columns = (["good ?", "the bank ?"], ["good film", "bank money"])
    expected = [each._asdict() for each in mine_negatives(*columns, texts, small_preset, rules, progress=False)]
    found = json_lines((folder / "triplets.jsonl").read_text())
    assert found == [{**each, **_rounded(each)} for each in expected]
    assert sorted(path.name for path in folder.iterdir()) == ["films.csv", "pairs.csv", "triplets.jsonl"]
    assert fails(*command, "--overwrite", "--negatives", "0") == "negatives is 0; expected 1 or more"


def _rounded(fields):
    return {name: round(each, 6) for name, each in fields.items() if isinstance(each, float)}


def test_measures_of_a_search(run, fails, folder, small_preset):
    (folder / "beir" / "qrels").mkdir(parents=True)
    documents = [{"_id": "7", "text": "good film"}, {"_id": "8", "title": "bank", "text": "money"}]
    (folder / "beir" / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in documents))
    (folder / "beir" / "queries.jsonl").write_text('{"_id": "q", "text": "bank money"}\n')
    (folder / "beir" / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq\t8\t1\n")
    measured = run("evaluate", small_preset, "beir", "--index", "kept", "--output", "measures.json", small=False)
    assert measured.stdout == "ndcg@10\t1.0000\nmrr@10\t1.0000\nrecall@100\t1.0000\nmap@100\t1.0000\n"
    assert len(TextIndex("kept", small_preset)) == 2
    written = json.loads((folder / "measures.json").read_text())
    assert (written["data"]["examples"], written["measures"]["ndcg@10"]) == (1, 1)
    wrong = [(["--text-column", "text"], "beir", "--text-column"), (["--split", "dev"], "beir", "qrels/dev.tsv")]
    for options, data, word in [*wrong, (["--hybrid"], "films.csv", "queries.jsonl")]:
        assert word in fails("evaluate", small_preset, data, *options, small=False)
