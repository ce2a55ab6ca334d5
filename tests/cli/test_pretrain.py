"""keras-bert pretrain: from text to a model that fills masks; what is refused before any work; runs that go on."""

import json
import signal
import subprocess
import sys
import time

import keras
import numpy as np
import pytest

from keras_bert import BertConfig
from keras_bert.pretraining import BertPretrainer, Records, corpus, examples, masking
from keras_bert.pretraining.records import SETTINGS
from keras_bert.tasks import BertMaskedLM, BertNextSentence
from keras_bert.text import BytePairTokenizer
from keras_bert.text.byte_level import byte_symbols
from keras_bert.text.loading import load_tokenizer

from .test_processes import HANGS, start  # noqa: F401 (a fixture)

LETTERS = "abcdefgh"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PIECES = [*SPECIAL, ".", *(f"{letter}{digit}" for letter in LETTERS for digit in range(4))]
SIZES = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 64, "max_positions": 24}
QUICK = {
    "--layout": "sentences",
    "--sequence-length": "24",
    "--batch-size": "8",
    "--steps": "5",
    "--measure-every": "2",
}


def write_documents(path, count, seed):
    """Documents of sentences of six words: the letter tells the document, the digits count."""
    generator = np.random.default_rng(seed)
    documents = []
    for _ in range(count):
        letter = generator.choice(list(LETTERS))
        starts = generator.integers(0, 4, 8)
        documents.append("\n".join(" ".join(f"{letter}{(s + i) % 4}" for i in range(6)) + "." for s in starts))
    path.write_text("\n\n".join(documents))


@pytest.fixture
def given(tmp_path):
    """Options of a quick run, and its files: (folder, options)."""
    (tmp_path / "texts").mkdir()
    for seed, name in enumerate(("texts/a.txt", "texts/b.txt", "held.txt")):
        write_documents(tmp_path / name, 12, seed)
    (tmp_path / "vocab.txt").write_text("".join(f"{piece}\n" for piece in PIECES))
    BertConfig(vocab_size=len(PIECES), **SIZES).write(tmp_path / "config.json")
    files = {"--vocab": "vocab.txt", "--size": "config.json", "--output": "model", "--eval-file": "held.txt"}
    return tmp_path, {**QUICK, **{option: str(tmp_path / name) for option, name in files.items()}}


def flat(options):
    return [each for pair in options.items() for each in pair]


def test_choices_are_those_of_the_package():
    module = sys.modules["keras_bert.cli.pretrain"]
    assert (examples.OBJECTIVES, corpus.LAYOUTS) == (module.OBJECTIVES, module.LAYOUTS)
    assert masking.UNITS == module.UNITS


def test_text_to_a_model(run, given):
    folder, options = given
    command = ("pretrain", str(folder / "texts"), *flat(options), "--copies", "2", "--masking", "word")
    result = run(*command)
    assert result.exit_code == 0, result.output
    first, second, *steps = result.stderr.splitlines()
    assert first.endswith(" examples of 24 documents, 192 sentences, 1,344 pieces, from 2 files, in rows of 24 pieces")
    assert second.startswith("to measure with: ")
    assert second.endswith(f"from {folder}/held.txt")
    assert [line.split(":")[0] for line in steps] == ["step 2 of 5", "step 4 of 5", "step 5 of 5"]
    measures = dict(line.split("\t") for line in result.stdout.splitlines())
    names = {"masked_lm_loss", "masked_lm_accuracy", "masked_lm_perplexity", "next_sentence_accuracy"}
    assert names <= set(measures)
    assert float(measures["masked_lm_perplexity"]) == pytest.approx(np.exp(float(measures["masked_lm_loss"])), rel=1e-3)
    model = folder / "model"
    report = (model / "report.md").read_text()
    assert f"| masked_lm_loss | {measures['masked_lm_loss']} |" in report
    assert "## Steps" in report
    assert "| unit | word |" in report
    assert (model / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    notes = json.loads((model / "training/records" / SETTINGS).read_text())
    assert (notes["settings"]["copies"], notes["settings"]["unit"]) == (2, "word")
    assert Records(model / "training/held-out").count > 0
    assert BertMaskedLM.from_preset(model).fill(["a0 [MASK] a2"])[0]["masks"]
    assert 0 <= BertNextSentence.from_preset(model).score(["a0 a1."], ["a2 a3."])[0] <= 1
    weights = (model / "model.safetensors").read_bytes()

    again = run(*command)  # it is over, so nothing is trained
    assert (again.exit_code, again.stdout) == (0, result.stdout)
    assert again.stderr.splitlines() == [first, second]
    assert (model / "model.safetensors").read_bytes() == weights


@pytest.mark.slow
def test_longer_rows_at_the_end(run, given):
    folder, options = given
    command = ("pretrain", str(folder / "texts"), *flat(options | {"--sequence-length": "12"}))
    then = ("--then-steps", "3", "--then-length", "20", "--then-batch-size", "4", "--dtype", "mixed_bfloat16")
    result = run(*command, *then)
    assert result.exit_code == 0, result.output
    assert keras.config.dtype_policy().name == "float32"  # as before
    said = result.stderr.splitlines()
    assert [line.rpartition(", in ")[2] for line in said[:3:2]] == ["rows of 12 pieces", "rows of 20 pieces"]
    steps = [line.split(":")[0] for line in said[4:]]
    assert steps == ["step 2 of 8", "step 4 of 8", "step 5 of 8", "step 7 of 8", "step 8 of 8"]
    records = Records(folder / "model/training/then/records")
    assert next(iter(records.in_order(1)))["input_word_ids"].shape == (1, 20)
    report = (folder / "model/report.md").read_text()
    for line in ("| then_steps | 3 |", "| then_length | 20 |", "| then_batch_size | 4 |", "| dtype | mixed_bfloat16 |"):
        assert line in report


def test_documents_that_share_rows(run, given):
    folder, options = given
    options |= {"--objective": "sentences"}
    result = run("pretrain", str(folder / "texts"), *flat(options), "--pack", "--processes", "2")
    assert result.exit_code == 0, result.output
    for name in ("records", "held-out"):
        record = next(iter(Records(folder / "model/training" / name).in_order(1)))
        assert "input_document_ids" in record


def test_static_masks_without_pairs_and_without_a_held_out_text(run, given):
    folder, options = given
    del options["--eval-file"]
    options |= {"--objective": "sentences", "--size": "tiny", "--output": str(folder / "small"), "--warmup": "0.5"}
    result = run("pretrain", str(folder / "held.txt"), *flat(options), "--static-masking", "--learning-rate", "1e-3")
    assert result.exit_code == 0, result.output
    (name, _), *others = (line.split("\t") for line in result.stdout.splitlines())
    assert (name, others) == ("loss", [])
    report = (folder / "small/report.md").read_text()
    for line in ("| static_masking | True |", "| learning_rate | 0.001 |", "| warmup | 0.5 |", "| eval | None |"):
        assert line in report
    config = BertConfig.read(folder / "small/config.json")
    assert config == BertConfig.tiny(vocab_size=len(PIECES), activation=config.activation)
    assert not (folder / "small/training/held-out").exists()


@pytest.mark.slow
def test_byte_pairs(run, given):
    """RoBERTa: another padding piece, positions counted from behind it, no head for pairs."""
    folder, options = given
    tokenizer = BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *byte_symbols()], merges=[])
    tokenizer.save_preset(folder / "pieces")
    family = {"family": "roberta", "pad_token_id": 1, "positions_after_padding": True, "type_vocab_size": 1}
    BertConfig(vocab_size=tokenizer.vocabulary_size, **SIZES, **family).write(folder / "config.json")
    options |= {"--vocab": str(folder / "pieces"), "--objective": "sentences"}
    result = run("pretrain", str(folder / "texts/a.txt"), *flat(options), "--masking", "span")
    assert result.exit_code == 0, result.output
    assert "next_sentence" not in result.output.replace("--objective", "")
    assert run("fill", options["--output"], "a0 <mask> a2").exit_code == 0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"FILE": "nowhere.txt"}, "there is no file {folder}/nowhere.txt"),
        ({"FILE": "empty"}, "the directory {folder}/empty has no .txt files"),
        ({"--eval-file": "nowhere.txt"}, "there is no file {folder}/nowhere.txt"),
        ({"--vocab": "nowhere.txt"}, "nowhere.txt"),
        ({"--vocab": "no-mask.txt"}, "{folder}/no-mask.txt has no [MASK]"),
        ({"--vocab": "cased.txt"}, "{folder}/cased.txt has capitals, such as 'A0', "),
        ({"--vocab": "empty"}, "{folder}/empty has no "),
        ({"--size": "huge"}, "there is no size '{folder}/huge'; there are tiny, mini, "),
        ({"--size": "nowhere.json"}, "nowhere.json"),
        ({"--size": "other.json"}, "{folder}/other.json: the vocabulary has 38 pieces, but the model's embedding"),
        ({"--size": "padded.json"}, "{folder}/padded.json: pad_token_id is 3, but it is 0 in the vocabulary"),
        (
            {"--then-steps": "2", "--then-length": "40"},
            "sequence_length is 40; expected 3 ([CLS] a [SEP]) to 24",
        ),
        ({"--size": "roberta.json"}, "roberta has no head for pairs; choose --objective sentences"),
        ({"--sequence-length": "25"}, "sequence_length is 25; expected 3 ([CLS] a [SEP]) to 24"),
        ({"FILE": "one.txt"}, "{folder}/one.txt: there is one document only"),
        ({"--eval-file": "one.txt"}, "{folder}/one.txt: there is one document only"),
        ({"--output": "texts"}, "{folder}/texts exists and is no run of this command; choose another --output"),
        ({"--output": "vocab.txt"}, "{folder}/vocab.txt exists and is no run of this command"),
    ],
)
def test_mistakes(fails, given, changes, message):
    folder, options = given
    (folder / "empty").mkdir()
    write_documents(folder / "one.txt", 1, seed=0)
    for name, pieces in (("no-mask", [p for p in PIECES if p != "[MASK]"]), ("cased", [*PIECES[:-1], "A0"])):
        (folder / f"{name}.txt").write_text("".join(f"{piece}\n" for piece in pieces))
    BertConfig(vocab_size=50, **SIZES).write(folder / "other.json")
    BertConfig(vocab_size=len(PIECES), pad_token_id=3, **SIZES).write(folder / "padded.json")
    longer = {**SIZES, "max_positions": 32}
    BertConfig(vocab_size=len(PIECES), **longer, family="roberta").write(folder / "roberta.json")
    paths = {name: value if value.isdigit() else str(folder / value) for name, value in changes.items()}
    text = paths.pop("FILE", str(folder / "texts"))
    before = sorted(folder.rglob("*"))
    assert message.format(folder=folder) in fails("pretrain", text, *flat(options | paths))
    assert sorted(folder.rglob("*")) == before


def test_another_run_is_not_overwritten(run, given):
    folder, options = given
    command = ("pretrain", str(folder / "texts"))
    assert run(*command, *flat(options)).exit_code == 0
    weights = (folder / "model/model.safetensors").read_bytes()
    for changes, message in (({"--steps": "6"}, "other steps"), ({"--seed": "1"}, "other seed")):
        result = run(*command, *flat(options | changes))
        assert result.exit_code == 2
        assert message in result.stderr.splitlines()[-1]
    assert (folder / "model/model.safetensors").read_bytes() == weights


@pytest.mark.slow
def test_vocab_pretrain_fill(run, given):
    """All the way, and it learns: what is hidden has the letter of the words around it, or is the full stop."""
    pytest.importorskip("tokenizers", reason="needs tokenizers, which learns")
    folder, options = given
    write_documents(folder / "texts/a.txt", 300, seed=7)
    assert run("vocab", str(folder / "texts"), "--size", "60", "--output", str(folder / "learned")).exit_code == 0
    pieces = load_tokenizer(folder / "learned").vocabulary_size
    no_dropout = {"hidden_dropout": 0.0, "attention_dropout": 0.0}
    BertConfig(vocab_size=pieces, **SIZES, **no_dropout).write(folder / "config.json")
    options |= {"--vocab": str(folder / "learned"), "--steps": "600", "--measure-every": "300", "--batch-size": "32"}
    result = run("pretrain", str(folder / "texts"), *flat(options), "--learning-rate", "3e-3", "--warmup", "0.1")
    assert result.exit_code == 0, result.output
    measures = dict(line.split("\t") for line in result.stdout.splitlines())
    assert float(measures["masked_lm_accuracy"]) > 0.3, measures
    texts = ["b0 b1 b2 [MASK] b0 b1.", "c2 [MASK] c0 c1 c2 c3.", "d0 d1 d2 d3 d0 d1[MASK]"]
    lines = run("fill", options["--output"], "--format", "jsonl", "--top-k", "1", *texts).stdout.splitlines()
    assert [json.loads(line)["masks"][0][0]["token"][0] for line in lines] == ["b", "c", "."]
    assert isinstance(BertPretrainer.from_preset(options["--output"], sequence_length=24), BertPretrainer)


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["records", "training"])
def test_an_interrupted_run_goes_on(start, given, moment):  # noqa: F811
    folder, options = given
    options |= {"--steps": "60", "--measure-every": "10", "--batch-size": "4"}
    options |= {"--copies": "200", "--processes": "2"} if moment == "records" else {}

    def command(name) -> subprocess.Popen:
        return start("pretrain", str(folder / "texts"), *flat(options | {"--output": str(folder / name)}))

    shows = {"records": f"training/records/{SETTINGS}", "training": "training/state.safetensors"}[moment]
    process = command("broken")
    while not (folder / "broken" / shows).exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    assert said.decode().splitlines()[-1] == "Interrupted; the same command goes on with what was done."
    assert not (folder / "broken/config.json").exists()
    assert not list((folder / "broken").rglob("*.tmp"))
    for name in ("broken", "unbroken"):
        process = command(name)
        _, said = process.communicate(timeout=HANGS)
        assert process.returncode == 0, said
        assert (b"step 10 of" in said) == (name == "unbroken" or moment == "records")
    models = [(folder / name / "model.safetensors").read_bytes() for name in ("broken", "unbroken")]
    assert models[0] == models[1]
