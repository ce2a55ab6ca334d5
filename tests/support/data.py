"""Paths of data beside the repository: real texts, vocabularies and models."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SHARED_DATA = ROOT.parent / "shared" / "data"
TF_HUB = {
    "preprocessor": SHARED_DATA / "tfhub/bert_en_uncased_preprocess_3",
    "encoder": SHARED_DATA / "tfhub/small_bert_en_uncased_L-2_H-128_A-2_2",
}
