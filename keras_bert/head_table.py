"""The table of heads, a row each. Whatever lists heads reads it; it imports nothing heavy."""

from typing import NamedTuple


class Head(NamedTuple):
    """A head."""

    transformers: str  # the suffix of the class of `transformers` that has it
    purpose: str  # what a model card says of it
    learns: str | None = None  # what a fine-tuned head predicts for, as messages say; None for heads of pre-training
    has_labels: bool = False  # whether its outputs are named in `id2label` of `config.json`
    of_text: bool = False  # whether it has logits of a whole text, not of its words
    logits: tuple[str, ...] = ("logits",)  # their names in transformers' outputs; several: as many of each token
    is_list: bool = False  # whether it compares the rows of a list: `[batch, choices, seq_length]`
    of_pooler: bool = False  # whether it always reads the pooler; of a text, it may, see `BertConfig.reads_pooler`
    layer: str = ""  # the dense layer in transformers' BERT that is the whole head; "": each family lists its layers
    columns: tuple[str, ...] | None = None  # of files of its texts; None: those that the user names


# In the order of the classes in a file's `architectures`.
HEADS = {
    "masked_lm": Head("ForMaskedLM", "masked language modeling"),
    "replaced_tokens": Head("ForPreTraining", "detection of replaced tokens"),
    "sequence": Head(
        "ForSequenceClassification", "classification of sequences", "texts", True, True, layer="classifier"
    ),
    "tokens": Head("ForTokenClassification", "classification of tokens", "words", True, layer="classifier"),
    "spans": Head(
        "ForQuestionAnswering",
        "question answering by spans",
        "answers to questions",
        logits=("start_logits", "end_logits"),
        layer="qa_outputs",
        columns=("question", "context"),
    ),
    "choices": Head(
        "ForMultipleChoice",
        "multiple choice",
        "choices",
        of_text=True,
        is_list=True,
        layer="classifier",
        columns=(),
    ),
    "next_sentence": Head(
        "ForNextSentencePrediction", "next-sentence prediction (in ALBERT, sentence order)", of_pooler=True
    ),
}
# Files tell heads with the same layer apart by the class of transformers alone.
assert len({(each.transformers, each.layer) for each in HEADS.values()}) == len(HEADS), "two heads look alike in files"
