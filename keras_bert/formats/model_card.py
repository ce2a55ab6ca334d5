"""The model card (README.md) in Hugging Face's layout: facts from the files, and gaps to fill in."""

from keras_bert.config import BertConfig

_HEADS = {
    "masked_lm": "masked language modeling",
    "next_sentence": "next-sentence prediction (in ALBERT, sentence order)",
    "replaced_tokens": "detection of replaced tokens",
    "sequence": "classification of sequences",
    "tokens": "classification of tokens",
    "spans": "question answering by spans",
}

_CRF = """
A conditional random field follows the head: its scores of transitions are in `crf.safetensors`, which only `keras_bert`
reads. To `transformers` this is a {architecture}, which gives the emissions (the logits of each token):
the best label of a word by itself is not always the answer of this model.
"""


def model_card(
    config: BertConfig, heads: set[str], architecture: str, lacks_pooler: bool, has_crf: bool = False
) -> str:
    """The text of a model card.

    Args:
        config: the encoder's config.
        heads: the names of the heads.
        architecture: the class in `transformers` that reads the model.
        lacks_pooler: whether that class may draw a pooler at random, because the file has none.
        has_crf: whether a CRF follows the head.
    """
    purpose = ", ".join(text for head, text in _HEADS.items() if head in heads) or "none: the bare encoder"
    auto = architecture if heads else "AutoModel"
    crf = _CRF.format(architecture=architecture) if has_crf else ""
    given = ", add_pooling_layer=False" if lacks_pooler else ""
    return f"""---
library_name: transformers
tags:
- keras_bert
- {config.family}
---

# A {config.family} model

| | |
|---|---|
| layers | {config.num_layers} |
| hidden size | {config.hidden_size} |
| attention heads | {config.num_heads} |
| feed-forward size | {config.intermediate_size} |
| vocabulary | {config.vocab_size:,} tokens |
| longest sequence | {config.max_positions} tokens |
| head | {purpose} |

Read it with `keras_bert`:

    from keras_bert import BertEncoder
    encoder = BertEncoder.from_preset("this directory")

or with `transformers` (PyTorch):

    from transformers import {auto}
    model = {auto}.from_pretrained("this directory"{given})
{crf}
Before you share it, describe its training data and training, its purpose and limits, its quality, and its licence.
"""
