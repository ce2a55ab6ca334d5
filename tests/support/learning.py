"""For learned vocabularies: Hugging Face's tokenizers with the same vocabulary, and texts to compare on."""

from collections.abc import Sequence
from typing import Any

from keras_bert.text import WordPieceTokenizer

SIZES = {"wordpiece": 900, "bytepair": 400, "sentencepiece": 400}
# Texts that no vocabulary was learned from.
OTHER = [
    "",
    "Zebras quizzed a judge's ex-wife: 12,345.67%?!",
    "<s> [CLS] </s><mask>[MASK] ## ##a",
    "naïve NAÏVE Ångström e\u0301\u0301 \u0301",
    "😀 👩\u200d👩 ☃ 漢字かな 한글 עברית",
    "a" * 201,
    "x\u2028y\u3000z\x00\x7f\ufffd",
]


def wordpiece_of_hugging_face(tokenizer: WordPieceTokenizer) -> Any:
    """Hugging Face's tokenizer with BERT's parts, as in transformers."""
    import tokenizers

    ids = {token: index for index, token in enumerate(tokenizer.vocabulary)}
    model = tokenizers.models.WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=200)
    reader = tokenizers.Tokenizer(model)
    reader.normalizer = tokenizers.normalizers.BertNormalizer(
        lowercase=tokenizer.lowercase, strip_accents=tokenizer.strip_accents, handle_chinese_chars=True
    )
    reader.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    return reader


def compare(tokenizer: WordPieceTokenizer, reader: Any, texts: Sequence[str]) -> None:
    """Asserts that the ids are those of `reader`."""
    for text, ids in zip(texts, tokenizer.tokenize(texts).to_list(), strict=True):
        assert ids == reader.encode(text, add_special_tokens=False).ids, ascii(text)
