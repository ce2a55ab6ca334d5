"""keras-bert push: what goes to the Hugging Face Hub, and what stays."""

import fnmatch
import sys
from types import SimpleNamespace

import pytest

from keras_bert import BertConfig, BertEncoder
from keras_bert.publishing import push_to_hub

from ..support.messages import error_names

SENT = ["README.md", "config.json", "model.safetensors", "report.md"]


@pytest.fixture
def model(tmp_path):
    directory = tmp_path / "model"
    BertEncoder(BertConfig.tiny(vocab_size=9)).save_preset(directory)
    (directory / "training/records").mkdir(parents=True)
    for name in ("report.md", "notes.txt", "training/state.safetensors", "training/records/records.json"):
        (directory / name).write_text("{}")
    return directory


def test_a_dry_run_lists_what_would_go(run, model, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    result = run("push", model, "me/my-model", "--dry-run")
    sizes = {name: (model / name).stat().st_size for name in SENT}
    assert result.stdout == "".join(f"{name}\t{size:,} bytes\n" for name, size in sizes.items())
    assert result.stderr.splitlines() == [
        "left out: notes.txt", "left out: training/, 2 files", "nothing was sent to me/my-model",
    ]  # fmt: skip


@pytest.mark.parametrize("public", [False, True])
def test_what_goes(run, model, monkeypatch, public):
    calls = []

    class HfApi:
        def create_repo(self, repository, **settings):
            calls.append((repository, settings))

        def upload_folder(self, repo_id, folder_path, allow_patterns, commit_message):
            names = [str(path.relative_to(folder_path)) for path in folder_path.rglob("*") if path.is_file()]
            calls.append((repo_id, sorted(n for n in names if any(fnmatch.fnmatch(n, p) for p in allow_patterns))))
            return "https://hub/me/my-model/commit/1"

    monkeypatch.setitem(sys.modules, "huggingface_hub", SimpleNamespace(HfApi=HfApi))
    result = run("push", model, "me/my-model", *["--public"] * public)
    assert calls == [("me/my-model", {"private": not public, "exist_ok": True}), ("me/my-model", SENT)]
    assert result.stderr.endswith("https://hub/me/my-model/commit/1\n")


def test_what_is_refused(fails, model, tmp_path, monkeypatch):
    assert fails("push", tmp_path / "nowhere", "me/a").startswith(f"'{tmp_path}/nowhere' is neither a directory nor")
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets/model.onnx").write_text("mine")
    for name, target in {"added_tokens.json": "secrets/model.onnx", "onnx": "secrets"}.items():
        (model / name).symlink_to(tmp_path / target)
        assert f"{tmp_path}/secrets/model.onnx, outside of the directory" in fails("push", model, "me/a", "--dry-run")
        (model / name).unlink()
    (model / "vocab.txt").symlink_to("notes.txt")
    assert "vocab.txt" in push_to_hub(model, "me/a", dry_run=True).files
    (model / "README.md").unlink()
    with error_names(ValueError, model, "README.md", "model card"):
        push_to_hub(model, "me/a", dry_run=True)
    (model / "README.md").write_text("mine")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "keras-bert-models[hf]" in fails("push", model, "me/a")
