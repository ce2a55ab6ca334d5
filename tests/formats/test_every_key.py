"""Every key of every configuration file: obeyed, refused unless it has a certain value, or without effect.

The tables below say which keys are obeyed or refused; the tests try each known key. Any other key gets a warning.
"""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from keras_bert import presets
from keras_bert.config import BertConfig
from keras_bert.formats import FAMILIES, Preset, hugging_face, read_config
from keras_bert.formats.libraries import cross_encoder, sentence_transformers, sparse_encoder
from keras_bert.formats.tokenizers.tokenizer_files import KNOWN_CONFIG
from keras_bert.text import load_tokenizer

from ..support import small
from ..support.checkpoints import CONFIGS
from ..support.messages import error_names, warning_names

GOLDEN = Path(__file__).parent.parent / "golden"

# -- config.json

# Key -> another value, which changes the configuration that is read. A dict changes several keys. `obeyed` adds the
# numbers that we write ourselves.
BERT_OBEYED: dict[str, Any] = {"hidden_act": "relu", "classifier_pooling": "mean"}
# Key -> the supported value, and another one.
EVERYWHERE_ONLY = {
    "is_decoder": (False, True),
    "is_encoder_decoder": (False, True),
    "add_cross_attention": (False, True),
    "pruned_heads": ({}, {"0": [1]}),
    "quantization_config": (None, {"load_in_8bit": True}),
}
BERT_ONLY = {
    **EVERYWHERE_ONLY,
    "position_embedding_type": ("absolute", "relative_key"),
    "use_task_id": (False, True),
    "inner_group_num": (1, 2),
    "directionality": ("bidi", "left"),
    "pooler_type": ("first_token_transform", "mean"),
}
# Tasks read these; see the test of each task.
BY_TASKS = {
    *("architectures", "id2label", "model_type", "problem_type", "keras_bert", "sentence_transformers"),
    "sbert_ce_default_activation_function",
}
ROPE = {"rope_parameters": {"rope_parameters": {"rope_theta": 7.0}, "rope_theta": None}}
ROPE_ONLY = {"rope_scaling": (None, {"type": "linear"})}


EUROBERT_OBEYED = {
    **ROPE,
    "rope_theta": {"rope_theta": 7.0, "rope_parameters": None},
    "head_dim": 8,
    "num_key_value_heads": 3,
    "hidden_act": "gelu",
    "classifier_pooling": "mean",
}
ROBERTA = BERT_OBEYED, BERT_ONLY
# Family -> what is obeyed, and what has one supported value. Nothing that is computed here depends on the other known
# keys: the file's origin, what calls return, generation, ids of tokens (the tokenizer's files say them), the decoder
# (the weights say whether it is the embeddings), names and dropout of heads.
TABLES: dict[str, tuple[dict[str, Any], dict[str, tuple[Any, Any]]]] = {
    "bert": (BERT_OBEYED, BERT_ONLY),
    "ernie": ({**BERT_OBEYED, "hidden_act": "gelu"}, BERT_ONLY),
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "distilbert": (
        {
            **{"activation": "relu", "classifier_pooling": "mean"},
            "hidden_size": {"hidden_size": 24, "dim": None},
            "num_hidden_layers": {"num_hidden_layers": 8, "n_layers": None},
            "num_attention_heads": {"num_attention_heads": 2, "n_heads": None},
        },
        BERT_ONLY,
    ),
    "albert": (
        BERT_OBEYED,
        {
            **BERT_ONLY,
            **{"down_scale_factor": (1, 2), "gap_size": (0, 1), "layers_to_keep": ([], [1])},
            **{"net_structure_type": (0, 1), "num_memory_blocks": (0, 1)},
        },
    ),
    "electra": (
        BERT_OBEYED,
        {
            **BERT_ONLY,
            **{"summary_type": ("first", "last"), "summary_activation": ("gelu", "tanh")},
            "summary_use_proj": (True, False),
        },
    ),
    "modernbert": (
        {
            **{"hidden_activation": "relu", "classifier_activation": "relu", "classifier_pooling": "cls"},
            "num_hidden_layers": {"num_hidden_layers": 8, "layer_types": None},
            "mlp_dropout": {"mlp_dropout": 0.3, "embedding_dropout": None},
            "embedding_dropout": {"embedding_dropout": 0.3, "mlp_dropout": None},
            "rope_parameters": {
                "rope_parameters": {"full_attention": {"rope_theta": 7.0}, "sliding_attention": {"rope_theta": 8.0}},
                **dict.fromkeys(("global_rope_theta", "local_rope_theta")),
            },
            "global_rope_theta": {"global_rope_theta": 7.0, "rope_parameters": None},
            "local_rope_theta": {"local_rope_theta": 7.0, "rope_parameters": None},
            "global_attn_every_n_layers": {"global_attn_every_n_layers": 2, "layer_types": None},
            "layer_types": {"layer_types": ["full_attention"] * 2, "global_attn_every_n_layers": None},
        },
        {
            **EVERYWHERE_ONLY,
            **{"rope_scaling": (None, {"type": "linear"}), "head_dim": (4, 8)},
            **{"sliding_window": (3, 4), "classifier_bias": (False, True), "decoder_bias": (True, False)},
        },
    ),
    "nomic_bert": (
        {
            **BERT_OBEYED,
            **ROPE,
            "head_dim": 8,
            "n_embd": {"n_embd": 24, "hidden_size": None},
            "n_layer": {"n_layer": 8, "num_hidden_layers": None},
            "n_head": {"n_head": 2, "num_attention_heads": None},
            "n_inner": {"n_inner": 22, "intermediate_size": None},
            "n_positions": {"n_positions": 17, "max_position_embeddings": None},
            "activation_function": {"activation_function": "geglu", "hidden_act": None},
            "resid_pdrop": {"resid_pdrop": 0.3, "hidden_dropout_prob": None},
            "attn_pdrop": {"attn_pdrop": 0.3, "attention_probs_dropout_prob": None},
            "layer_norm_epsilon": {"layer_norm_epsilon": 0.3, "layer_norm_eps": None},
            "rotary_emb_base": {"rotary_emb_base": 7.0, "rope_parameters": None},
        },
        {
            **EVERYWHERE_ONLY,
            **{"moe_every_n_layers": (0, 2), "num_experts": (0, 8), "prenorm": (False, True), "causal": (False, True)},
            **{"qkv_proj_bias": (False, True), "mlp_fc1_bias": (False, True), "mlp_fc2_bias": (False, True)},
            **{"rotary_emb_fraction": (1.0, 0.5), "rotary_emb_interleaved": (False, True)},
            **{"rotary_emb_scale_base": (None, 512), "rotary_scaling_factor": (None, 2)},
            **{"use_rms_norm": (False, True), "parallel_block": (False, True), "scale_attn_weights": (True, False)},
            "scale_attn_by_inverse_layer_idx": (False, True),
        },
    ),
    "mpnet": (BERT_OBEYED, {**BERT_ONLY, "relative_attention_num_buckets": (64, 16)}),
    "deberta-v2": (
        BERT_OBEYED,
        {
            **BERT_ONLY,
            **{"max_relative_positions": (-1, 128), "conv_kernel_size": (0, 3), "legacy": (True, False)},
            **{"pooler_hidden_act": ("gelu", "tanh"), "relative_attention": (True, False)},
            **{"position_biased_input": (False, True), "share_att_key": (True, False)},
            **{"pos_att_type": ("p2c|c2p", ["c2p"]), "norm_rel_ebd": ("layer_norm", "none")},
            **{"attention_head_size": (4, 8), "embedding_size": (12, 6), "pooler_hidden_size": (12, 6)},
        },
    ),
    "gte": (
        {**BERT_OBEYED, **ROPE, "rope_theta": {"rope_theta": 7.0, "rope_parameters": None}, "head_dim": 8},
        {**EVERYWHERE_ONLY, **ROPE_ONLY},
    ),
    "new": (
        {**BERT_OBEYED, "rope_scaling": {"rope_scaling": {"type": "ntk", "factor": 7.0}}},
        {
            **EVERYWHERE_ONLY,
            "head_dim": (4, 8),
            **{"position_embedding_type": ("rope", "absolute"), "pack_qkv": (True, False)},
            **{"layer_norm_type": ("layer_norm", "rms_norm"), "logn_attention_scale": (False, True)},
        },
    ),
    "eurobert": (
        {**EUROBERT_OBEYED, "clf_pooling": {"clf_pooling": "mean", "classifier_pooling": None}},
        {**EVERYWHERE_ONLY, **ROPE_ONLY, "mlp_bias": (False, True), "tie_word_embeddings": (False, True)},
    ),
    "ultrabert": (
        {
            **EUROBERT_OBEYED,
            "num_hidden_layers": {"num_hidden_layers": 8, "layer_types": None},
            "rope_parameters": {
                "rope_parameters": {"full_attention": {"rope_theta": 7.0}, "sliding_attention": {"rope_theta": 8.0}}
            },
            "rope_theta": {"rope_theta": [7.0, 7.0, 8.0], "rope_parameters": None},
            "layer_types": ["full_attention"] * 3,
            "attention_windows": {"attention_windows": [7, 7, 0], "layer_types": None},
        },
        {**EVERYWHERE_ONLY, **ROPE_ONLY, "mlp_bias": (False, True), "tie_word_embeddings": (False, True)},
    ),
    "neobert": (
        {},
        {
            **EVERYWHERE_ONLY,
            **{"dim_head": (4, 8), "hidden_act": ("SwiGLU", "gelu"), "rms_norm": (True, False), "rope": (True, False)},
            "ngpt": (False, True),
        },
    ),
    "jina_embeddings_v3": ({**BERT_OBEYED, **ROPE, "head_dim": 8}, {**EVERYWHERE_ONLY, **ROPE_ONLY}),
    "model2vec": ({}, {}),
}


def keys_of(family: str) -> set[str]:
    """The keys that are known, among them other spellings of those that are obeyed."""
    known = {key if key == "transformers.js_config" else key.partition(".")[0] for key in FAMILIES[family].known}
    return known.union(obeyed(family), TABLES[family][1])


def obeyed(family: str) -> dict[str, Any]:
    """Other values of the keys that are obeyed: of all numbers that we write, and those of the table."""
    others, only = TABLES[family]
    written = hugging_face.values_of(CONFIGS[family])
    other = {bool: lambda value: not value, int: lambda value: 2 * value or 3, float: lambda value: 0.3}
    numbers = {key: value for key, value in written.items() if type(value) in other and key not in only}
    return {key: other[type(value)](value) for key, value in numbers.items()} | others


def read(directory: Path, family: str, **changes: Any) -> Any:
    """The configuration in a file with changes; None leaves a key out. Warnings are errors."""
    values = {**hugging_face.values_of(CONFIGS[family]), **changes}
    path = directory / "config.json"
    path.write_text(json.dumps({key: value for key, value in values.items() if value is not None}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_config(path)


@pytest.mark.parametrize("family", TABLES)
def test_obeyed_keys_change_the_configuration(family, tmp_path):
    before = read(tmp_path, family)
    assert before.family == family
    for key, value in obeyed(family).items():
        changes = value if isinstance(value, dict) else {key: value}
        assert read(tmp_path, family, **changes) != before, key


@pytest.mark.parametrize("family", TABLES)
def test_keys_with_one_supported_value(family, tmp_path):
    before = read(tmp_path, family)
    for key, (good, bad) in TABLES[family][1].items():
        assert read(tmp_path, family, **{key: good}) == before, key
        with error_names(ValueError, tmp_path / "config.json", key, bad, "supported"):
            read(tmp_path, family, **{key: bad})


@pytest.mark.parametrize("family", TABLES)
def test_keys_without_effect(family, tmp_path):
    before = read(tmp_path, family)
    assert keys_of(family) > BY_TASKS
    keys = keys_of(family) - {*obeyed(family), *TABLES[family][1], "id2label", "architectures", "model_type"}
    for value in (True, 7, "x"):
        assert read(tmp_path, family, **dict.fromkeys(keys, value)) == before
    assert read(tmp_path, family, id2label={"0": "a"}, architectures=["X"]) == before


@pytest.mark.parametrize("family", TABLES)
def test_a_key_that_is_not_known_is_warned_of(family, tmp_path):
    values = {**hugging_face.values_of(CONFIGS[family]), "use_magic": True, "no_magic": None}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with warning_names(tmp_path / "config.json", "unknown settings", "use_magic"):
        assert read_config(tmp_path / "config.json").family == family


def test_a_key_of_an_object_that_is_not_known_is_warned_of(tmp_path):
    values = hugging_face.values_of(CONFIGS["eurobert"])
    values["rope_parameters"] |= {"rope_type": "default", "partial_rotary_factor": 0.5}
    (tmp_path / "config.json").write_text(json.dumps(values))
    with warning_names("unknown settings", "rope_parameters.partial_rotary_factor"):
        read_config(tmp_path / "config.json")


def test_two_keys_that_contradict_each_other(tmp_path):
    with error_names(ValueError, "n_embd is 24", "hidden_size", 12, "drop one"):
        read(tmp_path, "nomic_bert", n_embd=24)
    (tmp_path / "config.json").write_text(
        json.dumps({**hugging_face.values_of(CONFIGS["modernbert"]), "global_rope_theta": 7.0})
    )
    with warning_names("rope_parameters.full_attention.rope_theta", "global_rope_theta", 7.0):
        read_config(tmp_path / "config.json")


def published_files_with_known_keys(directory: Path) -> int:
    """Reads the configurations below a directory, which must have known keys only. Returns their number."""
    seen = 0
    for path in sorted(directory.rglob("*config.json")):
        if path.name not in ("config.json", "bert_config.json", "albert_config.json") or path.stat().st_size < 500:
            continue
        values = json.loads(path.read_text()) if path.read_bytes()[:1] == b"{" else {}
        family = values.get("model_type", path.name.partition("_")[0])
        if family in TABLES and "vocab_size" in values:
            assert set(values) <= keys_of(family), path
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                read_config(path)
            seen += 1
    return seen


def test_files_that_transformers_wrote_have_known_keys_only():
    """Those of the real model that is always installed, and of those in tests/golden."""
    assert published_files_with_known_keys(presets.resolve("all-MiniLM-L6-v2")) == 1
    assert published_files_with_known_keys(GOLDEN) == 7


def test_published_files_have_known_keys_only(shared_data):
    """Also of Google's and of sentence-transformers' models."""
    assert published_files_with_known_keys(shared_data) > 25


MODULES = {name: name.replace("-", "_") for name in TABLES if name not in ("new", "neobert", "model2vec")}


@pytest.mark.parity
@pytest.mark.parametrize("family", MODULES)
def test_every_key_of_transformers_is_known(family):
    """Those of the class of the configuration, and those that the model's code reads."""
    transformers = pytest.importorskip("transformers")
    kind = type(transformers.AutoConfig.for_model(family))
    folder = Path(transformers.__file__).parent / "models" / MODULES[family]
    (code,) = folder.glob("modeling_*.py")
    names = re.compile(r"config\.([a-z]\w*)|getattr\((?:self\.)?config, [\"'](\w+)")
    used = {first or second for first, second in names.findall(code.read_text())}
    assert {*kind().to_dict(), *used} - keys_of(family) == set()


# -- Numbers

NUMBERS = [0, -1, 0.5, 2**31, 2**64, 2**70, 10**400, 1e39, 1e-300, float("inf"), float("nan"), True, "7"]


@pytest.mark.parametrize("family", TABLES)
def test_every_number_out_of_range_names_file_and_key(family):
    values = hugging_face.values_of(CONFIGS[family])
    for key, written in values.items():
        if type(written) in (int, float):
            for number in NUMBERS:
                changed = {**values, key: number}
                for other in ("layer_types", "rope_parameters"):
                    if key not in ("num_hidden_layers", "vocab_size"):
                        changed.pop(other, None)
                error = ""
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")
                        config = hugging_face.config_of(changed, Path("their/config.json"))
                except ValueError as raised:
                    error = str(raised)
                if error:
                    assert error.startswith("their/config.json"), (key, number)
                    assert key in error, (key, number)
                else:
                    is_float = type(written) is float and 0 < number < 3e38
                    assert number in (0, 0.5) or is_float, (key, number)
                    assert max(config.vocab_size, config.num_layers) < 2**31


@pytest.mark.parametrize("number", [0, -3, 2**64])
def test_local_layers_of_modernbert(number, tmp_path):
    for key in ("global_attn_every_n_layers", "local_attention"):
        with error_names(ValueError, tmp_path / "config.json", key, number):
            read(tmp_path, "modernbert", **{key: number})


# -- sentence-transformers: file -> key -> a value that is obeyed, one that is refused, or neither

POOLING, DENSE, NORMALIZE = "1_Pooling/config.json", "2_Dense/config.json", "3_Normalize/config.json"
LENGTH, MODEL = "sentence_bert_config.json", "config_sentence_transformers.json"
SENTENCE = {
    MODEL: {
        "similarity_fn_name": ("dot", "euclidean"),
        "prompts": ({"query": "q: "}, [1]),
        "default_prompt_name": (None, "query"),
        "model_type": (None, "MultiVectorEncoder"),
        "truncate_dim": (2, "2"),
        "activation_fn": (None, None),
        "max_active_dims": (None, None),
        "__version__": (None, None),
    },
    LENGTH: {
        "max_seq_length": (9, "9"),
        "do_lower_case": (None, True),
        "transformer_task": (None, "fill-mask"),
        "modality_config": (None, {"text": {"method": "get_text_features"}}),
        "module_output_name": (None, "logits"),
        "tokenizer_name_or_path": (None, "other"),
        "query_length": (None, 8),
        "document_length": (None, 8),
        "query_expansion": (None, {"length": 8}),
        "unpad_inputs": (None, None),
        **{
            key: (None, {"a": 1})
            for key in ("processing_kwargs", "model_kwargs", "processor_kwargs", "config_kwargs", "model_args")
        },
        **{key: (None, {"a": 1}) for key in ("tokenizer_args", "config_args")},
    },
    POOLING: {
        "pooling_mode": ("max", ["mean", "cls"]),
        "include_prompt": (False, "no"),
        **{f"pooling_mode_{name}_tokens": (None, True) for name in ("max", "lasttoken", "weightedmean")},
        "pooling_mode_cls_token": (None, True),
        "pooling_mode_mean_sqrt_len_tokens": (None, True),
        "pooling_mode_mean_tokens": (None, None),
        "word_embedding_dimension": (None, None),
        "embedding_dimension": (None, None),
    },
    DENSE: {
        "in_features": (None, 7),
        "out_features": (None, 7),
        "bias": (None, False),
        "activation_function": ("torch.nn.modules.activation.ReLU", "other.Swish"),
        "module_input_name": (None, "token_embeddings"),
        "module_output_name": (None, "other"),
        "use_residual": (None, True),
    },
    NORMALIZE: {"module_input_name": (None, "token_embeddings"), "module_output_name": (None, "other")},
}


@pytest.fixture
def sentence_model(tmp_path):
    settings = sentence_transformers.Settings("mean", 24, dense={"units": 3, "activation": "tanh", "use_bias": True})
    weights = {"kernel": np.zeros((12, 3), np.float32), "bias": np.zeros(3, np.float32)}
    sentence_transformers.write(tmp_path, settings, BertConfig(hidden_size=12), weights)
    return tmp_path


@pytest.mark.parametrize(("file", "key"), [(file, key) for file, keys in SENTENCE.items() for key in keys])
def test_keys_of_sentence_transformers(file, key, sentence_model):
    path = sentence_model / file
    values = json.loads(path.read_text()) if path.is_file() else {}
    before, (obeyed, refused) = sentence_transformers.read(Preset(sentence_model)), SENTENCE[file][key]
    for value, expect in ((obeyed, "other"), (refused, "refused"), ("anything", "same")):
        if value is None or (expect == "same" and (obeyed, refused) != (None, None)):
            continue
        path.write_text(json.dumps({**values, key: value}))
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            if expect == "refused":
                unnamed = key.startswith("pooling_mode") or key in ("in_features", "out_features", "bias")
                named = [] if unnamed else [key.replace("modality_config", "text")]
                with error_names(ValueError, path.name, *named):
                    sentence_transformers.read(Preset(sentence_model))
            else:
                assert (sentence_transformers.read(Preset(sentence_model)) == before) == (expect == "same")


@pytest.mark.parametrize("file", SENTENCE)
def test_other_keys_of_sentence_transformers_are_warned_of(file, sentence_model):
    path = sentence_model / file
    values = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps({**values, "use_magic": True}))
    with warning_names("unknown settings", "use_magic"):
        sentence_transformers.read(Preset(sentence_model))


@pytest.mark.parity
def test_the_tables_have_every_key_of_sentence_transformers():
    library = pytest.importorskip("sentence_transformers")
    modules = library.sentence_transformer.modules
    kinds = {POOLING: "Pooling", DENSE: "Dense", NORMALIZE: "Normalize", LENGTH: "Transformer"}
    for file, name in kinds.items():
        assert {*getattr(modules, name).config_keys} <= SENTENCE[file].keys(), name
    splade = library.sparse_encoder.modules.SpladePooling
    assert {*splade.config_keys} <= sparse_encoder.KNOWN_POOLING
    # The other modules are refused by name.
    others = {name for name in modules.__all__ if name not in kinds.values()}
    for name in others - {"Dropout", "StaticEmbedding"}:
        assert name not in sentence_transformers._KINDS


def test_a_pooling_elsewhere_is_not_read(tmp_path):
    sparse_encoder.write(tmp_path, sparse_encoder.Settings(True, 24), None, {}, None)
    modules = json.loads((tmp_path / "modules.json").read_text())
    modules[1]["path"] = "../elsewhere"
    (tmp_path / "modules.json").write_text(json.dumps(modules))
    with error_names(ValueError, tmp_path / "modules.json", "SpladePooling", "in the same directory"):
        sparse_encoder.read(Preset(tmp_path))


SPARSE = {"max_active_dims": 3, "similarity_fn_name": "cosine", "default_prompt_name": "query"}


@pytest.mark.parametrize("key", SPARSE)
def test_keys_of_sparse_encoders(key, tmp_path):
    sparse_encoder.write(tmp_path, sparse_encoder.Settings(True, 24), None, {}, None)
    values = json.loads((tmp_path / MODEL).read_text()) | {"prompts": {"query": "q: "}}
    (tmp_path / MODEL).write_text(json.dumps({**values, key: SPARSE[key]}))
    with error_names(ValueError, key):
        sparse_encoder.read(Preset(tmp_path))


def test_other_keys_of_cross_encoders_are_warned_of(tmp_path):
    (tmp_path / MODEL).write_text(json.dumps({"model_type": "CrossEncoder", "use_magic": True}))
    with warning_names("unknown settings", "use_magic"):
        cross_encoder.read(Preset(tmp_path))


# -- tokenizer_config.json: key -> a value that is obeyed (or None), and one that is refused

TOKENIZER = {
    "do_lower_case": (False, "no"),
    "strip_accents": (False, "no"),
    "tokenize_chinese_chars": (False, "no"),
    "max_input_chars_per_word": (7, 0),
    "model_input_names": (["input_ids", "attention_mask"], "input_ids"),
    **{f"{name}_token": ("good", "not a token") for name in ("unk", "cls", "sep", "pad", "mask")},
    "do_basic_tokenize": (None, False),
    "never_split": (None, ["a"]),
    "word_tokenizer_type": (None, "mecab"),
    "subword_tokenizer_type": (None, "character"),
    "do_word_tokenize": (None, False),
    "do_subword_tokenize": (None, False),
    "wordpieces_prefix": (None, "@@"),
    "clean_text": (None, False),
    "remove_space": (None, False),
    "normalization": (None, True),
    "split_by_punct": (None, True),
    "sp_model_kwargs": (None, {"enable_sampling": True}),
    "truncation_side": (None, "left"),
    **dict.fromkeys(("bos_token", "eos_token"), ("good", 7)),
    **dict.fromkeys(("additional_special_tokens", "extra_special_tokens"), (["good"], "good")),
    "model_specific_special_tokens": ({"image": "good"}, "good"),
    "added_tokens_decoder": (None, {"5": {"content": "good", "special": False}}),
}
# Of other tokenizers, or of a sentence encoder's length.
TOKENIZER_ELSEWHERE = {"tokenizer_class", "keep_accents", "add_prefix_space", "model_max_length"}
TOKENIZER_NOTHING = KNOWN_CONFIG - TOKENIZER.keys() - TOKENIZER_ELSEWHERE


def read_tokenizer(directory: Path, **changes: Any) -> dict[str, Any]:
    (directory / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": "BertTokenizer", **changes}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_tokenizer(directory).get_config()


@pytest.fixture
def vocabulary_alone(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{token}\n" for token in small.VOCABULARY))
    return tmp_path


@pytest.mark.parametrize("key", TOKENIZER)
def test_keys_of_tokenizers(key, vocabulary_alone):
    obeyed, refused = TOKENIZER[key]
    if obeyed is not None:
        assert read_tokenizer(vocabulary_alone, **{key: obeyed}) != read_tokenizer(vocabulary_alone)
    named = {"max_input_chars_per_word": "max_chars_per_word", "added_tokens_decoder": "added token"}.get(key, key)
    with error_names(ValueError, vocabulary_alone, named):
        read_tokenizer(vocabulary_alone, **{key: refused})


def test_keys_of_tokenizers_without_effect(vocabulary_alone):
    everything = dict.fromkeys(TOKENIZER_NOTHING, "x")
    assert read_tokenizer(vocabulary_alone, **everything) == read_tokenizer(vocabulary_alone)


def test_other_keys_of_tokenizers_are_warned_of(vocabulary_alone):
    (vocabulary_alone / "tokenizer_config.json").write_text(json.dumps({"use_magic": True}))
    with warning_names(vocabulary_alone / "tokenizer_config.json", "unknown settings", "use_magic"):
        load_tokenizer(vocabulary_alone)


def test_a_tokenizer_that_transformers_wrote_has_known_keys_only():
    path = presets.resolve("all-MiniLM-L6-v2") / "tokenizer_config.json"
    assert json.loads(path.read_text()).keys() <= KNOWN_CONFIG


def test_published_tokenizers_have_known_keys_only(shared_data):
    paths = [path for path in shared_data.rglob("tokenizer_config.json") if path.read_bytes()[:1] == b"{"]
    for path in paths:
        assert json.loads(path.read_text()).keys() <= KNOWN_CONFIG, path
    assert len(paths) > 15
