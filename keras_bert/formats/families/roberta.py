"""RoBERTa, XLM-RoBERTa and CamemBERT: positions count from pad_token_id + 1 and skip padding (Liu et al. 2019)."""

from keras_bert.formats.families import bert
from keras_bert.formats.families.row import Family, SentencePieceFamily, size

TWO_LAYERS = {"transform": "classifier.dense", "logits": "classifier.out_proj"}
ROW = bert.ROW._replace(
    classes="Roberta",
    prefix="roberta.",
    values={"positions_after_padding": True, "pad_token_id": 1},
    heads={
        "masked_lm": {"transform": "lm_head.dense", "norm": "lm_head.layer_norm", "bias": "lm_head.bias"},
        **bert.ONE_LAYER,
        "sequence": TWO_LAYERS,
    },
)
HEADS = {"masked_lm_activation": "gelu", "sequence_activation": "tanh"}
SIZE = {
    "vocab_size": 50265,
    "type_vocab_size": 1,
    "pad_token_id": 1,
    "layer_norm_epsilon": 1e-5,
    "positions_after_padding": True,
}
UNK_AND_PAD = {"unk_token": "<unk>", "pad_token": "<pad>"}
_TOKENS = {**UNK_AND_PAD, "cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>"}
_USE = ("sentencepiece.bpe.model", "XLMRobertaTokenizer", ("input_ids", "attention_mask"), _TOKENS, 2, 0)
# fairseq's dictionary begins with four tokens of its own, in place of the model's first three, <unk>, <s> and </s>.
_XLM_PIECES = SentencePieceFamily(
    *_USE, first=("<s>", "<pad>", "</s>", "<unk>"), skipped=3, last=("<mask>",), is_alone=True
)
# fairseq's dictionary has its own tokens, of which <pad> and <unk> are used, and then all of the model's.
_CAMEMBERT_PIECES = _XLM_PIECES._replace(
    transformers_class="CamembertTokenizer",
    first=("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
    hidden=("<unk>NOTUSED",),
    skipped=1,
)

ROBERTA = Family(
    "roberta",
    hugging_face=ROW,
    in_tensorflow="roberta",
    heads=HEADS,
    size=SIZE,
    sizes={"roberta-base": size(12, 768), "roberta-large": size(24, 1024)},
    tokenizer_class="RobertaTokenizer",
)
XLM_ROBERTA = Family(
    "xlm-roberta",
    hugging_face=ROW._replace(classes="XLMRoberta"),
    in_tensorflow="roberta",
    heads=HEADS,
    size={**SIZE, "vocab_size": 250002},
    sizes={"xlm-roberta-base": size(12, 768), "xlm-roberta-large": size(24, 1024)},
    sentencepiece={"xlm-roberta": _XLM_PIECES},
)
CAMEMBERT = Family(
    "camembert",
    hugging_face=ROW._replace(classes="Camembert"),
    in_tensorflow="roberta",
    heads=HEADS,
    sentencepiece={"camembert": _CAMEMBERT_PIECES},
)
