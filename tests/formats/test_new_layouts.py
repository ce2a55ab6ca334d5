"""What a new family and a new layout take: a table; a module and its line."""

from dataclasses import replace
from types import SimpleNamespace

from keras_bert import BertConfig, BertEncoder, formats
from keras_bert.formats import FAMILIES, hugging_face
from keras_bert.formats.preset import LAYOUTS, Preset

from ..support.checkpoints import CONFIGS, SIZES, random_weights, read_all, same


def test_a_new_family_is_a_table(monkeypatch, tmp_path):
    """Everything else follows: reading, writing, its encoder, its heads."""
    monkeypatch.setitem(FAMILIES, "camembert", replace(FAMILIES["roberta"], classes="Camembert"))
    config = BertConfig(**SIZES, family="camembert", pad_token_id=1, positions_after_padding=True)
    weights = random_weights(config, "masked_lm")
    formats.write(tmp_path, config, weights)
    read_format, read_config, read_weights = read_all(tmp_path)
    assert (read_format, read_config.family) == ("hugging_face", "camembert")
    assert same(read_weights, weights | {"encoder": read_weights["encoder"]})
    assert '"CamembertForMaskedLM"' in (tmp_path / "config.json").read_text()
    assert BertEncoder.from_preset(tmp_path).config == read_config


def test_a_new_layout_is_a_module_and_its_line(monkeypatch, tmp_path):
    layout = SimpleNamespace(
        recognizes=lambda preset: (preset.directory / "theirs").is_dir(),
        open_checkpoint=lambda preset: hugging_face.open_checkpoint(Preset(preset.directory / "theirs")),
    )
    monkeypatch.setitem(LAYOUTS, "theirs", layout)
    weights = random_weights(CONFIGS["bert"], "masked_lm")
    formats.write(tmp_path / "theirs", CONFIGS["bert"], weights)
    assert same(read_all(tmp_path)[2], weights)
    assert BertEncoder.from_preset(tmp_path).config == CONFIGS["bert"]
