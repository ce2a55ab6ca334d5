"""The lines of the guide that carry the vectors of `embed` into other databases run where these are installed."""

import re
from pathlib import Path

import pytest

from keras_bert.embedding import embed_files

PAGE = Path(__file__).parents[2] / "docs" / "guides" / "search.md"


@pytest.mark.slow
@pytest.mark.parametrize("library", ["duckdb", "lancedb", "qdrant_client"])
def test_vectors_go_to_other_databases(library, small_preset, read_once, tmp_path, monkeypatch):
    pytest.importorskip(library)
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.chdir(tmp_path)
    Path("questions.csv").write_text("id,text\n1,good film\n2,the cold river\n")
    embed_files(["questions.csv"], "vectors", small_preset, format="parquet", progress=False)
    section = PAGE.read_text("utf-8").partition("## Other databases")[2].partition("\n## ")[0]
    codes = re.findall(r"^```\{code-block\} python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    (code,) = (code for code in codes if re.search(rf"^(import|from) {library}\b", code, re.MULTILINE))
    code = re.sub(r"^(from keras_bert|query =).*\n", "", code, flags=re.MULTILINE)
    printed = []
    rows = parquet.read_table("vectors/questions.parquet")
    query = read_once(small_preset).encode("a cold river", progress=False)
    exec(code, {"query": query, "rows": rows, "print": printed.append})
    assert printed == ["2"]
