"""keras-bert pretrain: from text to a model that fills masks; what is refused before any work; runs that go on."""

import json
import re
import signal

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert import BertConfig, pretraining
from keras_bert.formats import open_checkpoint, read_config, write_config
from keras_bert.pretraining import BertPretrainer, Records
from keras_bert.pretraining.records import SETTINGS
from keras_bert.processes import KilledError
from keras_bert.recipe import PretrainingRecipe
from keras_bert.tasks import BertMaskedLM
from keras_bert.text import BytePairTokenizer, load_tokenizer
from keras_bert.text.vocabulary import byte_symbols
from keras_bert.training import pretraining_run
from keras_bert.training.run import save_state

from ..support import small
from ..support.commands import SIZES, flat, write_documents
from ..support.processes import HANGS, wait_for

SIZES = {**SIZES, "max_positions": 24}
TOKENS = small.VOCABULARY


def tiny(**changes):
    """What `--size tiny` is: without dropout, and with new weights that suit its width."""
    learning = {"hidden_dropout": 0.0, "attention_dropout": 0.0, "initializer_range": 0.05}
    return BertConfig.tiny(vocab_size=len(TOKENS), **learning, **changes)


@pytest.mark.slow
def test_text_to_a_model_that_is_not_trained_again(run, corpus):
    folder, options = corpus
    options |= {"--copies": "2", "--masked-unit": "word", "--objective": "sentence_order", "--steps": "4"}
    rate = PretrainingRecipe(steps=4).for_width(SIZES["hidden_size"]).learning_rate
    command = ("pretrain", folder / "texts", *flat(options))
    result = run(*command)
    weights, first, second, said, *steps = result.stderr.splitlines()
    assert weights == f"new weights, of the size {folder}/config.json"
    assert said == f"learning rate {rate:g} for this model, as it is {SIZES['hidden_size']} wide"
    assert first.endswith(
        " examples of 24 documents, 192 sentences, 1,344 tokens, from 2 files, in rows of 24 tokens, for 4 steps"
    )
    assert second.startswith("validation: ")
    assert second.endswith(f"from {folder}/held.txt")
    assert [line.split(":")[0] for line in steps] == ["step 2 of 4", "step 4 of 4"]
    measures, beside = {}, {}
    for line in result.stdout.splitlines():
        name, measures[name], *beside[name] = line.split("\t")
    names = {"masked_lm_loss", "masked_lm_accuracy", "masked_lm_perplexity", "next_sentence_accuracy"}
    assert names <= set(measures)
    baselines = pretraining.baselines(Records(folder / "model/training/validation"))
    expected = {name: [f"(baseline: {value:.4f})"] for name, value in baselines.items()}
    assert beside == {"loss": [], **expected}
    assert not any("baseline" in line for line in steps[:-1])
    assert float(measures["masked_lm_perplexity"]) == pytest.approx(np.exp(float(measures["masked_lm_loss"])), rel=1e-3)
    model = folder / "model"
    report = (model / "report.md").read_text()
    assert f"| masked_lm_loss | {measures['masked_lm_loss']} | {baselines['masked_lm_loss']:.4f} |" in report
    assert f"| learning_rate | {rate} |" in report
    assert "_baseline" not in report
    assert "## Steps" in report
    assert "| masked_unit | word |" in report
    assert (model / "learning_curve.png").read_bytes().startswith(b"\x89PNG")
    notes = json.loads((model / "training/records" / SETTINGS).read_text())
    assert (notes["settings"]["copies"], notes["settings"]["masked_unit"]) == (2, "word")
    assert Records(model / "training/validation").count > 0
    with open_checkpoint(model) as checkpoint:
        assert {"masked_lm", "next_sentence"} <= set(checkpoint.heads)
        assert checkpoint.config == read_config(folder / "config.json")
    content = (model / "model.safetensors").read_bytes()
    reading = ("--layout", "sentences", "--masked-unit", "word")
    lines = [line.split("\t") for line in run("evaluate", model, folder / "held.txt", *reading).stdout.splitlines()]
    # The training used smaller batches, and so other sums.
    found = {name: pytest.approx(float(value), abs=2e-4) for name, value, _ in lines}
    assert {name: float(value) for name, value in measures.items() if name != "loss"} == found
    assert {name: [baseline] for name, _, baseline in lines} == expected

    again = run(*command)  # it is over, so nothing is trained
    assert again.stdout == result.stdout
    finished = f"the run in {model} is finished, after step 4 of 4; nothing is trained"
    assert again.stderr.splitlines() == [finished, weights, first, second, said]
    for changes, message in (("--steps", "5"), "other steps"), (("--seed", "1"), "other seed"):
        other = run(*command, *changes, exit_code=2)
        assert message in other.stderr.splitlines()[-1]
    assert (model / "model.safetensors").read_bytes() == content


@pytest.mark.slow
def test_weights_that_are_trained_further(run, fails, corpus, untrained):
    """They begin as the preset's, with its vocabulary, heads and rate; without --size. The text is known already."""
    folder, options = corpus
    run("pretrain", folder / "texts", *flat(options), "--learning-rate", "1e-2")
    more = {name: value for name, value in options.items() if name not in ("--vocab", "--size")}
    more |= {"--preset": folder / "model", "--output": folder / "more", "--steps": "1"}
    result = run("pretrain", folder / "texts", *flat(more))
    weights, *_, rate, _ = result.stderr.splitlines()
    assert weights == f"weights of {folder}/model"
    assert rate == "learning rate 0.0001 for this model, as it starts from trained weights"
    report = (folder / "more/report.md").read_text()
    assert f"| preset | {folder}/model |" in report
    assert "| objective | next_sentence |" in report
    before, after = (load_file(folder / name / "model.safetensors") for name in ("model", "more"))
    apart = {name: np.abs(after[name] - before[name]).max() for name in before}
    assert before.keys() == after.keys()
    assert 0 < max(apart.values()) < 1e-3  # of one update, at this rate
    for name in ("vocab.txt", "config.json"):
        assert (folder / "model" / name).read_text() == (folder / "more" / name).read_text()

    more |= {"--output": folder / "alone", "--objective": "sentences"}
    result = run("pretrain", folder / "texts", *flat(more))
    assert result.stderr.startswith(f"weights of {folder}/model; its head for pairs is left out\n")
    del more["--objective"]
    more |= {"--preset": folder / "alone", "--output": folder / "new"}
    result = run("pretrain", folder / "texts", *flat(more))
    assert result.stderr.startswith(f"weights of {folder}/alone; it has no head for pairs, and gets none\n")
    more["--output"] = folder / "other"
    message = fails("pretrain", folder / "texts", *flat(more | {"--preset": untrained}))
    assert message == f"preset: {untrained} has no masked language modeling head to train further"
    message = fails("pretrain", folder / "texts", *flat(more), "--objective", "next_sentence")
    assert message.startswith(f"{folder}/alone has no head for pairs, which objective 'next_sentence' needs")


def test_what_is_measured_on_text(run, fails, corpus, classifier, table):
    """A masked language model without a head for pairs; what does not fit the model or the file is refused."""
    folder, _ = corpus
    model, text = folder / "model", folder / "held.txt"
    preprocessor = small.preprocessor(tokenizer=small.tokenizer(special_tokens_in_text=True))
    BertMaskedLM(small.encoder(num_layers=1), preprocessor).save_preset(model)
    shown = run("evaluate", model, folder / "texts", "--sequence-length", "16").stdout
    names = {"masked_lm_loss", "masked_lm_accuracy", "masked_lm_perplexity"}
    assert {line.split("\t")[0] for line in shown.splitlines()} == names
    assert shown.count("(baseline: ") == 3
    run("evaluate", model, text, "--output", folder / "a.json", "--require", "masked_lm_loss > 99", exit_code=1)
    assert json.loads((folder / "a.json").read_text())["measures"].keys() == names | {
        f"{each}_baseline" for each in names
    }
    for mistake, message in (
        ((model, text, "--objective", "next_sentence"), "objective is 'next_sentence', but the model has no head for"),
        ((model, text, "--label-column", "a"), f"--label-column is for examples, but {model} is a masked language"),
        ((model, text, "--errors", "a.jsonl"), f"--errors is for examples, but {model} is a masked language model"),
        ((model, text, "--require", "accuracy > 0"), "no measure 'accuracy'; the measures are masked_lm_accuracy, "),
        ((model, text, "--require", "masked_lm_loss = 3"), "--require masked_lm_loss = 3: expected a measure and a"),
        ((model, text, "--sequence-length", "4"), "--sequence-length is 4; expected 5 or more"),
        ((model, table), f"{table} is a table, but {model} is a masked language model, not fine-tuned"),
        ((classifier, table, "--layout", "prose"), "--layout is for a masked language model, measured on text"),
    ):
        assert message in fails("evaluate", *mistake)


def test_other_settings_reach_the_records_and_the_training(run, corpus, monkeypatch):
    """Static masks, documents that share rows, no pairs, no text that is held out, a second length, a named size."""
    folder, options = corpus
    written, trained = [], []
    counts = {"examples": 5, "documents": 4, "sentences": 3, "tokens": 2}
    monkeypatch.setattr(
        pretraining_run, "write_records", lambda *given, **more: written.append((given, more)) or counts
    )
    history = [{"epoch": epoch, "loss": 6.0 - epoch} for epoch in range(1, 5)]

    class Training:
        def __init__(self, model, phases, run, recipe, *_, **more):
            self.run = run
            trained.append((model, phases, recipe))

        def to_the_end(self):
            save_state(self.run.directory / "state.safetensors", [], {})
            return history

    monkeypatch.setattr(pretraining_run, "Pretraining", Training)
    del options["--eval"]
    options |= {"--objective": "sentences", "--size": "tiny", "--warmup": "0.5", "--learning-rate": "1e-3"}
    options |= {"--steps": "7", "--then-steps": "4", "--then-length": "40", "--then-batch-size": "6", "--seed": "7"}
    options |= {"--masked-unit": "span", "--copies": "9", "--processes": "3"}
    result = run("pretrain", folder / "held.txt", *flat(options), "--static-masking", "--pack")
    assert result.stdout == "loss\t2.0000\n"
    expected = {"objective": "sentences", "layout": "sentences", "masked_unit": "span", "seed": 7}
    expected |= {"copies": 9, "pack": True, "processes": 3}
    for ((paths, _, preprocessor), given), length, predictions in zip(written, (24, 40), (4, 6), strict=True):
        assert (paths, preprocessor.sequence_length) == ([folder / "held.txt"], length)
        assert given == expected | {"predictions": predictions}
    ((model, phases, recipe),) = trained
    assert model.encoder.config == tiny(activation=model.encoder.config.activation)
    assert [phase[1:] for phase in phases] == [(3, 8, None, None), (4, 6, None, None)]
    assert [phase.records for phase in phases] == [folder for (_, folder, _), _ in written]
    assert (recipe.seed, recipe.measure_every, recipe.warmup, recipe.learning_rate) == (7, 2, 0.5, 1e-3)
    report = (folder / "model/report.md").read_text()
    for line in ("| static_masking | True |", "| learning_rate | 0.001 |", "| warmup | 0.5 |", "| eval | None |"):
        assert line in report
    assert re.findall(r"^\| (\d) \| (\d)\.0*", report, re.MULTILINE) == [("2", "5"), ("3", "4"), ("5", "3"), ("7", "2")]


def test_a_process_is_killed(run, corpus, monkeypatch):
    """As `in_processes` tells it; test_embed kills one."""

    def killed(*_, **__):
        raise KilledError("a process ended\nIts last output:\nmany lines")

    folder, options = corpus
    monkeypatch.setattr(pretraining_run, "write_records", killed)
    result = run("pretrain", folder / "texts", *flat(options), exit_code=1)
    assert result.stderr.splitlines()[1:] == ["Error: a process ended"]  # after the line on new weights


@pytest.mark.slow
def test_byte_pairs(run, corpus):
    """RoBERTa: another padding token, positions counted from behind it, no head for pairs."""
    folder, options = corpus
    tokenizer = BytePairTokenizer(["<s>", "<pad>", "</s>", "<unk>", "<mask>", *byte_symbols()], merges=[])
    tokenizer.save_preset(folder / "tokens")
    family = {"family": "roberta", "pad_token_id": 1, "positions_after_padding": True, "type_vocab_size": 1}
    write_config(folder / "config.json", BertConfig(vocab_size=tokenizer.vocabulary_size, **SIZES, **family))
    options |= {"--vocab": folder / "tokens", "--objective": "sentences"}
    result = run("pretrain", folder / "texts/a.txt", *flat(options), "--masked-unit", "span")
    assert "next_sentence" not in result.output.replace("--objective", "")
    run("fill", options["--output"], "the <mask> and")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--vocab": "no-mask.txt"}, "{folder}/no-mask.txt has no [MASK]"),
        ({"--vocab": "cased.txt"}, "{folder}/cased.txt has capitals, such as 'A0', "),
        ({"--vocab": "empty"}, "{folder}/empty has no "),
        ({"--size": "other.json"}, "{folder}/other.json: the vocabulary has {tokens} tokens, but the model's emb"),
        ({"--size": "padded.json"}, "{folder}/padded.json: pad_token_id is 3, but it is 0 in the vocabulary"),
        ({"--then-steps": "2", "--then-length": "40"}, "--then-length is 40; the model has 24 positions"),
        ({"--size": "roberta.json"}, "roberta has no head for pairs; choose the objective 'sentences'"),
        ({"FILE": "one.txt"}, "{folder}/one.txt: there is only one document"),
        ({"--eval": "one.txt"}, "{folder}/one.txt: there is only one document"),
    ],
)
def test_mistakes(fails, corpus, changes, message):
    folder, options = corpus
    (folder / "empty").mkdir()
    write_documents(folder / "one.txt", 1, seed=0)
    for name, tokens in (("no-mask", [p for p in TOKENS if p != "[MASK]"]), ("cased", [*TOKENS[:-1], "A0"])):
        (folder / f"{name}.txt").write_text("".join(f"{token}\n" for token in tokens))
    write_config(folder / "other.json", BertConfig(vocab_size=50, **SIZES))
    write_config(folder / "padded.json", BertConfig(vocab_size=len(TOKENS), pad_token_id=3, **SIZES))
    longer = {**SIZES, "max_positions": 32, "positions_after_padding": True}
    write_config(folder / "roberta.json", BertConfig(vocab_size=len(TOKENS), **longer, family="roberta"))
    paths = {name: value if value.isdigit() else folder / value for name, value in changes.items()}
    text = paths.pop("FILE", folder / "texts")
    before = sorted(folder.rglob("*"))
    assert message.format(folder=folder, tokens=len(TOKENS)) in fails("pretrain", text, *flat(options | paths))
    assert sorted(folder.rglob("*")) == before


@pytest.mark.slow
def test_vocab_pretrain_fill(run, traced, corpus):
    """All the way, and it learns: what is hidden has the letter of the words around it."""
    pytest.importorskip("tokenizers", reason="needs tokenizers, which learns")
    folder, options = corpus
    words = [f"{letter}{digit}" for letter in "abcdefgh" for digit in range(4)]
    for seed, (name, count) in enumerate({"texts/a.txt": 300, "held.txt": 12}.items()):
        write_documents(folder / name, count, seed, words)
    run("vocab", folder / "texts", "--size", "60", "--output", folder / "learned")
    tokens = load_tokenizer(folder / "learned").vocabulary_size
    (folder / "texts/b.txt").unlink()
    write_config(folder / "config.json", BertConfig(vocab_size=tokens, **SIZES))
    options |= {"--vocab": folder / "learned", "--steps": "600", "--measure-every": "300", "--batch-size": "32"}
    result = run("pretrain", folder / "texts", *flat(options), "--learning-rate", "3e-3", "--warmup", "0.1")
    measures = dict(line.split("\t")[:2] for line in result.stdout.splitlines())
    assert float(measures["masked_lm_accuracy"]) > 0.3, measures
    texts = ["b0 b1 b2 [MASK] b0 b1.", "c2 [MASK] c0 c1 c2 c3."]
    lines = run("fill", options["--output"], "--format", "jsonl", "--top-k", "1", *texts).stdout.splitlines()
    assert [json.loads(line)["masks"][0][0]["token"][0] for line in lines] == ["b", "c"]
    assert isinstance(BertPretrainer.from_preset(options["--output"], sequence_length=24), BertPretrainer)


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.parametrize("moment", ["records", "training"])
def test_an_interrupted_run_goes_on(run, start, traced, corpus, moment):
    folder, options = corpus
    options |= {"--steps": "60", "--measure-every": "10", "--batch-size": "4"}
    if moment == "records":
        options |= {"--copies": "20", "--steps": "10"}

    def command(name, **more) -> tuple[str, ...]:
        return "pretrain", folder / "texts", *flat(options | {"--output": folder / name} | more)

    shows = {"records": f"training/records/{SETTINGS}", "training": "training/state.safetensors"}[moment]
    process = start(*command("broken", **({"--processes": "2"} if moment == "records" else {})))
    wait_for(lambda: (folder / "broken" / shows).exists(), process)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=HANGS)
    assert process.returncode == 130
    place = {"records": "", "training": r" after step \d\d of 60"}[moment]
    unfinished = rf"the run in {folder}/broken is unfinished\. .* --overwrite; to resume, run: keras-bert "
    assert re.fullmatch(rf"Interrupted{place}; {unfinished}pretrain .*", said.decode().splitlines()[-1])
    assert not (folder / "broken/config.json").exists()
    assert not list((folder / "broken").rglob("*.tmp"))
    for name in ("broken", "unbroken"):
        result = run(*command(name))
        assert ("step 10 of" in result.stderr) == (name == "unbroken" or moment == "records")
    models = [(folder / name / "model.safetensors").read_bytes() for name in ("broken", "unbroken")]
    assert models[0] == models[1]
