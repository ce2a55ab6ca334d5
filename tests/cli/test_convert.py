"""keras-bert inspect and convert: what they say of a checkpoint, what they write, and what they refuse."""

import json
import shutil

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import (
    BertClassifier,
    BertReranker,
    BertSentenceEncoder,
    BertTokenClassifier,
    formats,
)
from keras_bert.convert import convert
from keras_bert.inference.ranges import InputRange, Int8Ranges, write_ranges
from keras_bert.tasks import BertMultiVectorEncoder, BertSparseEncoder
from keras_bert.tasks.registry import load_task

from ..support import small
from ..support.checkpoints import random_weights
from ..support.commands import contents
from ..support.keras_hub import TOKENS, write_weights, write_wordpiece


@pytest.fixture(scope="module")
def preset(tmp_path_factory):
    """A sentence encoder, small, with a masked-language head on top."""
    directory = tmp_path_factory.mktemp("preset") / "tiny"
    BertSentenceEncoder(small.encoder(), small.preprocessor(), similarity="dot").save_preset(directory)
    with formats.open_checkpoint(directory) as checkpoint:
        encoder, config = checkpoint.read("encoder"), checkpoint.config
    head = random_weights(config, "masked_lm")["masked_lm"]
    formats.write(
        directory, config, {"encoder": encoder, "masked_lm": head}, overwrite=True, kept=["*.json", "*/*.json"]
    )
    return directory


def told(result) -> dict[str, str]:
    assert result.stderr == ""
    lines = [(line[:12].strip(), line[12:]) for line in result.stdout.splitlines()]
    return {name: "; ".join(text for other, text in lines if other == name) for name, _ in lines}


def test_inspect(run, preset):
    parameters = small.encoder().count_params()
    assert told(run("inspect", preset)) == {
        "what": "a sentence encoder of sentence-transformers",
        "format": "hugging_face, model.safetensors", "family": "bert", "positions": "48", "heads": "masked_lm",
        "size": "2 layers, 32 wide, 4 heads, feed-forward layers 64 wide", "missing": "nothing",
        "vocabulary": f"{len(small.VOCABULARY)} tokens, WordPieceTokenizer", "unexpected": "nothing",
        "parameters": f"{parameters:,} in the encoder",
        "vectors": "32 wide, by mean pooling, of length 1",
        "loads as": "BertSentenceEncoder, BertMaskedLM, BertEncoder",
        "next": f'keras-bert encode "a text" --preset {preset}; '
        f"keras-bert export serving --preset {preset} --output serving",
    }  # fmt: skip


def test_inspect_names_what_is_missing_and_what_is_too_many(run, fails, preset, tmp_path):
    tensors = load_file(preset / "model.safetensors")
    del tensors["cls.predictions.bias"]
    save_file({**tensors, "bert.poet.weight": np.zeros(3, np.float32)}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_bytes((preset / "config.json").read_bytes())
    said = told(run("inspect", tmp_path))
    assert said["missing"] == "cls.predictions.bias"
    assert said["unexpected"] == "bert.poet.weight"
    assert said["vocabulary"] == "none"
    assert "weights are missing" in said["wrong"]
    assert "cls.predictions.bias is missing" in fails("convert", tmp_path, tmp_path / "new")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["config.json", "model.safetensors"]


def test_convert_there_and_back(run, preset, tmp_path):
    run("convert", preset, tmp_path / "a", "--to", "tf1")
    back = run("convert", tmp_path / "a", tmp_path / "b")
    assert back.stdout == f"{tmp_path / 'b'}: bert from tf1 to hugging_face, with masked_lm\n"
    before, after = (load_file(each / "model.safetensors") for each in (preset, tmp_path / "b"))
    assert before.keys() == after.keys()
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    assert (tmp_path / "b/vocab.txt").read_bytes() == (preset / "vocab.txt").read_bytes()


@pytest.mark.parametrize(
    "make",
    [
        lambda: BertSentenceEncoder(small.encoder(num_layers=1), small.preprocessor(), similarity="dot"),
        lambda: BertSparseEncoder(small.encoder(num_layers=1), small.preprocessor(), "sum", "log1p_relu"),
        lambda: BertSparseEncoder(small.encoder(num_layers=1), small.preprocessor(), query_table=True),
        lambda: BertMultiVectorEncoder(
            small.encoder(num_layers=1),
            small.preprocessor(),
            [{"units": 8}],
            prompts={"query": "[MASK] "},
            query_length=9,
        ),
        lambda: small.task(BertReranker, activation="identity", config={"num_layers": 1}),
        lambda: small.task(BertTokenClassifier, ["O", "B-A", "I-A"], crf=True),
        lambda: small.task(BertClassifier, ["good", "bad"], config={"pooling": "mean", "pooler": False}),
        lambda: small.task(BertClassifier, ["good", "bad"], problem_type="multi_label_classification"),
        lambda: small.task(BertClassifier, ["good", "bad"], pairs=True),
    ],
)
def test_all_files_of_a_task_are_the_same_after_convert(run, tmp_path, make):
    """Weights, labels, settings, lengths, a CRF's transitions, int8 ranges, the model card."""
    model = make()
    model.save_preset(tmp_path / "old")
    run("convert", tmp_path / "old", tmp_path / "new")
    assert contents(tmp_path / "new") == contents(tmp_path / "old")
    again = type(model).from_preset(tmp_path / "new")
    assert again.settings() == model.settings()


def test_convert_keeps_the_ranges_of_int8(tmp_path):
    small.encoder().save_preset(tmp_path / "old")
    write_ranges(tmp_path / "old", Int8Ranges((None, {"output": InputRange(2.0)}), "digest", is_built_in=False))
    convert(tmp_path / "old", tmp_path / "new")
    assert contents(tmp_path / "new") == contents(tmp_path / "old")


def test_convert_in_python_says_what_has_no_place(run, tmp_path):
    small.task(BertTokenClassifier, ["O", "B-A", "I-A"], crf=True).save_preset(tmp_path / "old")
    with pytest.raises(FileExistsError, match="old exists; choose another name"):
        convert(tmp_path / "new", tmp_path / "old")
    with pytest.raises(ValueError, match="'onnx'"):
        convert(tmp_path / "old", tmp_path / "new", "onnx")
    damaged = tmp_path / "damaged"
    shutil.copytree(tmp_path / "old", damaged)
    (damaged / "crf.safetensors").write_bytes((damaged / "crf.safetensors").read_bytes()[:-1])
    with pytest.raises(ValueError, match="crf.safetensors is damaged"):
        convert(damaged, tmp_path / "new")
    assert {path.name for path in tmp_path.iterdir()} == {"old", "damaged"}
    BertSentenceEncoder(small.encoder(), small.preprocessor()).save_preset(tmp_path / "sentence")
    done = convert(tmp_path / "sentence", tmp_path / "new", "tf1", progress=False)
    assert (done.config.family, done.source_format, done.heads, done.unexpected) == ("bert", "hugging_face", [], [])
    assert {"modules.json", "1_Pooling/config.json", "config.json: keras_bert"} <= {*done.left_out}
    warning = run("convert", tmp_path / "sentence", tmp_path / "newer", "--to", "garden").stderr
    assert "garden has no place for modules.json, " in warning


def test_a_classifier_in_a_file_of_torch_keeps_its_labels(run, tmp_path):
    torch = pytest.importorskip("torch")
    model = small.task(BertClassifier, ["good", "bad"], problem_type="multi_label_classification")
    model.save_preset(tmp_path / "old")
    weights = tmp_path / "old/model.safetensors"
    tensors = {name: torch.tensor(value) for name, value in load_file(weights).items()}
    torch.save(tensors, weights.with_name("pytorch_model.bin"))
    weights.unlink()
    run("convert", tmp_path / "old", tmp_path / "new")
    assert small.same(load_task(tmp_path / "new"), model)


def test_a_cross_encoder_of_newer_files_stays_one(run, tmp_path):
    """Its scores, not their sigmoid."""
    reranker = small.task(BertReranker, activation="identity", config={"num_layers": 1})
    reranker.save_preset(tmp_path / "old")
    config = json.loads((tmp_path / "old" / "config.json").read_text())
    del config["sbert_ce_default_activation_function"]
    settings = {"model_type": "CrossEncoder", "activation_fn": "torch.nn.modules.linear.Identity"}
    modules = [{"type": "sentence_transformers.base.modules.transformer.Transformer", "path": ""}]
    for name, content in (("config", config), ("config_sentence_transformers", settings), ("modules", modules)):
        (tmp_path / f"old/{name}.json").write_text(json.dumps(content))
    run("convert", tmp_path / "old", tmp_path / "new")
    again = load_task(tmp_path / "new")
    assert (again.activation, again.preprocessor.max_sequence_length) == ("identity", 24)
    assert again.score("a film", "good") == pytest.approx(reranker.score("a film", "good"), abs=1e-5)


def test_convert_warns_of_what_it_leaves_out(run, preset, tmp_path):
    (tmp_path / "old").mkdir()
    tensors = load_file(preset / "model.safetensors")
    save_file({**tensors, "bert.poet.weight": np.zeros(3, np.float32)}, tmp_path / "old" / "model.safetensors")
    (tmp_path / "old" / "config.json").write_bytes((preset / "config.json").read_bytes())
    warnings = run("convert", tmp_path / "old", tmp_path / "new").stderr
    assert "bert.poet.weight is not a weight of this family, and is left out" in warnings
    assert "has a vocabulary" in warnings


def test_a_preset_of_keras_hub(run, tmp_path):
    write_weights(tmp_path / "theirs", "bert", ["sequence"])
    tokens = [*TOKENS, *(f"token{i}" for i in range(30 - len(TOKENS)))]
    write_wordpiece(tmp_path / "theirs", tokens=tokens, lowercase=True)
    said = told(run("inspect", tmp_path / "theirs"))
    assert (said["format"], said["heads"]) == ("keras_hub, model.weights.h5", "sequence")
    assert said["vocabulary"] == "30 tokens, WordPieceTokenizer"
    assert run("convert", tmp_path / "theirs", tmp_path / "ours").stderr == ""
    theirs = BertClassifier.from_preset(tmp_path / "theirs", labels=["a", "b", "c"])
    ours = BertClassifier.from_preset(tmp_path / "ours", labels=["a", "b", "c"])
    for first, last in zip(theirs.get_weights(), ours.get_weights(), strict=True):
        np.testing.assert_array_equal(first, last)
    assert ours.preprocessor.tokenizer.vocabulary == theirs.preprocessor.tokenizer.vocabulary


def test_inspect_describes_weights_whose_tokenizer_is_not_supported(run, preset, tmp_path):
    for name in ("config.json", "model.safetensors", "modules.json", "1_Pooling/config.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes((preset / name).read_bytes())
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "WordLevel"}}')
    said, whole = (told(run("inspect", directory)) for directory in (tmp_path, preset))
    reason = f"{tmp_path / 'tokenizer.json'} holds a tokenizer of type WordLevel, not WordPiece, BPE, Unigram"
    del whole["next"]
    assert said == whole | {"vocabulary": f"cannot be read: {reason}"}


def test_damaged(run, fails, preset, tmp_path):
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((preset / name).read_bytes()[:-100])
        for other in {"config.json", "model.safetensors"} - {name}:
            (tmp_path / other).write_bytes((preset / other).read_bytes())
        assert name in told(run("inspect", tmp_path))["wrong"]
        assert name in fails("convert", tmp_path, tmp_path / "new")
        assert not (tmp_path / "new").exists()
