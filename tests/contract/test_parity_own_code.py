"""GTE's files for its own code, and NeoBERT: the same numbers as their published formulas, here in PyTorch."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from keras_bert import BertConfig, BertEncoder, formats
from keras_bert.tasks import BertMaskedLM

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch")
F = torch.nn.functional

V, H, A, L = 40, 24, 3, 2  # vocabulary, hidden, heads, layers
D = H // A


def drawn(shapes):
    """Random weights, none of them 0 or 1, as safetensors has them: `[outputs, inputs]`."""
    generator = np.random.default_rng(0)
    return {name: generator.normal(scale=0.3, size=shape).astype("float32") for name, shape in shapes.items()}


def batch():
    generator = np.random.default_rng(1)
    ids, mask = generator.integers(4, V, (3, 11)), np.ones((3, 11), int)
    mask[1, 6:] = ids[1, 6:] = 0
    return ids, mask, np.sort(generator.integers(0, 2, ids.shape))


def attended(query, key, value, mask):
    """`[batch, length, heads, size]` each -> `[batch, length, hidden]`."""
    scores = torch.einsum("bqhd,bkhd->bhqk", query, key) / D**0.5
    shares = torch.softmax(scores.masked_fill(mask[:, None, None, :] == 0, -torch.inf), dim=-1)
    return torch.einsum("bhqk,bkhd->bqhd", shares, value).flatten(2)


def turned(points, speeds):
    """Complex numbers `[batch, length, heads, size / 2]`, turned by angles of position times speed."""
    angles = torch.arange(points.shape[1])[:, None] * torch.tensor(speeds)
    return points * torch.polar(torch.ones_like(angles), angles)[:, None]


# GTE (Zhang et al. 2024, mGTE, section 3.1): BERT's order of layers, with rotary positions and a gate.

GTE = {
    "architectures": ["NewForMaskedLM"], "attention_probs_dropout_prob": 0.0, "hidden_act": "gelu", "hidden_size": H,
    "auto_map": {"AutoModel": "modeling.NewModel"}, "intermediate_size": 16, "layer_norm_eps": 1e-12,
    "layer_norm_type": "layer_norm", "max_position_embeddings": 32, "model_type": "new", "num_attention_heads": A,
    "num_hidden_layers": L, "pack_qkv": True, "pad_token_id": 0, "position_embedding_type": "rope",
    "rope_scaling": {"factor": 2.0, "type": "ntk"}, "rope_theta": 50, "type_vocab_size": 2, "vocab_size": V,
}  # fmt: skip


def gte_weights(prefix=""):
    shapes = {f"embeddings.{name}_embeddings.weight": (rows, H) for name, rows in (("word", V), ("token_type", 2))}
    shapes |= {f"embeddings.LayerNorm.{part}": (H,) for part in ("weight", "bias")}
    for i in range(L):
        layer = f"encoder.layer.{i}"
        dense = {"attention.qkv_proj": 3 * H, "attention.o_proj": H, "mlp.up_gate_proj": 32}
        shapes |= {f"{layer}.{name}.weight": (outputs, H) for name, outputs in dense.items()}
        shapes |= {f"{layer}.attention.qkv_proj.bias": (3 * H,), f"{layer}.attention.o_proj.bias": (H,)}
        shapes |= {f"{layer}.mlp.down_proj.weight": (H, 16), f"{layer}.mlp.down_proj.bias": (H,)}
        shapes |= {f"{layer}.{norm}.{part}": (H,) for norm in ("attn_ln", "mlp_ln") for part in ("weight", "bias")}
    return {prefix + name: value for name, value in drawn(shapes).items()}


def gte(weights, ids, mask, types, factor):
    w = {name: torch.tensor(value) for name, value in weights.items()}

    def dense(name, x):
        return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    def norm(name, x):
        return F.layer_norm(x, (H,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-12)

    def rotated(x):
        speeds = [(50.0 * factor) ** (-2 * i / D) / factor ** (2 / D) for i in range(D // 2)]
        points = turned(torch.complex(x[..., : D // 2], x[..., D // 2 :]), speeds)
        return torch.cat([points.real, points.imag], dim=-1)

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.token_type_embeddings.weight"][types]
    x, outputs = norm("embeddings.LayerNorm", x), []
    for i in range(L):
        layer = f"encoder.layer.{i}"
        query, key, value = (
            part.unflatten(-1, (A, D)) for part in dense(f"{layer}.attention.qkv_proj", x).split(H, dim=-1)
        )
        context = attended(rotated(query), rotated(key), value, mask)
        x = norm(f"{layer}.attn_ln", x + dense(f"{layer}.attention.o_proj", context))
        up, gate = dense(f"{layer}.mlp.up_gate_proj", x).chunk(2, dim=-1)
        x = norm(f"{layer}.mlp_ln", x + dense(f"{layer}.mlp.down_proj", F.gelu(gate) * up))
        outputs.append(x)
    return outputs


# NeoBERT (Le Breton et al. 2025, section 3): norm first, RMSNorm, SwiGLU; w1 and w2 are one matrix, and so are Q, K and
# V of a head.

NEOBERT = {
    "architectures": ["NeoBERTLMHead"], "auto_map": {"AutoModel": "model.NeoBERT"}, "embedding_init_range": 0.02,
    "hidden_size": H, "intermediate_size": 36, "max_length": 32, "model_type": "neobert", "norm_eps": 1e-05,
    "num_attention_heads": A, "num_hidden_layers": L, "pad_token_id": 0, "vocab_size": V,
}  # fmt: skip


def neobert_weights(prefix=""):
    shapes = {"encoder.weight": (V, H), "layer_norm.weight": (H,)}
    for i in range(L):
        layer = f"transformer_encoder.{i}"
        shapes |= {f"{layer}.qkv.weight": (3 * H, H), f"{layer}.wo.weight": (H, H)}
        shapes |= {f"{layer}.ffn.w12.weight": (48, H), f"{layer}.ffn.w3.weight": (H, 24)}  # 24 = 2 / 3 of 36
        shapes |= {f"{layer}.{norm}.weight": (H,) for norm in ("attention_norm", "ffn_norm")}
    return {prefix + name: value for name, value in drawn(shapes).items()}


def neobert(weights, ids, mask):
    w = {name: torch.tensor(value) for name, value in weights.items()}

    def rotated(x):
        speeds = [10_000.0 ** (-2 * i / D) for i in range(D // 2)]
        return torch.view_as_real(turned(torch.view_as_complex(x.unflatten(-1, (-1, 2)).contiguous()), speeds)).flatten(
            -2
        )

    def norm(name, x):
        return F.rms_norm(x, (H,), w[f"{name}.weight"], 1e-5)

    x, outputs = w["encoder.weight"][ids], []
    for i in range(L):
        layer = f"transformer_encoder.{i}"
        qkv = F.linear(norm(f"{layer}.attention_norm", x), w[f"{layer}.qkv.weight"])
        query, key, value = qkv.unflatten(-1, (A, 3 * D)).chunk(3, dim=-1)
        x = x + F.linear(attended(rotated(query), rotated(key), value, mask), w[f"{layer}.wo.weight"])
        first, second = F.linear(norm(f"{layer}.ffn_norm", x), w[f"{layer}.ffn.w12.weight"]).chunk(2, dim=-1)
        x = x + F.linear(F.silu(first) * second, w[f"{layer}.ffn.w3.weight"])
        outputs.append(x)
    return [*outputs[:-1], norm("layer_norm", outputs[-1])]


def write(directory, config, weights):
    directory.mkdir(exist_ok=True)
    (directory / "config.json").write_text(json.dumps(config))
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    return directory


def compare(directory, expected, ids, mask, types):
    inputs = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
    outputs = BertEncoder.from_preset(directory)({name: value.astype("int32") for name, value in inputs.items()})
    for ours, theirs in zip(outputs["encoder_outputs"], expected, strict=True):
        difference = np.abs(np.asarray(ours) - theirs.numpy())[mask.astype(bool)]
        assert difference.max() < 1e-5


@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_gte(factor, tmp_path):
    ids, mask, types = batch()
    scaling = {"factor": factor, "type": "ntk"} if factor > 1 else None
    weights = gte_weights()
    write(tmp_path, {**GTE, "rope_scaling": scaling}, weights)
    expected = gte(weights, torch.tensor(ids), torch.tensor(mask), torch.tensor(types), factor)
    compare(tmp_path, expected, ids, mask, types)


def test_neobert(tmp_path):
    ids, mask, types = batch()
    weights = neobert_weights()
    write(tmp_path, NEOBERT, weights)
    assert BertEncoder.from_preset(tmp_path).config.intermediate_size == 24
    compare(tmp_path, neobert(weights, torch.tensor(ids), torch.tensor(mask)), ids, mask, types)


def test_a_decoder_with_weights_of_its_own(tmp_path):
    ids, mask, _ = batch()
    weights, decoder = neobert_weights("model."), drawn({"decoder.weight": (V, H), "decoder.bias": (V,)})
    write(tmp_path, NEOBERT, {**weights, **decoder})
    hidden = neobert({name[6:]: value for name, value in weights.items()}, torch.tensor(ids), torch.tensor(mask))[-1]
    expected = F.linear(hidden, *map(torch.tensor, decoder.values())).numpy()
    positions = np.tile(np.arange(11), (3, 1)).astype("int32")
    inputs = {"input_word_ids": ids.astype("int32"), "input_mask": mask.astype("int32")}
    logits = BertMaskedLM.from_preset(tmp_path)({**inputs, "masked_lm_positions": positions})
    assert np.abs(np.asarray(logits) - expected)[mask.astype(bool)].max() < 1e-5


@pytest.mark.parametrize(("config", "weights"), [(GTE, gte_weights), (NEOBERT, neobert_weights)])
def test_their_files_bit_for_bit(config, weights, tmp_path):
    source = write(tmp_path / "theirs", config, weights())
    encoder = BertEncoder.from_preset(source)
    encoder.save_preset(tmp_path / "ours")
    first, second = (load_file(tmp_path / whose / "model.safetensors") for whose in ("theirs", "ours"))
    assert first.keys() == second.keys()
    assert all(first[name].tobytes() == second[name].tobytes() for name in first)
    written = json.loads((tmp_path / "ours/config.json").read_text())
    known = {key: value for key, value in config.items() if key in written and key != "architectures"}
    assert {key: written[key] for key in known} == known
    assert BertEncoder.from_preset(tmp_path / "ours").config == encoder.config


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        (GTE, {"rope_scaling": {"factor": 2, "type": "dynamic"}}, "rope_scaling.type is 'dynamic'; only 'ntk'"),
        (GTE, {"pack_qkv": False}, "pack_qkv is False; only True is supported"),
        (GTE, {"layer_norm_type": "rms_norm"}, "layer_norm_type is 'rms_norm'; only 'layer_norm' is supported"),
        (GTE, {"logn_attention_scale": True}, "logn_attention_scale is True; only False is supported"),
        (NEOBERT, {"ngpt": True}, "ngpt is True; only False is supported"),
    ],
)
def test_settings_that_are_not_supported(config, change, message, tmp_path):
    write(tmp_path, {**config, **change}, {})
    with pytest.raises(ValueError, match=message):
        formats.read_config(tmp_path / "config.json")


def test_the_published_configurations(shared_data):
    large = formats.read_config(shared_data / "modern/gte-large-en-v1.5/config.json")
    assert large == BertConfig.named("gte-large-en-v1.5", pooler=large.pooler)
    assert formats.read_config(shared_data / "modern/neobert/config.json") == BertConfig.named("neobert")
    for name, size in (("deberta-v3-base", "base"), ("deberta-v3-large-transformers5", "large")):
        found = formats.read_config(shared_data / "modern" / name / "config.json")
        assert found == BertConfig.named(f"deberta-v3-{size}")
