"""Data beside the repository, real texts, vocabularies and models; its archives; changed JSON files."""

import json
import tarfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"
TF_HUB = {
    "preprocessor": SHARED_DATA / "tfhub/bert_en_uncased_preprocess_3",
    "encoder": SHARED_DATA / "tfhub/small_bert_en_uncased_L-2_H-128_A-2_2",
}


def unpack(archive: Path, directory: Path, begin: str = "") -> None:
    """Unpacks an archive of this repository, or what in it begins with a name."""
    with tarfile.open(archive) as opened:
        opened.extraction_filter = getattr(tarfile, "data_filter", None)  # Python 3.11.2, Debian 12's, has none
        opened.extractall(directory, [each for each in opened if each.name.startswith(begin)])


def change_json(directory: Path, name: str, **values: object) -> None:
    """Changes keys of a JSON file, or makes it."""
    path = directory / name
    path.parent.mkdir(exist_ok=True)
    before = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**before, **values}))
