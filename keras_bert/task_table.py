"""The table of tasks, a line each, and that of their heads. Whatever lists tasks reads it; it imports nothing heavy."""

from __future__ import annotations

from typing import NamedTuple


class Task(NamedTuple):
    """A task."""

    model: str  # its class in `keras_bert`
    module: str  # the file in `keras_bert/tasks/` that has the class
    kind: str  # what its labels and answers are: a class in `keras_bert/tasks/`, with its file
    head: str | None  # its head in checkpoints, a key of `HEADS`; None: it has none
    command: str | None = None  # the subcommand of `finetune` that trains it; None: there is none
    # Whether `registry.task_of` finds it by a preset's head. Of tasks with one head, the first one that recognizes the
    # preset wins.
    is_found: bool = True
    pipeline: str | None = None  # its name on the Hugging Face Hub, `pipeline_tag`
    call: str = ""  # how to ask it, in a model card


TASKS = (
    Task(
        "BertReranker",
        "reranker",
        "kinds.ranking.Ranking",
        "sequence",
        "rank",
        pipeline="text-ranking",
        call='rank("a query", ["a text", "another"])',
    ),
    Task(
        "BertClassifier",
        "classifier",
        "kinds.classes.OfTexts",
        "sequence",
        "classify",
        pipeline="text-classification",
        call='classify("a text")',
    ),
    Task(
        "BertTokenClassifier",
        "token_classifier",
        "kinds.words.WordLabels",
        "tokens",
        "tag",
        pipeline="token-classification",
        call='tag(["some", "words"])',
    ),
    Task(
        "BertQuestionAnswerer",
        "question_answerer",
        "kinds.spans.Spans",
        "spans",
        "answer",
        pipeline="question-answering",
        call='answer("a question", "a text")',
    ),
    Task(
        "BertMultipleChoice",
        "multiple_choice",
        "multiple_choice.Choices",
        "choices",
        "choose",
        pipeline="multiple-choice",
        call='choose("a question", ["an answer", "another"])',
    ),
    Task(
        "BertSparseEncoder",
        "sparse",
        "sparse.TokenWeights",
        "masked_lm",
        pipeline="feature-extraction",
        call='encode("a text")',
    ),
    Task(
        "BertSentenceEncoder",
        "sentence",
        "kinds.similarity.Similarity",
        None,
        "embed",
        is_found=False,
        pipeline="sentence-similarity",
        call='encode("a text")',
    ),
    Task(
        "BertMaskedLM",
        "masked_lm",
        "kinds.pretraining.MaskedTokens",
        "masked_lm",
        is_found=False,
        pipeline="fill-mask",
        call='fill("a text with a [MASK]")',
    ),
    Task(
        "BertNextSentence",
        "next_sentence",
        "kinds.pretraining.NextSentence",
        "next_sentence",
        is_found=False,
        call='score("a text", "does it follow?")',
    ),
)

PRETRAINED = {task.call.partition("(")[0]: task.model for task in TASKS if not task.is_found}  # method -> class


class Head(NamedTuple):
    """A head."""

    transformers: str  # the suffix of the class of `transformers` that has it
    purpose: str  # what a model card says of it
    learns: str | None = None  # what a fine-tuned head predicts for, as messages say; None for heads of pre-training
    has_labels: bool = False  # whether its outputs are named in `id2label` of `config.json`


# In the order of the classes in a file's `architectures`.
HEADS = {
    "masked_lm": Head("ForMaskedLM", "masked language modeling"),
    "replaced_tokens": Head("ForPreTraining", "detection of replaced tokens"),
    "sequence": Head("ForSequenceClassification", "classification of sequences", "texts", has_labels=True),
    "tokens": Head("ForTokenClassification", "classification of tokens", "words", has_labels=True),
    "spans": Head("ForQuestionAnswering", "question answering by spans", "answers to questions"),
    "choices": Head("ForMultipleChoice", "multiple choice", "choices"),
    "next_sentence": Head("ForNextSentencePrediction", "next-sentence prediction (in ALBERT, sentence order)"),
}
