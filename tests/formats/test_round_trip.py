"""Around all formats that are written: not one bit of a weight changes."""

import warnings

from safetensors.numpy import load_file

from keras_bert import formats

from ..support.checkpoints import CONFIGS, random_weights


def convert(source, target, form):
    with formats.open_checkpoint(source) as checkpoint:
        parts = {part: checkpoint.weights(part) for part in ("encoder", *checkpoint.heads)}
        formats.write(target, checkpoint.config, parts, format=form)
        return checkpoint.format


def test_values_begin_at_a_multiple_of_8(tmp_path):
    """As the format asks for, so that a program may use the values where they lie."""
    for family, config in CONFIGS.items():
        formats.write(tmp_path / family, config, random_weights(config))
        header = int.from_bytes((tmp_path / family / "model.safetensors").read_bytes()[:8], "little")
        assert header % 8 == 0, family


def test_hugging_face_tf1_garden_hugging_face(tmp_path):
    config = CONFIGS["bert"]
    formats.write(tmp_path / "0", config, random_weights(config, "masked_lm", "next_sentence"))
    forms = ["tf1", "garden", "hugging_face"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # this model has the tanh approximation, which all of them express
        read = [convert(tmp_path / str(i), tmp_path / str(i + 1), form) for i, form in enumerate(forms)]
    assert read == ["hugging_face", "tf1", "garden"]
    first, last = (load_file(tmp_path / name / "model.safetensors") for name in ("0", "3"))
    assert list(first) == list(last)
    assert all(first[name].tobytes() == last[name].tobytes() for name in first)
    for name in ("config.json", "model.safetensors"):
        assert (tmp_path / "0" / name).read_bytes() == (tmp_path / "3" / name).read_bytes()
