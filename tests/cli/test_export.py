"""keras-bert export: what it writes, what it says, and what it refuses."""

import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertClassifier, BertEncoder, BertSentenceEncoder, saved_model
from keras_bert.saved_model import check
from keras_bert.saved_model.transformers_signature import HeadedEncoder
from keras_bert.tasks import BertMaskedLM

from ..support.precisions import needs_int8

TEXT = tf.constant(["The film"])


@pytest.fixture
def exports(monkeypatch, tmp_path):
    """What reaches the functions that export, which write 2.5 MB: a list of (what is exported, where, settings)."""
    written = tmp_path / "written"
    written.mkdir()
    (written / "weights").write_bytes(bytes(2_500_000))
    calls = []

    def export(what, output, *settings):
        calls.append((what, output, settings))
        return written

    for name in ("export_preprocessor", "export_encoder", "export_serving"):
        monkeypatch.setattr(saved_model, name, export)
    return calls


def test_what_is_exported(run, fails, exports, small_preset, untrained, classifier, tmp_path):
    for what, preset, options in (
        ("preprocessor", small_preset, []),
        ("preprocessor", small_preset, ["--sequence-length", "7", "--overwrite"]),
        ("preprocessor", small_preset, ["--sequence-length", "0"]),
        ("encoder", small_preset, []),
        ("encoder", untrained, ["--dtype", "float16", "--overwrite"]),
        ("serving", small_preset, []),
        ("serving", classifier, ["--version", "7", "--dtype", "float16", "--overwrite"]),
        ("encoder", untrained, ["--signature", "transformers"]),
        ("serving", classifier, ["--signature", "transformers"]),
        ("serving", small_preset, ["--dimensions", "16,8"]),
        ("serving", small_preset, ["--task", "fill"]),
    ):
        result = run("export", what, "--preset", preset, "--output", tmp_path / "new", *options)
        shown = f"{tmp_path / 'written'}: 2.5 MB\n" if what == "serving" else f"{tmp_path / 'new'}: 0.0 MB\n"
        assert result.output == shown
    assert {where for _, where, _ in exports} == {str(tmp_path / "new")}
    assert [type(model) for model, _, _ in exports[3:]] == [
        BertMaskedLM, BertEncoder, BertSentenceEncoder, BertClassifier, BertEncoder, HeadedEncoder,
        BertSentenceEncoder, BertMaskedLM,
    ]  # fmt: skip
    command = ("export", "preprocessor", "--output", tmp_path / "new", "--sequence-length", "1000")
    assert fails(*command).startswith("--sequence-length is 1000")
    # By default all positions, of which there are fewer than 128.
    assert [each.sequence_length for each, _, _ in exports[:3]] == [48, 7, None]
    assert [settings for _, _, settings in exports] == [
        (False,), (True,), (False,), (None, False, None), ("float16", True, None), (None, None, False, None, None),
        (7, "float16", True, None, None), (None, False, "transformers"), (None, None, False, "transformers", None),
        (None, None, False, None, (16, 8)), (None, None, False, None, None),
    ]  # fmt: skip


@pytest.mark.slow
@needs_int8
def test_an_encoder_in_int8(run, traced, exports, small_preset, untrained, tmp_path, monkeypatch):
    for kind in (BertMaskedLM, BertSentenceEncoder):  # a precision stays with its model, which the other tests share
        monkeypatch.setattr(kind, "from_preset", kind.from_preset.__wrapped__)
    for preset in (small_preset, untrained):
        options = ["--preset", preset, "--output", tmp_path / "new", "--precision", "int8"]
        run("export", "encoder", *options)
    assert [type(model) for model, *_ in exports] == [BertMaskedLM, BertEncoder]
    run("export", "serving", *options, "--signature", "transformers")
    assert [model.precision for model, *_ in exports] == ["int8"] * 3


def test_a_prompt_is_exported(run, fails, exports, small_preset, classifier, tmp_path):
    parts = BertSentenceEncoder.from_preset(small_preset)
    model = BertSentenceEncoder(parts.encoder, parts.preprocessor, prompts={"query": "you ask: "})
    model.save_preset(tmp_path / "prompted")
    command = ("export", "serving", "--output", tmp_path / "saved", "--prompt", "query", "--preset")
    run(*command, tmp_path / "prompted")
    ((exported, *_),) = exports
    np.testing.assert_allclose(
        exported.serve(TEXT)["embedding"], model.encode(["you ask: The film"]), rtol=0, atol=1e-5
    )
    assert fails(*command, classifier) == "there is no prompt 'query'; this model has no prompts"
    assert "takes ids" in fails(*command, tmp_path / "prompted", "--signature", "transformers")


def test_what_is_there_and_what_is_damaged_is_told(run, fails, small_preset, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "new").mkdir()

    def refuse(*_):
        raise FileExistsError("new exists; pass overwrite to replace it, or choose another name")

    monkeypatch.setattr(saved_model, "export_serving", refuse)
    message = fails("export", "serving", "--preset", small_preset, "--output", "new")
    assert message == "new exists; pass overwrite to replace it, or choose another name"

    monkeypatch.setattr(check, "check_serving", lambda directory: [f"{directory} is fine", "all of it"])
    assert run("export", "--check", "new").stdout == "new is fine\nall of it\n"
    monkeypatch.setattr(check, "check_serving", refuse)
    assert fails("export", "--check", "new", exit_code=1).startswith("new exists")


@pytest.mark.slow
def test_serving_and_check(run, fails, small_preset, classifier, tmp_path):
    command = ("export", "serving", "--preset", small_preset, "--output", tmp_path, "--version", "7")
    assert run(*command).stdout.startswith(f"{tmp_path / '7'}: ")
    signature = tf.saved_model.load(tmp_path / "7").signatures["serving_default"]
    expected = BertSentenceEncoder.from_preset(small_preset)(TEXT)
    np.testing.assert_allclose(signature(text=TEXT)["embedding"], expected, rtol=0, atol=1e-5)
    assert fails(*command).endswith("exists; pass overwrite to replace it, or choose another name")

    assert "BertClassifier" in fails(*command[:2], "--preset", classifier, *command[4:6], "--dimensions", "8")

    assert "each on disk once" in run("export", "--check", tmp_path).stdout
    (tmp_path / "7" / "saved_model.pb").write_bytes(b"nonsense")
    assert "damaged" in fails("export", "--check", tmp_path, exit_code=1)


@pytest.mark.slow
def test_other_runtimes(run, fails, untrained, small_preset, classifier, tmp_path):
    command = ("export", "litert", "--output", tmp_path / "out", "--preset")
    lines = run(*command, untrained, "--sequence-length", "16").stdout.splitlines()
    assert lines[0].startswith("embedding: at most ")
    assert lines[-1].startswith(f"{tmp_path / 'out'}: ")
    assert "pass overwrite to replace it" in fails(*command, untrained)
    lines = run(*command, untrained, "--encoder", "--overwrite", "--precision", "int8").stdout.splitlines()
    assert [line.partition(":")[0] for line in lines[:2]] == ["pooled_output", "sequence_output"]
    lines = run(*command, small_preset, "--task", "fill", "--overwrite").stdout.splitlines()
    assert lines[0].startswith("logits: at most ")
    assert fails(*command, classifier, "--overwrite", "--precision", "bfloat16").startswith("LiteRT does not support")
