"""A model that answers texts, whatever computes it: the base of the verbs, for models of Keras and for exports."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from keras_bert import files
from keras_bert.answers import Answers
from keras_bert.answers.by_length import ByLength
from keras_bert.answers.columns import Texts, columns_of
from keras_bert.data.task_files import ExampleFiles
from keras_bert.task_table import TASKS


class Setting(NamedTuple):
    """An argument of a task's class, which its files hold."""

    name: str
    types: files.JsonShape  # in JSON
    value: Callable[[Any], object] | None = None  # of a model; None: the attribute of that name
    is_left_out: bool = False  # whether files lack it if it is False


DROPOUT = Setting("dropout", (float, None), lambda model: model.dropout_rate)


class Answerer:
    """A model that answers texts. A subclass has a verb, such as `classify`."""

    TASK: ClassVar[str] = ""  # the class of the model in Keras: `model` of its row in `task_table.TASKS`
    FILES: ClassVar[type[ExampleFiles] | None] = None  # how its labelled examples are read from files
    SETTINGS: ClassVar[tuple[Setting, ...]] = ()  # what its files hold: arguments of the class of Keras's model
    VERB: ClassVar[str]  # the method that answers texts: one of each of `text_names`, or lists of them

    kind: Answers  # what its labels and answers are
    text_names: tuple[str, ...] = ("text",)  # the names of the texts that the task reads, as in its serving signature
    preprocessor: Any
    _by_length: ByLength  # runs the model over texts; a model without a preprocessor has none

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.FILES = next((task.measured for task in TASKS if task.model == cls.TASK), cls.FILES)

    def columns(self, x: Texts) -> tuple[Sequence[Any], ...]:
        """Reads the columns of texts in examples. Raises ValueError if the model reads other ones."""
        return columns_of(x)

    def answers(self, x: Texts, progress: bool | None = None) -> Sequence[Any]:
        """Answers examples: those of the task's verb, as `Answers.score` takes them."""
        return getattr(self, self.VERB)(*self.columns(x), progress=progress)

    def warn_if_untrained(self) -> None:
        """Warns once, before the first answer, of a new head that has not been trained. An export has none."""
