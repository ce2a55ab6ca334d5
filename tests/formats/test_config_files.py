"""Configuration files of Hugging Face's and of Google's: what is read is what was written; bad ones are named."""

import json

import pytest

from keras_bert import BertConfig, formats
from keras_bert.formats import FAMILIES, families, read_config, write_config

from ..support.checkpoints import CONFIGS, random_weights
from ..support.messages import error_names


def write_and_read(path, values):
    path.write_text(json.dumps(values))
    return read_config(path)


@pytest.mark.parametrize("name", ["config.json", "bert_config.json"])
def test_files_round_trip(tmp_path, name):
    with pytest.raises(FileNotFoundError):
        read_config(tmp_path / name)
    config = BertConfig.mini(activation="gelu_tanh", hidden_dropout=0.0, type_vocab_size=3)
    write_config(tmp_path / name, config)
    assert read_config(tmp_path / name) == config


@pytest.mark.parametrize(("every", "first", "full"), [(3, 0, [0, 3]), (3, 1, [1, 4]), (2, 1, [1, 3]), (0, 0, [])])
def test_modernbert_names_its_full_layers_and_half_of_its_window(tmp_path, every, first, full):
    layers = {"num_layers": 5, "global_every": every, "first_global": first, "local_window": 6}
    config, path = BertConfig.named("modernbert-base", **layers), tmp_path / "config.json"
    write_config(path, config)
    assert read_config(path) == config
    values = json.loads(path.read_text())
    types = ["full_attention" if layer in full else "sliding_attention" for layer in range(5)]
    assert (values["layer_types"], values["local_attention"]) == (types, 6)
    assert [config.is_local(layer) for layer in range(5)] == [layer not in full for layer in range(5)]
    assert write_and_read(path, {**values, "sliding_window": 3}) == config
    with error_names(ValueError, "sliding_window", 6, 3):
        write_and_read(path, {**values, "sliding_window": 6})


def test_gelu_means_something_else_in_googles_files(tmp_path):
    for name, activation in {"config.json": "gelu", "bert_config.json": "gelu_tanh"}.items():
        assert write_and_read(tmp_path / name, {**SIZES, "hidden_act": "gelu"}).activation == activation


def test_exact_gelu_cannot_be_written_for_google(tmp_path):
    with error_names(ValueError, "gelu_tanh or relu", "'gelu'"):
        write_config(tmp_path / "bert_config.json", BertConfig.tiny())


SIZES = {
    "vocab_size": 10,
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 16,
}
WRONG_VALUES = [
    ({"hidden_size": None}, ["no hidden_size", "whole number"]),
    ({"hidden_size": 4.5}, ["4.5", "hidden_size", "whole number"]),
    ({"hidden_size": 5}, ["hidden_size 5", "num_heads 2"]),
    ({"max_position_embeddings": "512"}, ["'512'", "max_position_embeddings", "whole number"]),
    ({"hidden_dropout_prob": [0.1]}, ["[0.1]", "hidden_dropout_prob", "number"]),
    ({"pad_token_id": True}, [True, "pad_token_id", "whole number"]),
    ({"hidden_act": {"name": "gelu"}}, ["{'name': 'gelu'}", "hidden_act", "string"]),
    ({"hidden_act": "mish"}, ["hidden_act", "'mish'", "gelu, gelu_python, gelu_new"]),
    ({"is_decoder": True}, ["is_decoder", True, False]),
]


# The defaults of transformers' configuration classes for keys that a file leaves out.
DEFAULTS = {
    "bert": {"activation": "gelu", "hidden_dropout": 0.1, "attention_dropout": 0.1, "type_vocab_size": 2},
    "roberta": {"activation": "gelu", "hidden_dropout": 0.1, "attention_dropout": 0.1, "type_vocab_size": 2},
    "electra": {"activation": "gelu", "hidden_dropout": 0.1, "attention_dropout": 0.1, "embedding_size": 128},
    "albert": {
        **{"activation": "gelu_tanh", "hidden_dropout": 0.0, "attention_dropout": 0.0},
        **{"embedding_size": 128, "num_groups": 1},
    },
    "deberta-v2": {"type_vocab_size": 0, "layer_norm_epsilon": 1e-7},
}
REQUIRED = {
    "deberta-v2": {
        **{"relative_attention": True, "position_biased_input": False, "pos_att_type": "p2c|c2p"},
        **{"share_att_key": True, "norm_rel_ebd": "layer_norm", "position_buckets": 256},
    },
}


@pytest.mark.parametrize("family", DEFAULTS)
def test_keys_that_are_left_out_have_transformers_defaults(family, tmp_path):
    config = write_and_read(tmp_path / "config.json", {"model_type": family, **SIZES, **REQUIRED.get(family, {})})
    assert {name: getattr(config, name) for name in DEFAULTS[family]} == DEFAULTS[family]


@pytest.mark.parametrize("family", FAMILIES)
def test_whole_numbers_with_a_point(family, tmp_path):
    """JavaScript and spreadsheets write 384.0 for 384."""
    path = tmp_path / "config.json"
    write_config(path, CONFIGS[family])
    expected = read_config(path)
    shape = FAMILIES[family].shape
    values = json.loads(path.read_text())
    whole = [key for key, value in values.items() if type(value) is int and key in shape]
    assert len(whole) > 2
    found = write_and_read(path, {**values, **{key: float(values[key]) for key in whole}})
    assert found == expected
    assert [*map(type, found.to_dict().values())] == [*map(type, expected.to_dict().values())]


@pytest.mark.parametrize("name", ["bert_config.json", "albert_config.json", "electra_config.json"])
def test_whole_numbers_with_a_point_in_googles_files(name, tmp_path):
    expected, found = (
        write_and_read(tmp_path / name, {**{key: kind(size) for key, size in SIZES.items()}, "hidden_act": "gelu"})
        for kind in (int, float)
    )
    assert found == expected
    assert type(found.hidden_size) is int


@pytest.mark.parametrize(("change", "words"), WRONG_VALUES)
@pytest.mark.parametrize("name", ["config.json", "bert_config.json"])
def test_wrong_values_are_named(tmp_path, name, change, words):
    with error_names(ValueError, tmp_path / name, *words):
        write_and_read(tmp_path / name, {**SIZES, **change})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", ["not a JSON file"]),
        ("[" * 100_000, ["not a JSON file", "nested"]),
        ('{"a":' * 100_000, ["not a JSON file", "nested"]),
        ("[1]", ["[1]", "object"]),
        ('{"model_type": "t5"}', ["model_type", "'t5'", "bert"]),
        ('{"model_type": []}', ["[]", "model_type", "string or null"]),
        ('{"class_name": []}', ["[]", "class_name", "string"]),
    ],
)
def test_bad_files_are_named(tmp_path, text, words):
    (tmp_path / "config.json").write_text(text)
    with error_names(ValueError, tmp_path / "config.json", *words):
        read_config(tmp_path / "config.json")


@pytest.mark.parametrize("value", [5, [5], {"a": 1}, "BertModel"])
def test_architectures_of_another_type(tmp_path, value):
    formats.write(tmp_path, CONFIGS["bert"], random_weights(CONFIGS["bert"]))
    values = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**values, "architectures": value}))
    with error_names(
        ValueError, tmp_path / "config.json", "architectures" if not isinstance(value, list) else "architectures[0]"
    ):
        formats.open_checkpoint(tmp_path)


def test_a_family_that_is_not_known(tmp_path):
    """Its models are kept in Keras's own files; see tests/tasks/test_families_since_bert.py."""
    config = BertConfig.tiny(family="gpt")
    with error_names(ValueError, "family", "bert, ernie", "'gpt'", "Keras's own files"):
        formats.write(tmp_path, config, {"encoder": {}})


# Of the published ModernBERT-base, without what describes training or its tokenizer.
OLDER = {
    "model_type": "modernbert", "attention_bias": False, "attention_dropout": 0.0, "classifier_activation": "gelu",
    "classifier_bias": False, "classifier_pooling": "mean", "decoder_bias": True, "embedding_dropout": 0.0,
    "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "hidden_activation": "gelu", "hidden_size": 768,
    "initializer_range": 0.02, "intermediate_size": 1152, "layer_norm_eps": 1e-05, "local_attention": 128,
    "local_rope_theta": 10000.0, "max_position_embeddings": 8192, "mlp_bias": False, "mlp_dropout": 0.0,
    "norm_bias": False, "norm_eps": 1e-05, "num_attention_heads": 12, "num_hidden_layers": 22, "pad_token_id": 50283,
    "position_embedding_type": "absolute", "vocab_size": 50368,
}  # fmt: skip


def test_both_dialects_of_modernbert(tmp_path):
    """Of transformers 4 and 5."""
    path, local, whole = tmp_path / "config.json", "sliding_attention", "full_attention"
    names = ("global_attn_every_n_layers", "global_rope_theta", "local_rope_theta")
    newer = {key: value for key, value in OLDER.items() if key not in names}
    newer["layer_types"] = [whole if i % 3 == 0 else local for i in range(22)]
    newer["rope_parameters"] = {
        whole: {"rope_theta": 160000.0, "rope_type": "default"},
        local: {"rope_theta": 10000.0, "rope_type": "default"},
    }
    for values in (OLDER, newer):
        assert write_and_read(path, values) == BertConfig.named("modernbert-base")
    write_config(path, BertConfig.named("modernbert-base"))  # in both
    written = json.loads(path.read_text())
    assert OLDER.items() <= {**written, **{key: OLDER[key] for key in set(OLDER) - set(written)}}.items()
    assert written["layer_types"] == newer["layer_types"]
    assert written["rope_parameters"][local]["rope_theta"] == 10000.0


# Of the published nomic-bert-2048.
GPT2_KEYS = {
    "activation_function": "swiglu", "attn_pdrop": 0.0, "auto_map": {"AutoModel": "modeling.NomicBertModel"},
    "causal": False, "embd_pdrop": 0.1, "layer_norm_epsilon": 1e-12, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
    "model_type": "nomic_bert", "n_embd": 768, "n_head": 12, "n_inner": 3072, "n_layer": 12, "n_positions": 2048,
    "parallel_block": False, "prenorm": False, "qkv_proj_bias": False, "resid_pdrop": 0.1, "rotary_emb_base": 1000,
    "rotary_emb_fraction": 1.0, "rotary_emb_interleaved": False, "rotary_emb_scale_base": None,
    "scale_attn_weights": True, "type_vocab_size": 2, "use_rms_norm": False, "vocab_size": 30528,
}  # fmt: skip


def test_both_dialects_of_nomic_bert(tmp_path):
    path = tmp_path / "config.json"
    named = BertConfig.named("nomic-bert-2048", hidden_dropout=0.1, pooler=True)
    assert write_and_read(path, GPT2_KEYS) == named
    write_config(path, named)  # as transformers 5
    assert read_config(path) == named
    assert json.loads(path.read_text())["rope_parameters"] == {"rope_theta": 1000}


MODERNBERT = {**SIZES, "model_type": "modernbert", "pad_token_id": 0}
ULTRABERT = {"model_type": "ultrabert", "num_hidden_layers": 3}
THETA = "rope_parameters.sliding_attention.rope_theta"
WHOLE = ["layer_types", "full_attention in every n-th of 1 layer"]
SCALED = {"rope_parameters": {"full_attention": {"rope_type": "yarn"}}}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"layer_types": ["chunked_attention"]}, [*WHOLE, "chunked_attention"]),
        ({"layer_types": ["full_attention"] * 2}, [*WHOLE, "full_attention, full_attention"]),
        ({**ULTRABERT, "attention_windows": [64, 128, 0]}, ["attention_windows", "[64, 128, 0]", "one value"]),
        ({**ULTRABERT, "attention_windows": [64]}, ["layer_types", "sliding_attention", "3 layers"]),
        ({**ULTRABERT, "rope_theta": [1.0, 2.0, 3.0]}, ["rope_theta", "[1.0, 2.0, 3.0]", "one value"]),
        ({**ULTRABERT, "rope_theta": 1.0}, ["rope_theta", "1.0", "list"]),
        (SCALED, ["rope_parameters.full_attention.rope_type", "'yarn'", "'default'"]),
        ({"rope_parameters": {"sliding_attention": {"rope_theta": "1"}}}, ["'1'", THETA, "number"]),
        ({"rope_parameters": [1]}, ["[1]", "rope_parameters", "object or null"]),
        ({"classifier_pooling": "max"}, ["classifier_pooling", "'max'", "cls, mean"]),
        ({"classifier_activation": "mish"}, ["classifier_activation", "'mish'", "gelu"]),
        ({"model_type": "mine", "auto_map": {"AutoModel": "m.M"}}, ["model_type", "'mine'", "auto_map", "bert"]),
        ({"model_type": "roberta", "pad_token_id": [1]}, ["[1]", "pad_token_id", "whole number"]),
        ({**GPT2_KEYS, "n_embd": "768"}, ["'768'", "hidden_size", "whole number"]),
        ({**GPT2_KEYS, "rope_parameters": {"rope_type": "yarn"}}, ["rope_parameters.rope_type", "'yarn'", "'default'"]),
    ],
)
def test_settings_of_other_families_that_are_not_supported(tmp_path, change, words):
    values = change if "n_layer" in change else {**MODERNBERT, **change}
    with error_names(ValueError, tmp_path / "config.json", *words):
        write_and_read(tmp_path / "config.json", values)


@pytest.mark.parametrize("family", ["modernbert", "ultrabert"])
def test_local_attention_without_a_theta_of_its_own(tmp_path, family):
    values = {**families.FAMILIES[family].size, "family": family, "rope_theta": 500.0, "local_rope_theta": None}
    path, config = tmp_path / "config.json", BertConfig(**values)
    write_config(path, config)
    assert json.loads(path.read_text())["rope_parameters"]["sliding_attention"]["rope_theta"] == 500.0
    assert {read_config(path).theta(layer) for layer in range(config.num_layers)} == {500.0}


@pytest.mark.parametrize("field", ["rope_theta", "head_activation"])
def test_none_is_not_written_where_null_is_read_as_another_value(tmp_path, field):
    with error_names(ValueError, "modernbert", field, None, families.FAMILIES["modernbert"].size[field]):
        write_config(tmp_path / "config.json", BertConfig.named("modernbert-base", **{field: None}))


SWITCHES = [
    {"gated": True},
    {"rope_theta": 10.0},
    {"pooling": "late"},
    {"norm_bias": False},
    {"embedding_size": 8},
    {"positions_after_padding": True},
]


@pytest.mark.parametrize("change", SWITCHES)
@pytest.mark.parametrize("name", ["config.json", "bert_config.json"])
def test_switches_that_a_file_cannot_have(tmp_path, name, change):
    (key,) = change
    with error_names(ValueError, "bert", "format", key, repr(change[key])):
        write_config(tmp_path / name, BertConfig.tiny(activation="gelu_tanh", **change))
