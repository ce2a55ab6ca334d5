"""Whole runs, from files to a directory with a model and its report. The same call resumes an interrupted run."""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_bert import files, formats
from keras_bert.choices import DTYPES, OBJECTIVES, check_choice
from keras_bert.counted import counted
from keras_bert.data.examples import lookalikes
from keras_bert.encoder import BertEncoder
from keras_bert.formats.model_card import Training
from keras_bert.formats.saved import write_card
from keras_bert.pretraining import write_records
from keras_bert.pretraining.corpus import check_documents
from keras_bert.pretraining.masking import MaskedLMMasking, default_predictions
from keras_bert.pretraining.pretrainer import BertPretrainer, config_of, is_small, objective_of, read_vocabulary
from keras_bert.recipe import EPOCHS, PretrainingWithTeacher, RowsRecipe, SecondPhase, split_by_kind, with_schedule
from keras_bert.tasks import few_shot
from keras_bert.tasks.file_settings import ClassifyFiles
from keras_bert.tasks.kinds import Score
from keras_bert.tasks.registry import Job, load_task
from keras_bert.tasks.storable import UntrainedWarning
from keras_bert.tasks.task import BertTask
from keras_bert.text import BertPreprocessor
from keras_bert.training import distribution, report
from keras_bert.training.batches import columns_in
from keras_bert.training.distillation import check_teacher, student_of
from keras_bert.training.distribution import choose
from keras_bert.training.fine_tune import split, train_on
from keras_bert.training.pretrain import Phase, train_on_records
from keras_bert.training.run import Position, Run

Log = Callable[[str], Any]
_LABELS_IN_LOG = 30  # labels in a line of the log
_RECORDS, _VALIDATION, _THEN = "records", "validation", "then"  # folders in the directory of a run's state
_PANELS = {  # of the learning curve of a pre-training
    "training loss": ["loss"],
    "validation loss": ["val_masked_lm_loss", "val_next_sentence_loss"],
    "validation accuracy": ["val_masked_lm_accuracy", "val_next_sentence_accuracy"],
}


def fine_tune_files(
    task: str,
    train: str | Path,
    output: str | Path,
    validation: str | Path | None = None,
    *,
    preset: str | Path = "all-MiniLM-L6-v2",
    teacher: str | Path | None = None,
    num_layers: int | None = None,
    overwrite: bool = False,
    dtype: str = "float32",
    strategy: str = "auto",
    log: Log = print,
    **settings: Any,
) -> dict[str, float]:
    """Fine-tunes a model on files of examples, and writes it into a directory with its report.

    Use it when the examples are in files; `fine_tune` is for examples in memory, and for callbacks.
    `keras-bert finetune` and `keras-bert distill classify` call this function. The same call resumes an interrupted
    run, which ends with the same weights. After the end of the run, the same call returns the measures again.

    Args:
        task: "classify", "tag", "answer", "rank", "choose" or "embed".
        train: the examples to train on: for "tag" CoNLL's columns, for "answer" SQuAD's JSON (or its rows as JSON lines
            or Parquet), for other tasks a table (CSV, TSV, JSON lines, Parquet or Excel); for "classify" also a
            directory with one directory per class.
        output: the directory of the model, for `from_preset`. It must be new or empty, or hold this run.
        validation: examples to measure each epoch on; the best epoch is kept. `validation_split` holds out training
            examples instead.
        preset: the model to start from, see `presets.resolve`.
        teacher: a classifier, in place of `preset`. The new model learns from the teacher's predictions, and starts
            with some of the teacher's layers, see `student_of`.
        num_layers: the number of layers of the student.
        overwrite: whether to remove the run or the model in `output` first. The model's README.md stays. If `output`
            holds files that no run wrote, nothing is removed, and an error is raised.
        dtype: the dtype policy of training: "float32", "mixed_bfloat16" or "mixed_float16". The weights stay float32.
        strategy: the devices to train on, see `keras_bert.training.distribution.strategy`.
        log: gets each line of progress: the files that are read, the position of a resumed run, and the measures of
            each epoch, unless a progress bar shows them on a terminal.
        **settings: the fields of `FineTuningWithTeacher`, see `fine_tune`; and the fields of the task's class in
            `keras_bert.tasks.file_settings`, for reading the files and making the model:

            - all tasks: `sequence_length`, `skip_bad`;
            - "classify": `text_column`, `text_pair_column`, `label_column`, `header`, `format`, `delimiter`,
              `problem_type`, `long_text`, `pooling`;
            - "tag": `label_column`, `long_text`, `crf`;
            - "rank": `text_column`, `text_pair_column`, `label_column`, `negative_columns`, `score_columns`, `header`,
              `format`, `delimiter`, `loss`;
            - "choose": `question_column`, `choice_columns`, `label_column`, `header`, `format`, `delimiter`;
            - "embed": `query_column`, `positive_column`, `negative_columns`, `score_columns`, `header`, `format`,
              `delimiter`, `query_prompt`, `positive_prompt`, `loss`, `matryoshka_dims`, `mini_batch_size`.

    Returns:
        The measures of the model on the validation examples; without these, an empty dict. Of several processes, only
        the chief gets the measures.

    Raises:
        FileExistsError: `output` holds anything but this run, or `overwrite` would remove a file that no run wrote.
        OSError: a file cannot be read or written.
        ImportError: the extra `train` is not installed.
        TypeError: a setting does not exist, or is of another type.
        ValueError: an argument or a file is bad, the examples do not fit the model, or `output` holds a run that is
            damaged or has other settings.
        Interrupted: a KeyboardInterrupt, at SIGINT or SIGTERM, after the state is saved.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> rows = ["text,label", "I love pizza,food", "rice and beans,food", "it rains,weather", "cold wind,weather"]
        >>> _ = (folder / "train.csv").write_text("\\n".join(rows))
        >>> settings = {"epochs": 2, "batch_size": 2, "log": lambda line: None}
        >>> files = (folder / "train.csv", folder / "my-model", folder / "train.csv")
        >>> list(fine_tune_files("classify", *files, **settings))
        ['accuracy']
        >>> (folder / "my-model/report.md").exists()
        True
    """
    job = Job(task, train, validation, settings)
    start = {"preset": preset, "teacher": teacher, "num_layers": num_layers}
    return fine_tune_job(job, output, **start, overwrite=overwrite, dtype=dtype, strategy=strategy, log=log)


def fine_tune_job(
    job: Job,
    output: str | Path,
    *,
    preset: str | Path = "all-MiniLM-L6-v2",
    teacher: str | Path | None = None,
    num_layers: int | None = None,
    overwrite: bool,
    dtype: str,
    strategy: str,
    log: Log,
) -> dict[str, float]:
    """Fine-tunes a model as `fine_tune_files` does, by checked settings, on files that may be opened already."""
    recipe, train, validation = job.recipe, job.train, job.validation
    if (teacher is None) != (num_layers is None) or (teacher is not None and job.task != "classify"):
        raise ValueError("a student needs the task 'classify', teacher and num_layers")
    if recipe.few_shot and teacher is not None:
        raise ValueError("few_shot and teacher exclude each other; leave one of them out")
    start = preset if teacher is None else teacher

    def describe(position: Position) -> str:
        if not position.step:
            return f"epoch {position.epoch} of {recipe.epochs}"
        return f"epoch {position.epoch + 1} of {recipe.epochs}, step {position.step:,} of {position.batches:,}"

    run = Run.into(output, overwrite, (train, validation, start), describe, log, has_preset=teacher is None)
    report.check_installed()
    with _training_on(dtype, strategy, run, log) as devices:
        with devices.scope():
            teaching = None if teacher is None else _load_teacher(teacher, job.settings.sequence_length)
            # A student reads files as its teacher does.
            training_examples, examples_to_measure = job.examples(teaching and teaching.kind.PROBLEM_TYPE)
        training_examples.check_can_be_learned(train)
        has_default_epochs = recipe.epochs is None
        per_class = None if recipe.batch_tokens or teaching else job.texts_per_class(preset, training_examples)
        validation_examples = None if examples_to_measure is None else examples_to_measure.xy
        examples, validation_examples, chosen = split(training_examples.xy, validation_examples, recipe, per_class)
        notices = [few_shot.notice(per_class)] if chosen.few_shot and recipe.few_shot is None else []
        if chosen.few_shot and job.pool_as_encoder(preset):
            notices.append(few_shot.POOLING_NOTICE)
        recipe = chosen
        assert recipe.epochs is not None  # `split` has set it
        run_settings = {
            name: value for name, value in vars(recipe).items() if teacher is not None or name != "temperature"
        }
        run.log_position(run_settings, recipe.epochs)
        keras.utils.set_random_seed(recipe.seed)
        with devices.scope(), warnings.catch_warnings():
            warnings.simplefilter("ignore", UntrainedWarning)  # the run trains the new head
            if teaching is None or num_layers is None:  # both are, or none is
                model, arguments = job.load_model(preset, training_examples)
            else:
                teaching.targets(training_examples.labels)  # raises ValueError if the teacher lacks a label
                model, arguments = student_of(teaching, num_layers), {"teacher": teaching}
        line = f"{counted(training_examples, 'example')} from {train}"
        if validation_examples is not None:
            held_out, origin = (" of them held out", "") if validation is None else ("", f" from {validation}")
            line += f", {len(columns_in(validation_examples[0])[0]):,}{held_out} to measure with{origin}"
        log(line)
        _log_label_counts(training_examples.label_counts, train, log)
        for notice in notices:
            log(notice)
        if has_default_epochs and recipe.epochs > EPOCHS:
            log(f"{recipe.epochs} epochs, as there are few examples; epochs sets another number")
        with distribution.chief_first(devices):
            run.clear()
        history = train_on(model, examples, validation_examples, run, recipe, **arguments)
        if run.is_chief and run.measures is None:
            model.save_preset(output, overwrite=True)
            score = Score({})  # without validation examples
            if validation_examples is not None:
                score = model.kind.score(model.answers(validation_examples[0]), validation_examples[1])
            report_settings = {"train": train, "eval": validation, "preset": start}
            report_settings |= {} if teacher is None else {"num_layers": num_layers}
            report_settings |= {**vars(job.settings), **run_settings, "dtype": dtype}
            report.write_report(output, report_settings, history, score)
            data = {"training data": f"{counted(training_examples, 'example')} of {Path(train).name}"}
            if validation_examples is not None:
                data["measured on"] = counted(columns_in(validation_examples[0])[0], "example")
            measures = {**score.measures, **report.without_classes(score.details)}
            _write_card(model, output, start, measures, {**data, **run_settings})
            run.seal(score.measures)
    return run.measures or {}


def _log_label_counts(counts: Mapping[str, int], train: str | Path, log: Log) -> None:
    """Logs the count of each label; warns of labels that may be two spellings of one."""
    if not counts:
        return
    labels = [f"{name} {count:,}" for name, count in list(counts.items())[:_LABELS_IN_LOG]]
    rest = f" and {len(counts) - _LABELS_IN_LOG:,} more" if len(counts) > _LABELS_IN_LOG else ""
    log(f"labels: {', '.join(labels)}{rest}")
    for names in lookalikes(counts):
        alike = " and ".join(f"{name!r} ({counts[name]:,})" for name in names)
        warnings.warn(f"{train}: the labels {alike} differ only in case or spaces, but count separately", stacklevel=4)


def _load_teacher(handle: str | Path, sequence_length: int | None) -> BertTask:
    teacher = load_task(handle, sequence_length=sequence_length)
    try:
        check_teacher(teacher, teacher)
    except ValueError as error:
        raise ValueError(f"teacher: {error}") from error
    if teacher.FILES is not ClassifyFiles:
        raise ValueError(f"teacher: {handle} is a {type(teacher).__name__}; expected a classifier of texts")
    return teacher


def pretrain_files(
    corpus: str | Path | Sequence[str | Path],
    output: str | Path,
    validation: str | Path | None = None,
    *,
    vocab: str | Path | None = None,
    size: str | None = None,
    preset: str | Path | None = None,
    teacher: str | Path | None = None,
    num_layers: int | None = None,
    overwrite: bool = False,
    dtype: str = "float32",
    strategy: str = "auto",
    log: Log = print,
    **settings: Any,
) -> dict[str, float]:
    """Pre-trains a model on text, and writes it into a directory with its report.

    Use it when the corpus is in text files. It calls `write_records` and `pretrain`; `keras-bert pretrain` and
    `keras-bert distill pretrain` call this function. The same call resumes an interrupted run, which ends with the same
    weights. After the end of the run, the same call returns the measures again.

    Args:
        corpus: text in UTF-8: files, or directories of .txt files.
        output: the directory of the model, for `from_preset`. It must be new or empty, or hold this run.
        validation: text to measure the model on: a file or a directory.
        vocab: of a model with new weights, an uncased `vocab.txt`, or a directory with a tokenizer.
        size: "tiny", "mini", "small", "medium", "base", "large", another name of `BertConfig.named`, or a
            `config.json`.
        preset: a masked language model to train further, in place of `vocab` and `size`. It keeps its vocabulary, and
            has a head for pairs if it had one and the objective is one of pairs.
        teacher: a masked language model, in place of these three. The new model learns from the teacher's
            predictions, and starts with some of the teacher's layers, see `student_of`.
        num_layers: the number of layers of the student.
        overwrite, dtype, strategy, log: see `fine_tune_files`.
        **settings: the fields of three recipes:

            - `PretrainingWithTeacher`, see `pretrain`; `steps` has a default for new models up to 256 wide only;
            - `RowsRecipe`, from text to rows: `objective`, `layout`, `sequence_length`, `masked_unit`,
              `static_masking`, `copies`, `pack`, `processes`;
            - `SecondPhase`, a second phase on longer rows: `then_steps`, `then_length`, `then_batch_size`.

    Returns:
        The loss and the measures after the last step. Of several processes, only the chief gets them.

    Raises:
        FileExistsError, OSError, ImportError, TypeError, ValueError, Interrupted: see `fine_tune_files`.
        RuntimeError: one of the processes that write examples was killed.

    Example:
        >>> import tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> _ = (folder / "text.txt").write_text("It rains. We stay.\\n\\nThe sun shines. We go out.")
        >>> words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "it", "rains", "we", "stay", "the", "sun", "go"]
        >>> _ = (folder / "vocab.txt").write_text("\\n".join(words))
        >>> given = {"vocab": folder / "vocab.txt", "size": "tiny", "layout": "sentences", "sequence_length": 16}
        >>> measures = pretrain_files(folder / "text.txt", folder / "my-bert", **given, steps=2, log=lambda line: None)
        >>> list(measures)
        ['loss']
    """
    recipe, rows, second = split_by_kind(settings, PretrainingWithTeacher, RowsRecipe, SecondPhase)
    sources = {"vocab": vocab, "size": size, "preset": preset, "teacher": teacher, "num_layers": num_layers}
    given = {name for name, each in sources.items() if each is not None}
    if given not in ({"vocab", "size"}, {"preset"}, {"teacher", "num_layers"}):
        raise ValueError(
            "a new model needs vocab and size, a model to train further only preset, a student teacher and num_layers; "
            f"there are {' and '.join(sorted(given)) or 'none of them'}"
        )
    recipe, rows, second = with_schedule(size is not None and is_small(size), recipe, rows, second)
    assert recipe.steps
    assert recipe.batch_size
    assert rows.sequence_length
    paths = [corpus] if isinstance(corpus, str | Path) else list(corpus)
    steps = [recipe.steps, *([] if second.then_steps is None else [second.then_steps])]
    # The model is measured after each of these steps.
    epoch_ends = [
        first + min(done + recipe.measure_every, count)
        for first, count in zip((0, recipe.steps), steps, strict=False)
        for done in range(0, count, recipe.measure_every)
    ]

    def describe(position: Position) -> str:
        done = epoch_ends[min(position.epoch, len(epoch_ends)) - 1] if position.epoch else 0
        return f"step {done + position.step:,} of {epoch_ends[-1]:,}"

    inputs = (*paths, validation, vocab, size, preset, teacher)
    run = Run.into(output, overwrite, inputs, describe, log, has_preset=preset is not None)
    assert run.directory is not None  # inside the output
    with _training_on(dtype, strategy, run, log) as devices:
        run_settings = {**vars(recipe), "steps": steps}
        del run_settings["batch_size"]  # `Phase` has it, because the phases may differ
        if recipe.learning_rate is None:
            del run_settings["learning_rate"]  # the size of the model decides it
        if teacher is None:
            del run_settings["temperature"]
        run.log_position(run_settings, len(epoch_ends))
        training_paths = [path for each in paths for path in files.text_files(Path(each))]
        validation_paths = [] if validation is None else files.text_files(Path(validation))
        keras.utils.set_random_seed(recipe.seed)  # a teacher may get a new head
        with devices.scope():
            trained = None
            if (source := preset or teacher) is not None:
                trained, origin = _load_masked_lm(source, rows, "preset" if teacher is None else "teacher")
                config, preprocessor, pairs = trained.encoder.config, trained.preprocessor, trained.pairs
            else:
                rows = dataclasses.replace(rows, objective=rows.objective or OBJECTIVES[0])
                pairs = rows.objective != "sentences"
                tokenizer, origin = read_vocabulary(str(vocab)), f"new weights, of the size {size}"
                config, length = config_of(str(size), tokenizer, pairs), rows.sequence_length
                preprocessor = BertPreprocessor(tokenizer, length, max_sequence_length=config.max_positions)
            rows = dataclasses.replace(rows, objective=rows.objective or objective_of(config, pairs))
            assert preprocessor is not None  # a pre-trainer has one
            assert rows.objective
        for each in filter(None, (training_paths, validation_paths)):
            check_documents(each, rows.layout, rows.objective)
        all_rows = [_Rows(run.directory, preprocessor, rows, recipe.seed, recipe.steps, recipe.batch_size)]
        if second.then_steps is not None:
            assert second.then_length
            assert second.then_batch_size
            if second.then_length > config.max_positions:
                raise ValueError(f"then_length is {second.then_length}; the model has {config.max_positions} positions")
            longer = BertPreprocessor(
                preprocessor.tokenizer, second.then_length, max_sequence_length=config.max_positions
            )
            sizes = (second.then_steps, second.then_batch_size)
            all_rows.append(_Rows(run.directory / _THEN, longer, rows, recipe.seed, *sizes))
        if run.is_chief and teacher is None:
            log(origin)
        with distribution.chief_first(devices):
            run.clear()
            phases, counts = zip(*(each.write(training_paths, validation_paths, log) for each in all_rows), strict=True)
        keras.utils.set_random_seed(recipe.seed)
        with devices.scope():
            if trained is None:
                model = BertPretrainer(BertEncoder(config), all_rows[-1].preprocessor, pairs)  # reads the longest rows
            else:
                model = trained if num_layers is None else student_of(trained, num_layers)
        if recipe.learning_rate is None:
            width = config.hidden_size
            recipe = recipe.for_width(width, trained=trained is not None)
            start = "trained weights" if teacher is None else "its teacher"
            reason = f"it is {width} wide" if trained is None else f"it starts from {start}"
            if run.is_chief:
                log(f"learning rate {recipe.learning_rate:g} for this model, as {reason}")
        history = train_on_records(model, phases, run, recipe, None if teacher is None else trained)
        if run.is_chief and run.measures is None:
            model.save_preset(output, overwrite=True)
            by_step = [{"step": epoch_ends[int(each.pop("epoch")) - 1], **each} for each in map(dict, history)]
            report_settings = {"text": " ".join(map(str, paths)), "eval": validation}
            report_settings |= {name: each for name, each in sources.items() if each is not None}
            report_settings |= {**vars(rows), **run_settings, "steps": recipe.steps, "batch_size": recipe.batch_size}
            report_settings["learning_rate"] = recipe.learning_rate
            if second.then_steps is not None:
                report_settings |= vars(second)
            report_settings |= {"dtype": dtype, **counts[0]}
            measures = _measures_of(history[-1])
            report.write_report(output, report_settings, by_step, Score(measures), _PANELS)
            data = {"training data": f"{counts[0]['tokens'] // rows.copies:,} tokens of {_names(training_paths)}"}
            if validation_paths:
                data["measured on"] = _names(validation_paths)
            _write_card(model, output, source, measures, {**data, **vars(rows), **run_settings})
            run.seal(measures)
    return run.measures or {}


def _names(paths: Sequence[Path]) -> str:
    return paths[0].name if len(paths) == 1 else f"{len(paths):,} files"


def _write_card(
    model: BertTask,
    output: str | Path,
    base: str | Path | None,
    measures: Mapping[str, float],
    settings: Mapping[str, object],
) -> None:
    """Writes the model card again, with what is known now. It tells no path of this machine."""
    start = {} if base is None else {"weights of": Path(base).name if Path(base).is_dir() else base}
    known = {name: value for name, value in settings.items() if value not in (None, False, {})}
    write_card(output, model.saved(), Training(base, measures, {**start, **known}))


def _measures_of(entry: Mapping[str, float]) -> dict[str, float]:
    """Selects the loss and the validation measures of an entry of the history, named as `evaluate` names them."""
    measures = {name.removeprefix("val_"): value for name, value in entry.items() if name.startswith("val_")}
    return {"loss": entry["loss"], **{name: value for name, value in measures.items() if name != "loss"}}


def _load_masked_lm(handle: str | Path, rows: RowsRecipe, role: str) -> tuple[BertPretrainer, str]:
    """Loads the preset to train further, or the teacher. Returns it, and a line of the log about its weights."""
    with formats.open_checkpoint(handle) as checkpoint:
        heads = checkpoint.heads
    pairs = None if rows.objective is None else rows.objective != "sentences"
    note = f"weights of {handle}"
    if "masked_lm" not in heads:
        purpose = "to learn from" if role == "teacher" else "to train further"
        raise ValueError(f"{role}: {handle} has no masked language modeling head {purpose}")
    if "next_sentence" not in heads:
        note += "; it has no head for pairs, and gets none"
        if pairs and role == "preset":
            raise ValueError(f"{handle} has no head for pairs, which objective {rows.objective!r} needs; leave it out")
    elif pairs is False:
        note += "; its head for pairs is left out"
    return BertPretrainer.from_preset(handle, sequence_length=rows.sequence_length, pairs=pairs), note


class _Rows(NamedTuple):
    """The rows of a phase of pre-training, all of one length."""

    folder: Path
    preprocessor: BertPreprocessor
    recipe: RowsRecipe
    seed: int
    steps: int
    batch_size: int

    def write(self, training_paths: list[Path], validation_paths: list[Path], log: Log) -> tuple[Phase, dict[str, int]]:
        """Writes records of text files. Returns the phase that trains on them, and the counts of `write_records`."""
        recipe, length = self.recipe, self.preprocessor.sequence_length
        predictions = default_predictions(length)
        names = ("objective", "layout", "masked_unit", "pack", "processes")
        settings = {name: getattr(recipe, name) for name in names}
        settings |= {"seed": self.seed, "predictions": predictions}
        counts = write_records(
            training_paths, self.folder / _RECORDS, self.preprocessor, copies=recipe.copies, **settings
        )
        log(f"{_describe_text(counts, training_paths, recipe.copies)}, in rows of {length} tokens")
        validation = None
        if validation_paths:
            validation = self.folder / _VALIDATION
            validation_counts = write_records(validation_paths, validation, self.preprocessor, **settings)
            log(f"validation: {_describe_text(validation_counts, validation_paths)}")
        masking = MaskedLMMasking(self.preprocessor.tokenizer, predictions, masked_unit=recipe.masked_unit)
        phase_masking = None if recipe.static_masking else masking
        return Phase(self.folder / _RECORDS, self.steps, self.batch_size, phase_masking, validation), counts


def _describe_text(counts: dict[str, int], paths: list[Path], copies: int = 1) -> str:
    source = str(paths[0]) if len(paths) == 1 else f"{len(paths):,} files"
    text = ", ".join(counted(counts[f"{noun}s"] // copies, noun) for noun in ("document", "sentence", "token"))
    return f"{counted(counts['examples'], 'example')} of {text}, from {source}"


@contextlib.contextmanager
def _training_on(dtype: str, strategy: str, run: Run, log: Log) -> Iterator[tf.distribute.Strategy]:
    """Sets the dtype policy in this block, and chooses the devices."""
    check_choice("dtype", dtype, DTYPES)
    old_policy = keras.config.dtype_policy()
    keras.config.set_dtype_policy(dtype)
    try:
        devices, name = choose(strategy)
        run.is_chief = distribution.is_chief(devices)
        if devices.num_replicas_in_sync > 1:
            log(f"training on {name}")
        yield devices
    finally:
        keras.config.set_dtype_policy(old_policy)
