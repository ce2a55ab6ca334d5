"""The published sizes: as many parameters as their papers and model pages say. Nothing of that size is built."""

import math

import pytest

from keras_bert import BertConfig
from keras_bert.shapes import shapes
from keras_bert.sizes import SIZES

# Name -> exact parameters of the encoder, without heads; what is published, rounded and partly with heads; and where.
PUBLISHED = {
    "bert-tiny": (4_385_920, "4.4M", "Turc et al. 2019, arXiv 1908.08962; google-research/bert README"),
    "bert-mini": (11_170_560, "11.2M", "google-research/bert README"),
    "bert-small": (28_763_648, "28.8M", "google-research/bert README"),
    "bert-medium": (41_373_184, "41.4M", "google-research/bert README"),
    "bert-base": (109_482_240, "110M", "Devlin et al. 2018, section 3"),
    "bert-large": (335_141_888, "340M", "Devlin et al. 2018, section 3"),
    "bert-base-cased": (108_310_272, "110M", "google-research/bert README"),
    "bert-base-chinese": (102_267_648, "110M", "google-research/bert README"),
    "bert-base-multilingual-cased": (177_853_440, "179M", "google-research/bert, multilingual.md; transformers docs"),
    "minilm-l6": (22_713_216, "22.7M", "sentence-transformers/all-MiniLM-L6-v2"),
    "minilm-l12": (33_360_000, "33M", "Wang et al. 2020, arXiv 2002.10957; microsoft/MiniLM-L12-H384-uncased"),
    "roberta-base": (124_645_632, "125M", "Liu et al. 2019, arXiv 1907.11692; fairseq examples/roberta"),
    "roberta-large": (355_359_744, "355M", "Liu et al. 2019, section 5; fairseq examples/roberta"),
    "xlm-roberta-base": (278_043_648, "270M", "Conneau et al. 2019, arXiv 1911.02116, table 6"),
    "xlm-roberta-large": (559_890_432, "550M", "Conneau et al. 2019, arXiv 1911.02116, table 6"),
    "distilbert-base": (66_362_880, "66M", "Sanh et al. 2019, arXiv 1910.01108, table 3"),
    "albert-base": (11_683_584, "12M", "Lan et al. 2019, arXiv 1909.11942, table 1"),
    "albert-large": (17_683_968, "18M", "Lan et al. 2019, table 1"),
    "albert-xlarge": (58_724_864, "60M", "Lan et al. 2019, table 1"),
    "albert-xxlarge": (222_595_584, "235M", "Lan et al. 2019, table 1"),
    "electra-small": (13_483_008, "14M", "Clark et al. 2020, arXiv 2003.10555, table 1; google-research/electra"),
    "electra-base": (108_891_648, "110M", "Clark et al. 2020; google-research/electra"),
    "electra-large": (334_092_288, "335M", "Clark et al. 2020; google-research/electra"),
    "modernbert-base": (149_014_272, "149M", "Warner et al. 2024, arXiv 2412.13663, section 2.2"),
    "modernbert-large": (394_781_696, "395M", "Warner et al. 2024, section 2.2"),
    "nomic-bert-2048": (136_731_648, "137M", "Nussbaum et al. 2024, arXiv 2402.01613"),
    "mpnet-base": (109_486_464, "110M", "Song et al. 2020, arXiv 2004.09297; microsoft/MPNet"),
    "deberta-v3-xsmall": (70_682_112, "70M", "microsoft/deberta-v3-xsmall: 22M and 48M of embeddings"),
    "deberta-v3-small": (141_304_320, "142M", "microsoft/deberta-v3-small: 44M and 98M of embeddings"),
    "deberta-v3-base": (183_831_552, "184M", "microsoft/deberta-v3-base: 86M and 98M of embeddings"),
    "deberta-v3-large": (434_012_160, "435M", "microsoft/deberta-v3-large: 304M and 131M of embeddings"),
    "gte-base-en-v1.5": (136_776_192, "137M", "Alibaba-NLP/gte-base-en-v1.5"),
    "gte-large-en-v1.5": (434_139_136, "434M", "Alibaba-NLP/gte-large-en-v1.5"),
    "eurobert-210m": (211_766_016, "210M", "Boizard et al. 2025, arXiv 2503.05500, table 1"),
    "eurobert-610m": (607_874_688, "610M", "Boizard et al. 2025, table 1"),
    "eurobert-2.1b": (2_107_590_912, "2100M", "Boizard et al. 2025, table 1"),
    "jina-embeddings-v3": (559_364_096, "570M", "Sturua et al. 2024, arXiv 2409.10173: 559M without adapters"),
    "neobert": (221_665_536, "222M", "Le Breton et al. 2025, arXiv 2502.19587: 250M with the decoder"),
}


def parameters(config):
    """The sum of all weights, each of which `tests/formats/test_checkpoint.py` compares with the encoder's own."""
    return sum(math.prod(shape) for shape in shapes(config, "encoder").values())


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters(name):
    exact, published, _ = PUBLISHED[name]
    found = parameters(BertConfig.named(name))
    assert found == exact
    # Rounded figures of papers, some with heads: within 10%.
    assert abs(found / 1e6 / float(published.removesuffix("M")) - 1) < 0.1


def test_every_size_is_in_the_table():
    """But ELECTRA's generators, whose sizes nobody published by themselves."""
    assert {name for name in SIZES if "generator" not in name} == set(PUBLISHED)


@pytest.mark.parametrize("name", [name for name in SIZES if "generator" in name])
def test_generators_are_smaller_or_as_large(name):
    assert 0 < parameters(BertConfig.named(name)) <= parameters(BertConfig.named(name.removesuffix("-generator")))


def test_layers_that_share_their_weights_are_counted_once():
    twice = BertConfig.named("albert-base", num_layers=24)
    assert parameters(twice) == parameters(BertConfig.named("albert-base"))
    groups = BertConfig.named("albert-base", num_groups=12)
    assert parameters(groups) > 80_000_000
