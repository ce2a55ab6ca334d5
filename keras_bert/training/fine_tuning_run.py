"""A whole fine-tuning, from files to a directory with a model and its report. The same call resumes it."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_bert.counted import counted
from keras_bert.data.examples import lookalikes
from keras_bert.recipe import EPOCHS
from keras_bert.tasks import few_shot
from keras_bert.tasks.file_settings import ClassifyFiles
from keras_bert.tasks.kinds import BASELINE, Score
from keras_bert.tasks.registry import Job, check_labels, load_task
from keras_bert.tasks.storable import UntrainedWarning
from keras_bert.tasks.task import BertTask
from keras_bert.training import report
from keras_bert.training.batches import columns_in
from keras_bert.training.distillation import check_teacher, student_of
from keras_bert.training.fine_tune import FineTuning, split
from keras_bert.training.run import Log, Position, Run

_LABELS_IN_LOG = 30  # labels in a line of the log


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
            - "classify": `text_column`, `text_pair_column`, `label_column`, `header`, `format`, `delimiter`, `sheet`,
              `problem_type`, `long_text`, `pooling`;
              the problem type decides its loss;
            - "tag": `label_column`, `long_text`, `crf`;
            - "answer": `no_answer_threshold`;
            - "rank": `text_column`, `text_pair_column`, `label_column`, `negative_columns`, `score_columns`, `header`,
              `format`, `delimiter`, `sheet`, `loss`;
            - "choose": `question_column`, `choice_columns`, `label_column`, `header`, `format`, `delimiter`, `sheet`;
            - "embed": `query_column`, `positive_column`, `negative_columns`, `score_columns`, `header`, `format`,
              `delimiter`, `sheet`, `query_prompt`, `positive_prompt`, `loss`, `matryoshka_dims`, `mini_batch_size`.

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
        ['accuracy', 'accuracy_baseline']
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
    with run.on_devices(dtype, strategy) as devices:
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
        if examples_to_measure is not None and validation is not None:
            check_labels(model, examples_to_measure, validation)
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
        before = model.settings()
        history = FineTuning(model, examples, validation_examples, run, recipe, **arguments).to_the_end()
        if run.is_chief and run.measures is None:
            chosen = {name: value for name, value in model.settings().items() if value != before[name]}
            for name, value in chosen.items():
                is_best = f"val_{name}" in history[-1]
                how = "the best on these examples" if is_best else "a default; examples to measure with would choose it"
                log(f"{name} {value:.4f}: {how}")
            model.save_preset(output, overwrite=True)
            score = Score({})  # without validation examples
            if validation_examples is not None:
                score = model.kind.score(model.answers(validation_examples[0]), validation_examples[1])
                if warning := score.warning:
                    warnings.warn(warning, stacklevel=2)
            report_settings = {"train": train, "eval": validation, "preset": start}
            report_settings |= {} if teacher is None else {"num_layers": num_layers}
            report_settings |= {**vars(job.settings), **chosen, **run_settings, "dtype": dtype}
            report.write_report(output, report_settings, history, score)
            data = {"training data": f"{counted(training_examples, 'example')} of {Path(train).name}"}
            if validation_examples is not None:
                data["measured on"] = counted(columns_in(validation_examples[0])[0], "example")
            measures = {**score.measures, **report.without_classes(score.details)}
            report.write_card(model, output, start, measures, {**data, **chosen, **run_settings})
            baselines = {f"{name}{BASELINE}": value for name, value in score.baselines.items()}
            run.seal({**score.measures, **baselines})
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
