"""pretrain: it learns, and an interrupted run ends with the weights of one that was not."""

import itertools
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertPreprocessor
from keras_bert.pretraining import BertPretrainer, MaskedLMMasking, Records, baselines, write_records
from keras_bert.recipe import PretrainingRecipe
from keras_bert.training import LAMB, Phase, evaluate_text, pretrain
from keras_bert.training.pretrain import _measure
from keras_bert.training.run import RunError

from ..support.corpus import encoder, preprocessor
from ..support.messages import error_names
from ..support.stopping import Stop, StopAt


@pytest.fixture(scope="module")
def records(corpus, tmp_path_factory):
    directory = tmp_path_factory.mktemp("records")
    settings = {"layout": "sentences", "part_bytes": 5000, "progress": False}
    write_records(corpus[:1], directory / "train", preprocessor(), **settings)
    write_records(corpus[1:], directory / "validation", preprocessor(), **settings)
    return directory


@pytest.fixture(scope="module")
def few(records, corpus, tmp_path_factory):
    """The same, with fewer examples to measure with, and their text."""
    directory = tmp_path_factory.mktemp("few")
    (directory / "train").symlink_to(records / "train")
    text = directory / "text.txt"
    text.write_text("\n\n".join(corpus[1].read_text().split("\n\n")[:10]))
    write_records([text], directory / "validation", preprocessor(), layout="sentences", progress=False)
    return directory


def new(kind=BertPretrainer, dropout=0.1, pairs=True, **changes):
    return kind(encoder(hidden_dropout=dropout, attention_dropout=dropout, **changes), preprocessor(), pairs)


def noting(seen):
    """A class of models that note the shapes of what they are trained on, by name."""

    class Noting(BertPretrainer):
        def call(self, inputs, training=None):
            if training:
                seen.append({name: each.shape for name, each in inputs.items()})
            return super().call(inputs, training)

    return Noting


@pytest.fixture(scope="module")
def untrained():
    """A model for runs that are refused."""
    return new()


def run(model, records, directory, steps=12, **options):
    masking = MaskedLMMasking(model.preprocessor.tokenizer, predictions=4)
    settings = {"batch_size": 16, "learning_rate": 3e-3, "measure_every": 5, "masking": masking, **options}
    train, validation = records / "train", records / "validation"
    return pretrain(model, train, steps, directory, validation, progress=False, checkpoint_seconds=0, **settings)


@pytest.mark.slow
def test_it_learns(tmp_path, records):
    history = run(new(dropout=0.0, num_layers=2), records, tmp_path, steps=600, measure_every=300)
    assert [entry["epoch"] for entry in history] == [1, 2]
    # What is hidden follows from what stands before and behind it; the second segment follows if it has the letter of
    # the first one. One in 32 tokens, and one in two pairs, would be right by chance; one in eight
    # other documents has the same letter.
    assert history[-1]["val_masked_lm_accuracy"] > 0.3, history
    assert history[-1]["val_next_sentence_accuracy"] > 0.7, history
    np.testing.assert_allclose(np.exp(history[-1]["val_masked_lm_loss"]), history[-1]["val_masked_lm_perplexity"])


def check_resumed(records, directory, stops, make=new, last=None, **settings):
    """Checks that a run that stops after these steps ends as an unbroken one. Returns that one's model and history.

    `stops` are the steps of each run but the last, whose model `last` makes.
    """
    expected, model = make(), (last or make)()
    before = model.get_weights()
    history = run(expected, records, directory / "unbroken", **settings)
    for after in stops:
        with pytest.raises(Stop):
            run(make(), records, directory / "broken", callbacks=[StopAt(after)], **settings)
    assert run(model, records, directory / "broken", **settings) == history
    np.testing.assert_equal(model.get_weights(), expected.get_weights())
    assert any(np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True))
    return expected, history


@pytest.mark.slow
def test_longer_sequences_at_the_end(tmp_path, few, corpus, untraced):
    """One run, broken off in each of its phases: 12 tokens a sequence, then 24."""
    short = BertPreprocessor(preprocessor().tokenizer, sequence_length=12)
    write_records(corpus[:1], tmp_path / "short/train", short, layout="sentences", progress=False)
    write_records([few / "text.txt"], tmp_path / "short/validation", short, layout="sentences", progress=False)
    masking = MaskedLMMasking(preprocessor().tokenizer, predictions=4)
    then = Phase(few / "train", 4, batch_size=8, masking=masking, validation=few / "validation")
    settings, seen = {"steps": 4, "measure_every": 4, "then": then}, []
    last = lambda: new(noting(seen))  # noqa: E731
    expected, history = check_resumed(tmp_path / "short", tmp_path, (2, 4), last=last, **settings)
    assert [entry["epoch"] for entry in history] == [1, 2]  # of 4 steps each
    assert int(expected.optimizer.iterations) == 8
    assert float(expected.optimizer.learning_rate) == 0  # at the end of both, and not before
    assert {shapes["input_word_ids"][1] for shapes in seen} == {24}
    with error_names(RunError, "finished", "steps", [4, 4], [4]):
        run(new(), tmp_path / "short", tmp_path / "broken", **{**settings, "then": None})


@pytest.mark.slow
def test_documents_that_share_sequences(tmp_path, corpus, untraced):
    settings = {"objective": "sentences", "layout": "prose", "pack": True, "progress": False}
    for name, files in (("train", corpus[:1]), ("validation", corpus[1:])):
        write_records(files, tmp_path / name, preprocessor(), **settings)
    seen = []
    history = run(new(noting(seen), pairs=False), tmp_path, tmp_path / "run", steps=4, measure_every=4)
    assert all("input_document_ids" in shapes for shapes in seen)
    assert np.isfinite(history[0]["val_masked_lm_loss"])


def test_a_run(tmp_path, records, monkeypatch, untraced):
    """Of large batches, each of two small ones."""
    model = new(dropout=0.0)
    model.encoder.trainable = False  # a smaller step is traced
    before = model.get_weights()
    recipe = {"steps": 3, "measure_every": 2, "accumulate": 2, "optimizer": "lamb"}
    history = run(model, records, tmp_path, **recipe)
    assert [entry.pop("epoch") for entry in history] == [1, 2]
    measures = {"masked_lm_accuracy", "masked_lm_loss", "masked_lm_perplexity"}
    measures |= {"next_sentence_accuracy", "next_sentence_loss"}
    names = {"loss", *measures, *(f"val_{name}" for name in measures)} - {"masked_lm_perplexity"}
    assert history[0].keys() == names
    assert history[1].keys() == names | {f"val_{name}_baseline" for name in measures}
    assert history[1]["val_masked_lm_perplexity"] == pytest.approx(np.exp(history[1]["val_masked_lm_loss"]))
    assert (type(model.optimizer), int(model.optimizer.iterations)) == (LAMB, 2)
    assert float(model.optimizer.learning_rate) == 0  # the schedule is at its end
    assert any(np.any(a != b) for a, b in zip(before, model.get_weights(), strict=True))
    monkeypatch.setattr(keras.Model, "evaluate", lambda *_, **__: {})
    with error_names(RunError, "finished", "seed"):
        run(model, records, tmp_path, **recipe, seed=1)
    (tmp_path / "others").mkdir()
    for name, other in (("train", "train"), ("validation", "train")):
        (tmp_path / "others" / name).symlink_to(records / other)
    with error_names(RunError, "finished", "other validation examples", "continue"):
        run(model, tmp_path / "others", tmp_path, **recipe)


@pytest.mark.slow
@pytest.mark.parametrize("pairs", [True, False])
def test_accumulated_batches_train_as_the_large_batch(tmp_path, corpus, pairs, untraced):
    """Of rows with different numbers of masked tokens and of tokens; learning from a teacher, too."""
    directory = tmp_path / "train"
    text = tmp_path / "text.txt"
    lines = corpus[0].read_text().splitlines()[:130]
    text.write_text("\n".join(line[: 3 + 3 * (number % 5)] for number, line in enumerate(lines)))
    objective = "next_sentence" if pairs else "sentences"
    write_records([text], directory, preprocessor(), layout="sentences", objective=objective, progress=False)
    (batch,) = Records(directory).in_order(2000)
    assert len(set(batch["masked_lm_weights"].numpy().sum(1))) > 1
    for teacher in (None, new(dropout=0.0, pairs=pairs, initializer_range=0.3)):
        found = []
        for number, (steps, size, accumulate) in enumerate([(2, 12, 1), (6, 4, 3)]):
            model = new(dropout=0.0, pairs=pairs)
            settings = {"batch_size": size, "accumulate": accumulate, "learning_rate": 3e-3, "teacher": teacher}
            run = tmp_path / f"{number}{teacher is None}"
            history = pretrain(model, directory, steps, run, directory, progress=False, **settings)
            assert int(model.optimizer.iterations) == 2
            found.append((model.get_weights(), history[0]))
        (weights, measures), (others, same) = found
        assert same == pytest.approx(measures, rel=1e-3)
        for one, other in zip(weights, others, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-4)


@pytest.mark.slow
def test_a_phase_ends_with_an_update_and_is_resumed_in_the_middle_of_an_update(tmp_path, few, untraced):
    """Of 5 and 4 steps, 3 an update: after 3, 5, 8 and 9."""
    then = Phase(few / "train", 4, batch_size=8)
    settings = {"steps": 5, "measure_every": 2, "accumulate": 3, "then": then}
    expected, history = check_resumed(few, tmp_path, (1, 3, 3), **settings)
    assert [entry["epoch"] for entry in history] == [1, 2, 3, 4, 5]  # of 2, 2, 1; 2, 2 steps
    assert int(expected.optimizer.iterations) == 4
    assert float(expected.optimizer.learning_rate) == 0
    with error_names(RunError, "finished", "configuration of the model"):
        run(new(dropout=0.2), few, tmp_path / "broken", **settings)


@pytest.mark.slow
@pytest.mark.parametrize("size", [1, 3, 40])
def test_measures_do_not_depend_on_the_size_of_batches(untrained, records, size, untraced):
    """Not on how many masked tokens a batch holds, either."""
    untrained.compile("sgd", untrained.training_loss(), weighted_metrics=untrained.training_metrics())
    (batch,) = Records(records / "validation").in_order(2000)
    rows = tf.data.Dataset.from_tensor_slices(batch).take(40)

    def measured(size):
        kept = SimpleNamespace(in_order=lambda size: rows.batch(size))
        return _measure(untrained, kept, size)

    assert measured(size) == pytest.approx(measured(20), rel=1e-4)


@pytest.fixture
def first_batches(tmp_path, untrained, records, monkeypatch):
    """The inputs of the first two batches that a run with these settings trains on."""

    class Seen(BaseException):
        """Batches to learn from."""

    def fit(self, dataset, **settings):
        raise Seen(list(itertools.islice(dataset, 2)))

    def first_batches(**settings):
        with pytest.raises(Seen) as seen:
            run(untrained, records, tmp_path, **settings)
        return [inputs for inputs, _, _ in seen.value.args[0]]

    monkeypatch.setattr(keras.Model, "fit", fit)
    monkeypatch.setattr(keras.Model, "evaluate", lambda *_, **__: {})
    return first_batches


@pytest.mark.slow
def test_masks_are_those_of_the_records_unless_asked_for(first_batches, records):
    (written,) = Records(records / "train").in_order(2000)
    hidden = {ids.tobytes() for ids in written["input_word_ids"].numpy()}
    for masking, share in ((None, 1.0), (MaskedLMMasking(preprocessor().tokenizer, 4), 0.0)):
        inputs, _ = first_batches(masking=masking)
        found = np.mean([ids.tobytes() in hidden for ids in inputs["input_word_ids"].numpy()])
        assert found == pytest.approx(share, abs=0.2)


def test_each_batch_is_masked_at_other_places(first_batches):
    first, second = (inputs["masked_lm_positions"].numpy() for inputs in first_batches())
    assert np.mean((first == second).all(axis=1)) < 0.5


@pytest.fixture
def mixed_float16():
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy("mixed_float16")
    yield
    keras.config.set_dtype_policy(before)


@pytest.mark.slow
@pytest.mark.usefixtures("mixed_float16")
def test_mixed_precision_learns_and_is_resumed(tmp_path, records):
    """In float16, where small gradients would be lost; bfloat16: tests/cli/test_pretrain.py."""
    expected, history = check_resumed(records, tmp_path, (60,), lambda: new(dropout=0.0), steps=100, measure_every=50)
    assert history[-1]["val_masked_lm_loss"] < 0.95 * history[0]["val_masked_lm_loss"]
    assert {weight.dtype for weight in expected.weights} == {"float32"}
    assert isinstance(expected.optimizer, keras.optimizers.LossScaleOptimizer)


@pytest.mark.slow
def test_the_rate_follows_the_size(tmp_path, records, monkeypatch, untraced):
    """A run at the default rate is one with that rate: either resumes the other, at no other rate."""
    model = new(dropout=0.0)
    model.encoder.trainable = False
    rate = PretrainingRecipe(steps=2).for_width(model.encoder.config.hidden_size).learning_rate
    settings = {"batch_size": 4, "progress": False}
    history = pretrain(model, records / "train", 2, tmp_path, **settings)
    assert model.optimizer._learning_rate.get_config()["peak"] == rate
    monkeypatch.setattr(keras.Model, "evaluate", lambda *_, **__: {})
    assert pretrain(model, records / "train", 2, tmp_path, learning_rate=rate, **settings) == history
    with error_names(RunError, "learning_rate", rate, 0.0001):
        pretrain(model, records / "train", 2, tmp_path, learning_rate=1e-4, **settings)


@pytest.mark.parametrize("batch", [1, 7, 4096])
def test_baselines_are_of_the_most_frequent_answer(records, monkeypatch, batch):
    monkeypatch.setattr("keras_bert.pretraining.records._ROWS_AT_A_TIME", batch)
    ids, labels = [], []
    for row in Records(records / "validation").in_order(1):
        labels += row["next_sentence_labels"].numpy().tolist()
        ids += row["masked_lm_ids"].numpy()[row["masked_lm_weights"].numpy() > 0].tolist()
    expected = {}
    for name, answers in (("masked_lm", ids), ("next_sentence", labels)):
        constant = max(answers.count(each) for each in set(answers))
        shares = np.array([answers.count(each) / len(answers) for each in answers])
        expected |= {f"{name}_accuracy": constant / len(answers), f"{name}_loss": np.mean(-np.log(shares))}
    expected["masked_lm_perplexity"] = np.exp(expected["masked_lm_loss"])
    assert baselines(Records(records / "validation")) == pytest.approx(expected)


def test_baselines_of_rows_without_pairs(tmp_path, corpus):
    write_records(corpus[:1], tmp_path, preprocessor(), objective="sentences", progress=False)
    assert baselines(Records(tmp_path)).keys() == {f"masked_lm_{name}" for name in ("loss", "accuracy", "perplexity")}


@pytest.mark.parametrize(("settings", "words"), [
    ({"steps": 0}, ["steps", 0, "1 or more"]),
    ({"then": Phase("records", steps=5, batch_size=0)}, ["batch_size", 0, "1 or more"]),
    ({"optimizer": "sgd"}, ["optimizer", "'sgd'", "adamw, lamb"]),
])  # fmt: skip
def test_hyper_parameters_out_of_their_limits_are_refused(tmp_path, untrained, records, settings, words):
    if "then" in settings:
        settings = {"then": settings["then"]._replace(records=records / "train")}
    with error_names(ValueError, *words):
        run(untrained, records, tmp_path, **settings)


def test_records_of_pairs_are_refused_by_a_model_without_a_head_for_them(tmp_path, records):
    with error_names(ValueError, records / "train", "has pairs", "pairs=True"):
        run(new(pairs=False), records, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_text_is_measured_by_the_heads_of_the_model(corpus, untraced):
    """A head for pairs has its measures and baselines; other weights have other measures of the same masks."""
    model, other = new(dropout=0.0), new(dropout=0.0, initializer_range=0.3)
    measures = evaluate_text(model, corpus[1:], layout="sentences")
    names = {f"masked_lm_{name}" for name in ("loss", "accuracy", "perplexity")}
    names |= {"next_sentence_loss", "next_sentence_accuracy"}
    assert set(measures) == names | {f"{name}_baseline" for name in names}
    assert evaluate_text(model, corpus[1:], layout="sentences") == measures
    found = evaluate_text(other, corpus[1:], layout="sentences")
    assert {name for name in measures if found[name] == measures[name]} >= set(measures) - names
    bias = np.full(other.masked_lm.head.bias.shape, 1e4)
    bias[0] = 0  # padding is never the answer
    other.masked_lm.head.bias.assign(-bias)
    assert evaluate_text(other, corpus[1:], layout="sentences")["masked_lm_perplexity"] == np.inf
    assert found["masked_lm_loss"] != measures["masked_lm_loss"]
    assert evaluate_text(model, corpus[1:], layout="sentences", seed=1) != measures
    with error_names(ValueError, "sentences", "head for pairs", "pairs=False"):
        evaluate_text(model, corpus[1:], objective="sentences")
    alone = evaluate_text(new(dropout=0.0, pairs=False), corpus[1:])
    assert {name for name in alone if not name.endswith("_baseline")} == {each for each in names if "masked" in each}
    with error_names(ValueError, "sentence_order", "no head for pairs"):
        evaluate_text(new(pairs=False), corpus[1:], objective="sentence_order")
