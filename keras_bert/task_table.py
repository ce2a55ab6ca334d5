"""The table of tasks, a row each. Whatever lists tasks reads it; it needs no TensorFlow."""

from __future__ import annotations

from typing import NamedTuple

from keras_bert.data import task_files
from keras_bert.data.table_formats import TABLES


class Task(NamedTuple):
    """A task."""

    model: str  # its class in `keras_bert`
    module: str  # the file in `keras_bert/tasks/` that has the class
    kind: str  # what its labels and answers are: a class in `keras_bert/tasks/`, with its file
    answerer: str  # what answers its texts, with its verb: a class in `keras_bert/answers/`, with its file
    head: str | None  # its head in checkpoints, a key of `head_table.HEADS`; None: it has none
    call: str  # how to ask it, in a model card
    pipeline: str | None = None  # its name on the Hugging Face Hub, `pipeline_tag`
    library: str | None = None  # the class of sentence-transformers that reads its files
    library_title: str = ""  # what a model of that class is, in words
    # Whether `registry.task_of` finds it by a preset's head. Of tasks with one head, the last one that recognizes the
    # preset wins; the first one is the most general.
    is_found: bool = True
    # The class of its exports in `keras_bert/engines/`, with its file; None: they have `logits` of each text, of which
    # the answerer makes all else.
    engine: str | None = None
    kept: str | None = None  # of what compares texts, what an index keeps of them: a class in `keras_bert/search/`
    asked: str = ""  # the command that asks it, {} is the path; by default `predict`
    measured: type[task_files.ExampleFiles] | None = None  # how examples to measure it on are read; None: they are not
    # Of a task that is fine-tuned on files: the subcommand of `finetune`, its help, what it reads.
    command: str | None = None
    help: str = ""
    files: type[task_files.ExampleFiles] = task_files.ExampleFiles


# fmt: off
TASKS = (
    Task(
        "BertClassifier", "classifier", "kinds.classes.OfTexts", "classes.Classifier", "sequence", 'classify("a text")',
        "text-classification", engine="models.RuntimeClassifier", measured=task_files.ClassifyFiles, command="classify",
        help=f"""\
Classify texts or pairs: {TABLES}, or a directory with one directory per class.

With few examples of each class, the encoder learns from pairs of them, then the head is fitted (--few-shot).

\b
Example:
  $ keras-bert finetune classify --train train.csv --eval dev.csv --output my-model
""",
        files=task_files.ClassifyFiles,
    ),
    Task(
        "BertTokenClassifier", "token_classifier", "kinds.words.WordLabels", "words.Tagger", "tokens",
        'tag(["some", "words"])', "token-classification", engine="models.RuntimeTagger",
        measured=task_files.TagFiles, command="tag", help="""\
Label words, such as named entities: CoNLL's columns, one word per line, a blank line between sentences.

\b
Example:
  $ keras-bert finetune tag --train train.conll --eval dev.conll --output my-tagger
""",
        files=task_files.TagFiles,
    ),
    Task(
        "BertQuestionAnswerer", "question_answerer", "question_answerer.Spans", "spans.QuestionAnswerer", "spans",
        'answer("a question", "a text")', "question-answering", engine="models.RuntimeQuestionAnswerer",
        measured=task_files.AnswerFiles, command="answer", help="""\
Answer questions by spans of a text: SQuAD's JSON, version 1.1 or 2.0, or its rows as JSON lines or Parquet.

\b
Example:
  $ keras-bert finetune answer --train train-v1.1.json --eval dev-v1.1.json --output my-answerer
""",
        files=task_files.AnswerFiles,
    ),
    Task(
        "BertReranker", "reranker", "reranker.Ranking", "ranking.Reranker", "sequence",
        'rank("a query", ["a text", "another"])', "text-ranking", "CrossEncoder", "a cross-encoder",
        engine="models.RuntimeReranker", measured=task_files.ClassifyFiles, command="rank", help="""\
Train a reranker on a table with a query, a text and a label, 1 or 0; or on lists.

By default, the query is in the column `text`, and the text that may answer it in `text_pair`. A label is 1 for an
answer, 0 for none, or between. With --negative-column, a row is a list: a query, its answer, and other texts, such
as those that `mine` finds. `search --rerank` takes the model.

\b
Examples:
  $ keras-bert finetune rank --train train.csv --eval dev.csv --output my-reranker
  $ keras-bert finetune rank --train mined.jsonl --query-column query --passage-column positive \\
      --negative-column negative --output my-reranker
""",
        files=task_files.RankFiles,
    ),
    Task(
        "BertMultipleChoice", "multiple_choice", "multiple_choice.Choices", "choices.Chooser", "choices",
        'choose("a question", ["an answer", "another"])', "multiple-choice", measured=task_files.ChooseFiles,
        command="choose",
        help=f"""\
Choose the best of several answers: {TABLES}, with a column for each choice.

\b
Example:
  $ keras-bert finetune choose --train swag.csv --question-column sent1 --choice-column ending0 \\
      --choice-column ending1 --choice-column ending2 --choice-column ending3 --output my-chooser
""",
        files=task_files.ChooseFiles,
    ),
    Task(
        "BertSentenceEncoder", "sentence", "sentence.Similarity", "similarity.SentenceEncoder", None,
        'encode("a text")', "sentence-similarity", "SentenceTransformer", "a sentence encoder", is_found=False,
        engine="models.RuntimeSentenceEncoder", kept="dense_vectors.DenseVectors",
        asked='keras-bert encode "a text" --preset {}',
        command="embed",
        help=f"""\
Train sentence vectors on pairs, triplets or pairs with scores: {TABLES}.

Without scores, a query learns to find its positive among all positives and negatives of a batch, so a large
--batch-size helps, with --mini-batch-size if memory is short. Equal texts are never each other's negatives. Scores
of pairs may be any numbers; scores of triplets, such as a reranker's, should be about as large as cosines.
If --eval has no negatives, pairs are measured.

\b
Example:
  $ keras-bert finetune embed --train qa.jsonl --query-column question --positive-column context --output my-encoder
""",
        files=task_files.EmbedFiles,
    ),
    Task(
        "BertMaskedLM", "masked_lm", "masked_lm.MaskedTokens", "tokens.MaskFiller", "masked_lm",
        'fill("a text with a [MASK]")', "fill-mask", is_found=False, engine="models.RuntimeMaskedLM",
        asked='keras-bert fill {} "a text with a [MASK]"',
    ),
    Task(
        "BertNextSentence", "next_sentence", "next_sentence.NextSentence", "tokens.NextSentenceScorer", "next_sentence",
        'score("a text", "does it follow?")', is_found=False, measured=task_files.ClassifyFiles,
    ),
    Task(
        "BertSparseEncoder", "sparse", "sparse.TokenWeights", "tokens.SparseEncoder", "masked_lm", 'encode("a text")',
        "feature-extraction", "SparseEncoder", "a sparse encoder", engine="models.RuntimeSparseEncoder",
        kept="postings.Postings", command="embed-sparse",
        help=f"""\
Train weights of tokens (SPLADE) on pairs, triplets or texts with scores: {TABLES}.

The model starts from a masked language model. It learns to rank by dot products, and to give few tokens a weight:
FLOPS adds to the loss, and its weights grow over the first third of the run. Scores of a positive and negatives are
those of a better model, such as a reranker's logits. With --query-table, only documents need the network.

\b
Example:
  $ keras-bert finetune embed-sparse --train qa.jsonl --query-column question --positive-column context \\
      --preset bert-books --output my-splade
""",
        files=task_files.SparseFiles,
    ),
    Task(
        "BertMultiVectorEncoder", "multi_vector", "multi_vector.TokenVectors", "token_vectors.MultiVectorEncoder", None,
        'encode("a text")', "sentence-similarity", "MultiVectorEncoder", "a multi-vector encoder",
        engine="models.RuntimeMultiVectorEncoder", kept="token_vectors.TokenVectors",
        asked='keras-bert encode "a text" --preset {}',
        command="embed-tokens",
        help=f"""\
Train a vector for each token (ColBERT) on pairs, triplets or texts with scores: {TABLES}.

Queries and texts are compared by MaxSim. A model without such vectors gets a new layer for them. Without scores, a
query learns to find its positive among all positives and negatives of a batch. Scores are those of a better model,
such as a reranker's logits, for the positive and for each negative.

\b
Example:
  $ keras-bert finetune embed-tokens --train qa.jsonl --query-column question --positive-column context \\
      --output my-colbert
""",
        files=task_files.TokenVectorFiles,
    ),
)
# fmt: on

FINE_TUNING = {task.command: task for task in TASKS if task.command}
OF_HEAD = {task.head: task for task in reversed(TASKS)}  # the most general task of each; of no head, vectors of texts
OF_LIBRARY = {task.library: task for task in TASKS if task.library}
COMPARED = {task.model: task.kept for task in TASKS if task.kept}  # what compares texts -> what an index keeps of them
PRETRAINED = {task.call.partition("(")[0]: task.model for task in TASKS if not task.is_found}  # method -> class
