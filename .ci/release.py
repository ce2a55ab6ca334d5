"""Checks that the version is the same wherever it is written: in the package, CITATION.cff and CHANGELOG.md.

python3 .ci/release.py              while a version is made: CHANGELOG.md may say "unreleased"
python3 .ci/release.py v0.2.0       for a release: the tag is the version, and CHANGELOG.md has its date
python3 .ci/release.py v0.2.0 URL   the same, and writes the repository's address into setup.cfg and README's links
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def find(pattern: str, file: str) -> str:
    found = re.search(pattern, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
    return found[1] if found else sys.exit(f"{file} has no line like {pattern}")


def main(tag: str | None = None, url: str | None = None) -> None:
    version = find(r'^__version__ = "(.+)"$', "keras_bert/__init__.py")
    heading = find(r"^## (.+)$", "CHANGELOG.md")
    date = heading.removeprefix(f"{version}, ")
    problems = []
    if (cited := find(r"^version: (.+)$", "CITATION.cff")) != version:
        problems.append(f"CITATION.cff has version {cited}, keras_bert {version}")
    if not re.fullmatch(r"\d{4}-\d\d-\d\d" if tag else r"unreleased|\d{4}-\d\d-\d\d", date):
        expected = f"{version}, YEAR-MONTH-DAY" if tag else f'{version}, and "unreleased" or a date'
        problems.append(f"the first heading of CHANGELOG.md is {heading!r}; it must be {expected}")
    if tag not in (None, f"v{version}"):
        problems.append(f"the tag is {tag}, the version {version}: it must be v{version}")
    if problems:
        sys.exit("; ".join(problems))
    if url:
        names = {"Source": url, "Changelog": f"{url}/blob/{tag}/CHANGELOG.md", "Issues": f"{url}/issues"}
        lines = "".join(f"    {name} = {address}\n" for name, address in names.items())
        setup, readme = ROOT / "setup.cfg", ROOT / "README.md"
        setup.write_text(setup.read_text("utf-8").replace("project_urls =\n", f"project_urls =\n{lines}", 1), "utf-8")
        links = re.sub(r"\]\((?!https?:|#)", f"]({url}/blob/{tag}/", readme.read_text("utf-8"))
        readme.write_text(links, "utf-8")
    print(f"version {version}, {date}")


main(*sys.argv[1:])
