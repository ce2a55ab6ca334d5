"""transformers (torch), live: every family, bare and with each head: the same numbers, and files for either side."""

import dataclasses
import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from keras_bert import (
    BertClassifier,
    BertEncoder,
    BertQuestionAnswerer,
    BertReranker,
    BertTokenClassifier,
    formats,
)
from keras_bert.formats import FAMILIES
from keras_bert.pretraining.pretrainer import BertPretrainer
from keras_bert.shapes import shapes
from keras_bert.tasks import BertMaskedLM
from keras_bert.tasks.heads import ClassifierHead
from keras_bert.tasks.heads.long_text import classify_texts

from ..support import small

pytestmark = pytest.mark.parity
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
initialization = pytest.importorskip("transformers.initialization")

SMALL = {
    "vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64,
    "max_position_embeddings": 30,
}  # fmt: skip
BASE = {
    "vocab_size": 1000, "hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12,
    "intermediate_size": 3072, "max_position_embeddings": 130,
}  # fmt: skip
MODERNBERT = {"local_attention": 6, **dict.fromkeys(("bos_token_id", "eos_token_id", "cls_token_id", "sep_token_id"))}
MODERNBERT["pad_token_id"] = 0
DEBERTA = {
    "relative_attention": True, "position_biased_input": False, "position_buckets": 8, "pos_att_type": ["p2c", "c2p"],
    "share_att_key": True, "norm_rel_ebd": "layer_norm",
}  # fmt: skip
EUROBERT = {"classifier_pooling": "bos", "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "mask_token_id": 3}
ULTRABERT = {**EUROBERT, "classifier_pooling": "cls", "sliding_window": 3, "prediction_head_size": 24}
del ULTRABERT["mask_token_id"]
ROPE = {"rope_parameters": {"rope_theta": 50.0, "rope_type": "default"}}
# Name -> the class of its configuration, and what it has beside sizes.
CONFIGS = {
    "bert": ("Bert", {}),
    "bert-tanh": ("Bert", {"hidden_act": "gelu_new"}),
    "ernie": ("Ernie", {"hidden_act": "relu"}),
    "roberta": ("Roberta", {"type_vocab_size": 1, "layer_norm_eps": 1e-5}),
    "xlm-roberta": ("XLMRoberta", {"type_vocab_size": 1}),
    "camembert": ("Camembert", {"type_vocab_size": 1}),
    "distilbert": ("DistilBert", {}),
    "albert": ("Albert", {"embedding_size": 16}),
    "albert-groups": ("Albert", {"num_hidden_layers": 4, "embedding_size": 16, "num_hidden_groups": 2}),
    "albert-uneven": ("Albert", {"num_hidden_layers": 5, "embedding_size": 16, "num_hidden_groups": 3}),
    "electra": ("Electra", {"embedding_size": 16}),
    "electra-square": ("Electra", {"embedding_size": SMALL["hidden_size"]}),
    "modernbert": ("ModernBert", MODERNBERT),
    "modernbert-biases": ("ModernBert", {
        **MODERNBERT, "num_hidden_layers": 5, "global_attn_every_n_layers": 2, "norm_bias": True,
        "attention_bias": True, "mlp_bias": True, "hidden_activation": "silu", "classifier_activation": "relu",
        "classifier_pooling": "mean", "global_rope_theta": 500.0, "local_rope_theta": 20.0,
    }),
    "modernbert-local": ("ModernBert", {**MODERNBERT, "layer_types": ["sliding_attention"] * 2}),
    "nomic_bert": ("NomicBert", {"pad_token_id": 0}),
    "nomic_bert-gelu": ("NomicBert", {"hidden_act": "gelu", **ROPE}),
    "nomic_bert-wide": ("NomicBert", {"pad_token_id": 0, "head_dim": 24}),
    "mpnet": ("MPNet", {}),
    "deberta-v2": ("DebertaV2", DEBERTA),
    "deberta-v2-types": ("DebertaV2", {
        **DEBERTA, "position_buckets": 32, "pos_att_type": "c2p|p2c", "type_vocab_size": 2, "hidden_act": "relu",
    }),
    "gte": ("Gte", {"pad_token_id": 0, "type_vocab_size": 2}),
    "gte-no-types": ("Gte", {"type_vocab_size": 0, "hidden_act": "silu", **ROPE}),
    "gte-wide": ("Gte", {"pad_token_id": 0, "type_vocab_size": 2, "head_dim": 24}),
    "jina_embeddings_v3": ("JinaEmbeddingsV3", {}),
    "jina_embeddings_v3-narrow": ("JinaEmbeddingsV3", {"head_dim": 8}),
    "eurobert": ("EuroBert", EUROBERT),
    "eurobert-late": ("EuroBert", {**EUROBERT, "classifier_pooling": "late"}),
    "eurobert-wide": ("EuroBert", {**EUROBERT, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12}),
    "eurobert-shared": ("EuroBert", {
        **EUROBERT, "num_attention_heads": 4, "num_key_value_heads": 2, "classifier_pooling": "mean",
        "attention_bias": True, "hidden_act": "gelu", **ROPE,
    }),
    "ultrabert": ("Ultrabert", {**ULTRABERT, "num_hidden_layers": 4}),
    "ultrabert-shared": ("Ultrabert", {
        **ULTRABERT, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 12, "attention_bias": True,
        "hidden_act": "gelu", "classifier_pooling": "mean", "layer_types": ["sliding_attention", "full_attention"],
        "rope_parameters": {
            kind: {"rope_theta": theta, "rope_type": "default"}
            for kind, theta in {"sliding_attention": 20.0, "full_attention": 500.0}.items()
        },
    }),
    "modernbert-second": ("ModernBert", {**MODERNBERT, "layer_types": ["sliding_attention", "full_attention"]}),
}  # fmt: skip
DISTILBERT = {
    "hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads",
    "intermediate_size": "hidden_dim",
}  # fmt: skip
# One of each block; the other families are tables of these.
BLOCKS = ["bert", "albert", "modernbert", "nomic_bert", "mpnet", "deberta-v2", "eurobert-shared"]
HEADS = {
    "masked_lm": "AutoModelForMaskedLM",
    "sequence": "AutoModelForSequenceClassification",
    "tokens": "AutoModelForTokenClassification",
    "spans": "AutoModelForQuestionAnswering",
    "next_sentence": "AutoModelForPreTraining",
    "replaced_tokens": "AutoModelForPreTraining",
    "choices": "AutoModelForMultipleChoice",
}


def family_of(name):
    return name if name in FAMILIES else family_of(name.rpartition("-")[0])


HEADED = [
    (name, head)
    for name in CONFIGS
    for head in FAMILIES[family_of(name)].heads
    if (family_of(name), head) != ("jina_embeddings_v3", "choices")  # it has no such class
]
NAMES = [name for name in CONFIGS if name in FAMILIES]  # one of each family


def their_model(name, auto, sizes=SMALL, scale=0.3, **kwargs):
    """A random model, its weights far enough from 0 and 1 that leaving out any of them shows; dropout is off."""
    kind, others = CONFIGS[name]
    names = DISTILBERT if name == "distilbert" else {}
    sizes = {names.get(size, size): value for size, value in sizes.items()}
    config = getattr(transformers, f"{kind}Config")(**{**sizes, **others})
    for key, value in kwargs.items():
        setattr(config, key, value)
    with initialization.no_init_weights():  # which takes longer than all the rest
        model = getattr(transformers, auto).from_config(config).eval()
    model.tie_weights()
    torch.manual_seed(0)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return model


def batch(model, length=17):
    """Inputs for both sides: three sequences, one of which is padded."""
    generator = np.random.default_rng(0)
    ids = generator.integers(5, model.config.vocab_size, (3, length))
    mask = np.ones_like(ids)
    mask[1, length // 2 :] = 0
    ids[1, length // 2 :] = model.config.pad_token_id or 0
    ours = {"input_word_ids": ids.astype("int32"), "input_mask": mask.astype("int32")}
    theirs = {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}
    if getattr(model.config, "type_vocab_size", 0) == 2:
        types = np.sort(generator.integers(0, 2, ids.shape))
        ours["input_type_ids"], theirs["token_type_ids"] = types.astype("int32"), torch.tensor(types)
    return ours, theirs, mask.astype(bool)


def run(model, theirs, **kwargs):
    with torch.no_grad():
        return model(**theirs, **kwargs)


def close(ours, theirs, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(ours), np.asarray(theirs), rtol=0, atol=tolerance)


def compare_encoder(encoder, model, tolerance=1e-5):
    compare_outputs(encoder, *their_outputs(model), tolerance)


def their_outputs(model):
    """What our side takes as inputs, which of their tokens are real, and the outputs of the other side."""
    ours, theirs, real = batch(model)
    return ours, real, run(model, theirs, output_hidden_states=True)


def compare_outputs(encoder, ours, real, expected, tolerance):
    outputs = encoder(ours)
    for our_layer, their_layer in zip(outputs["encoder_outputs"], expected.hidden_states[1:], strict=True):
        close(np.asarray(our_layer)[real], their_layer.numpy()[real], tolerance)
    if getattr(expected, "pooler_output", None) is not None:
        close(outputs["pooled_output"], expected.pooler_output, tolerance)


def check_written(model, auto, directory):
    """transformers reads from our files what it wrote to `directory / "theirs"`: bit for bit, and in the same class."""
    with formats.open_checkpoint(directory / "theirs") as checkpoint:
        parts = {part: checkpoint.weights(part) for part in ("encoder", *sorted(checkpoint.heads))}
        formats.write(directory / "ours", checkpoint.config, parts)
    again, report = getattr(transformers, auto).from_pretrained(directory / "ours", output_loading_info=True)
    assert {key: names for key, names in report.items() if names} == {}
    assert type(again) is type(model)
    assert json.loads((directory / "ours/config.json").read_text())["architectures"] == [type(model).__name__]
    for key in ("num_labels", "classifier_pooling"):
        assert getattr(again.config, key, None) == getattr(model.config, key, None)
    first, second = (load_file(directory / whose / "model.safetensors") for whose in ("theirs", "ours"))
    assert first.keys() == second.keys()
    assert all(first[key].tobytes() == second[key].tobytes() for key in first)
    for (key, mine), (_, other) in zip(model.state_dict().items(), again.state_dict().items(), strict=True):
        assert torch.equal(mine, other), key


@pytest.mark.parametrize("name", CONFIGS)
def test_encoders(name, tmp_path):
    model = their_model(name, "AutoModel")
    model.save_pretrained(tmp_path / "theirs")
    encoder = BertEncoder.from_preset(tmp_path / "theirs")
    compare_encoder(encoder, model)
    assert encoder.count_params() == sum(parameter.numel() for parameter in model.parameters())
    check_written(model, "AutoModel", tmp_path)


def test_buckets_of_mpnet_that_transformers_does_not_use(tmp_path):
    """It computes 32 buckets whatever the configuration says, so that it cannot run with fewer."""
    model = their_model("mpnet", "AutoModel", relative_attention_num_buckets=40)
    model.save_pretrained(tmp_path / "theirs")
    encoder = BertEncoder.from_preset(tmp_path / "theirs")
    compare_encoder(encoder, model)
    encoder.save_preset(tmp_path / "ours")
    compare_encoder(encoder, transformers.AutoModel.from_pretrained(tmp_path / "ours").eval())
    model = their_model("mpnet", "AutoModel", relative_attention_num_buckets=24)
    with pytest.raises(IndexError):
        run(model, batch(model)[1])


@pytest.mark.slow
@pytest.mark.parametrize("name", BLOCKS)
def test_encoders_of_base_size(name, tmp_path):
    """Where rounding adds up over twelve layers of the published width."""
    model = their_model(name, "AutoModel", BASE, scale=0.03)
    model.save_pretrained(tmp_path)
    expected = their_outputs(model)
    del model  # of 0.35 GB; so is ours
    compare_outputs(BertEncoder.from_preset(tmp_path), *expected, 1e-4)


@pytest.mark.parametrize(("name", "head"), HEADED)
def test_heads(name, head, tmp_path):
    model = their_model(name, HEADS[head], num_labels=3 if head in ("sequence", "tokens") else 2)
    model.save_pretrained(tmp_path / "theirs")
    check_written(model, HEADS[head], tmp_path)
    ours, theirs, real = batch(model)
    if head == "choices":  # the rows are the choices of one question
        theirs = {key: value[None] for key, value in theirs.items()}
    expected = run(model, theirs)
    if head == "masked_lm":
        positions = np.tile(np.arange(real.shape[1]), (3, 1)).astype("int32")
        logits = BertMaskedLM.from_preset(tmp_path / "theirs")({**ours, "masked_lm_positions": positions})
        close(np.asarray(logits)[real], expected.logits.numpy()[real])
        return
    encoder = BertEncoder.from_preset(tmp_path / "theirs")
    with formats.open_checkpoint(tmp_path / "theirs") as checkpoint:
        assert head in checkpoint.heads
        assert (checkpoint.missing, checkpoint.unexpected) == ([], [])
        weights = checkpoint.read(head)
    layer = ClassifierHead(encoder.config, head, units=len(weights["logits/bias"]))
    layer.build()
    for variable in layer.weights:
        variable.assign(weights[variable.path.removeprefix(f"{layer.path}/")])
    outputs = encoder(ours)
    if head in ("sequence", "choices"):
        close(classify_texts(encoder, layer, ours), expected.logits.reshape(3, -1))
        return
    if head == "next_sentence":
        their_logits = getattr(expected, "seq_relationship_logits", getattr(expected, "sop_logits", None))
        close(layer(outputs["pooled_output"]), their_logits)
        return
    logits = np.asarray(layer(outputs["sequence_output"]))
    if head == "spans":
        close(logits[..., 0][real], expected.start_logits.numpy()[real])
        close(logits[..., 1][real], expected.end_logits.numpy()[real])
    else:
        close(logits[real].squeeze(), expected.logits.numpy()[real].squeeze())


@pytest.mark.parametrize("name", ["modernbert", "modernbert-biases"])
def test_the_older_dialect_of_modernbert(name, tmp_path):
    """Of transformers 4, which many files are in: the same model, for both sides."""
    model = their_model(name, "AutoModel")
    model.save_pretrained(tmp_path)
    config = BertEncoder.from_preset(tmp_path).config
    values = json.loads((tmp_path / "config.json").read_text())
    thetas, kinds = values.pop("rope_parameters"), values.pop("layer_types")
    values["global_rope_theta"] = thetas["full_attention"]["rope_theta"]
    values["local_rope_theta"] = int(thetas["sliding_attention"]["rope_theta"])
    values["global_attn_every_n_layers"] = config.global_every
    assert kinds == [("sliding" if config.is_local(i) else "full") + "_attention" for i in range(len(kinds))]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert BertEncoder.from_preset(tmp_path).config == config
    compare_encoder(BertEncoder.from_preset(tmp_path), transformers.AutoModel.from_pretrained(tmp_path).eval())


def test_the_older_dialect_of_ultrabert(tmp_path):
    """With lists of all layers' windows and thetas, as the models' own code writes."""
    model = their_model("ultrabert", "AutoModel")
    model.save_pretrained(tmp_path)
    expected = BertEncoder.from_preset(tmp_path).config
    values = json.loads((tmp_path / "config.json").read_text())
    is_local = [kind == "sliding_attention" for kind in values.pop("layer_types")]
    assert is_local == [True, True, False, True]
    del values["rope_parameters"]
    window = values.pop("sliding_window")
    values["attention_windows"] = [window if each else None for each in is_local]
    values["rope_theta"] = [10_000.0 if each else 2_560_000.0 for each in is_local]
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert BertEncoder.from_preset(tmp_path).config == expected
    compare_encoder(BertEncoder.from_preset(tmp_path), transformers.AutoModel.from_pretrained(tmp_path).eval())


# Encoders of transformers that we lack -> what they have that no field of `BertConfig` describes.
LACKING = {
    **dict.fromkeys(("esm", "esmc"), "proteins"),
    **dict.fromkeys(("modernvbert", "neomme", "ultravbert"), "images"),
    **dict.fromkeys(("mra", "nystromformer", "yoso"), "approximations of the softmax"),
    **dict.fromkeys(("roberta-prelayernorm", "xlm-roberta-xl"), "norms first, with RoBERTa's other parts"),
    **dict.fromkeys(("flaubert", "xlm"), "languages as embeddings, and a mask applied to every layer's output"),
    "big_bird": "attention to random blocks",
    "convbert": "convolutions beside attention",
    "data2vec-text": "RoBERTa under other names, hardly used",
    "deberta": "disentangled attention with its own projections and no buckets",
    "fnet": "Fourier transforms in place of attention",
    "funnel": "layers that shorten the text",
    "ibert": "RoBERTa in whole numbers",
    "layoutlm": "places on a page",
    "longformer": "tokens with global attention and projections of their own",
    "luke": "entities beside words",
    "megatron-bert": "norms first, with BERT's pooler and heads",
    "mobilebert": "bottlenecks in each layer",
    "perceiver": "bytes, read by latent vectors",
    "reformer": "attention by hashes, reversible layers",
    "rembert": "another width of the output embeddings",
    "roc_bert": "shapes and sounds of characters",
    "roformer": "rotary embeddings of interleaved pairs",
    "squeezebert": "grouped convolutions in place of dense layers",
    "tapas": "cells of tables",
    "xmod": "an adapter for each language",
}


def test_every_encoder_of_transformers_is_ours_or_known_to_be_lacking():
    """Those with a class for masked words and no decoder. A new one needs a table, or a line above."""
    auto = transformers.models.auto.modeling_auto
    decoders = {*auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES}
    encoders = {*auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES} - decoders
    assert encoders - {*FAMILIES} == LACKING.keys()
    # These come with their own code, and these are for other libraries.
    assert {*FAMILIES} - encoders == {"new", "neobert", "model2vec", "static_embedding"}


# The classes of other heads: test_tasks_begun_from_a_masked_language_model.
OF_NO_TASK = [
    (name, head)
    for name in NAMES
    for head in FAMILIES[name].heads
    if head in ("next_sentence", "replaced_tokens") or (head == "masked_lm" and "next_sentence" in FAMILIES[name].heads)
]


@pytest.mark.parametrize(("name", "head"), OF_NO_TASK)
def test_transformers_has_the_class_that_we_name(name, head, tmp_path):
    their_model(name, "AutoModel").save_pretrained(tmp_path / "theirs")
    with formats.open_checkpoint(tmp_path / "theirs") as checkpoint:
        pooler = checkpoint.config.pooler or checkpoint.config.reads_pooler(head)
        config = dataclasses.replace(checkpoint.config, pooler=pooler)
        parts = {"encoder": checkpoint.read("encoder")}
        for part in ("encoder", head):
            for weight, shape in shapes(config, part, 1 if part == "replaced_tokens" else 2).items():
                parts.setdefault(part, {}).setdefault(weight, np.full(shape, 0.5, "float32"))
        formats.write(tmp_path / "ours", config, parts)
    (named,) = json.loads((tmp_path / "ours/config.json").read_text())["architectures"]
    _, report = getattr(transformers, named).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert all("pooler" in key for key in report["unexpected_keys"])  # not every class has it
    # ALBERT's head for the order of sentences is in no class without that for masked tokens.
    missing = {("next_sentence", "AlbertForPreTraining"): "predictions."}.get((head, named), ())
    assert all(key.startswith(missing) for key in report["missing_keys"])


def begun_from(directory, kind):
    """A task from an encoder alone: its head is new, and so is its pooler if it reads one; no weight is 0 or 1."""
    settings = {"labels": ["O", "B-x", "I-x"]} if kind in (BertClassifier, BertTokenClassifier) else {}
    if (
        kind is BertPretrainer
        and "next_sentence" not in FAMILIES[BertEncoder.from_preset(directory).config.family].heads
    ):
        settings = {"pairs": False}
    model = kind.from_preset(directory, sequence_length=12, **settings)
    new = [*model.heads.values(), *([] if model.encoder.pooler is None else [model.encoder.pooler])]
    generator = np.random.default_rng(1)
    for variable in (variable for layer in new for variable in layer.weights):
        variable.assign(variable + generator.normal(0, 0.3, variable.shape))
    return model


def logits_of(model, packed):
    """Our logits, under the names of their outputs."""
    if isinstance(model, BertQuestionAnswerer):
        rows = {name: each[:, 0] if each.ndim == 3 else each for name, each in packed.items()}
        both = np.asarray(model.head(model.encoder(rows)["sequence_output"]))
        return {"start_logits": both[..., 0], "end_logits": both[..., 1]}
    if not isinstance(model, BertPretrainer):
        return {"logits": np.asarray(model(packed))}
    positions = np.tile(np.arange(packed["input_word_ids"].shape[1]), (len(packed["input_word_ids"]), 1))
    found = model({**packed, "masked_lm_positions": positions.astype("int32")})
    both = {"prediction_logits": found["masked_lm"], "next_sentence": found.get("next_sentence")}
    return {name: np.asarray(each) for name, each in both.items() if each is not None}


TASKS = [BertClassifier, BertReranker, BertTokenClassifier, BertQuestionAnswerer, BertPretrainer]


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        (name, kind)
        for name in [*NAMES, "eurobert-late"]
        for kind in TASKS
        if kind.HEAD in (None, *FAMILIES[family_of(name)].heads)
    ],
)
def test_tasks_begun_from_a_masked_language_model(name, kind, tmp_path):
    """transformers computes what we do from every file that we write, with the class that the file names."""
    sizes = {**SMALL, "vocab_size": len(small.VOCABULARY)}
    their_model(name, "AutoModelForMaskedLM", sizes).save_pretrained(tmp_path / "theirs")
    small.tokenizer().save_preset(tmp_path / "theirs")
    model = begun_from(tmp_path / "theirs", kind)
    model.save_preset(tmp_path / "ours")
    (named,) = json.loads((tmp_path / "ours/config.json").read_text())["architectures"]
    again, report = getattr(transformers, named).from_pretrained(tmp_path / "ours", output_loading_info=True)
    reads_pooler = any(map(model.encoder.config.reads_pooler, model.heads))
    unread = [] if reads_pooler else ["pooler"]  # kept in the file, but not in this class
    assert all(unread and unread[0] in key for key in report["unexpected_keys"])
    assert not any(report[key] for key in ("missing_keys", "mismatched_keys", "error_msgs"))
    packed = small.preprocessor(sequence_length=12)((["the film", "good"], ["very good", "not so bad"]))
    theirs = {"input_ids": packed["input_word_ids"], "attention_mask": packed["input_mask"]}
    if getattr(again.config, "type_vocab_size", 0) == 2:
        theirs["token_type_ids"] = packed["input_type_ids"]
    else:
        del packed["input_type_ids"]
    theirs = {key: torch.tensor(each.numpy()) for key, each in theirs.items()}
    expected, real = run(again.eval(), theirs), packed["input_mask"].numpy() > 0
    for key, ours in logits_of(model, packed).items():
        names = {"next_sentence": ("seq_relationship_logits", "sop_logits"), "prediction_logits": (key, "logits")}
        want = next(getattr(expected, each) for each in names.get(key, (key,)) if hasattr(expected, each)).numpy()
        each_token = ours.shape[:2] == real.shape
        close(ours[real] if each_token else ours, want[real] if each_token else want, 1e-4)


@pytest.mark.parametrize("name", [name for name in NAMES if FAMILIES[name].pooler])
def test_the_model_card_of_an_encoder_without_the_pooler_of_its_family(name, tmp_path):
    """transformers draws a pooler at random unless it is told that there is none."""
    model = their_model(name, "AutoModelForMaskedLM")
    model.save_pretrained(tmp_path / "theirs")
    encoder = BertEncoder.from_preset(tmp_path / "theirs")
    assert not encoder.config.pooler
    encoder.save_preset(tmp_path / "ours")
    card = (tmp_path / "ours/README.md").read_text()
    (line,) = [line.strip() for line in card.splitlines() if ".from_pretrained(" in line]
    assert line == 'model = AutoModel.from_pretrained("this directory", add_pooling_layer=False)'
    settings = {"add_pooling_layer": False, "output_loading_info": True}
    again, report = transformers.AutoModel.from_pretrained(tmp_path / "ours", **settings)
    assert {key: names for key, names in report.items() if names} == {}
    compare_encoder(encoder, again.eval())


@pytest.mark.parametrize("name", [*BLOCKS, "roberta", "electra", "gte"])
def test_one_step_of_training(name, tmp_path):
    """From the same weights and the same batch, gradient descent takes both to the same place."""
    tf = pytest.importorskip("tensorflow")
    model = their_model(name, "AutoModel", scale=0.3 if name.startswith(("modernbert", "eurobert")) else 0.1)
    model.save_pretrained(tmp_path / "before")
    ours, theirs, real = batch(model)
    encoder = BertEncoder.from_preset(tmp_path / "before")
    goal = np.random.default_rng(1).normal(size=(3, 17, 32)).astype("float32")
    real = real[..., None].astype("float32")  # what stands at padding, nobody trains

    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((encoder(ours, training=False)["sequence_output"] - goal) ** 2 * real)
    for weight, gradient in zip(encoder.trainable_weights, _gradients(tf, tape, loss, encoder), strict=True):
        weight.assign_sub(0.1 * gradient)
    encoder.save_preset(tmp_path / "ours")

    difference = model(**theirs).last_hidden_state - torch.tensor(goal)
    (difference**2 * torch.tensor(real)).mean().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.grad is not None:
                parameter -= 0.1 * parameter.grad
    model.save_pretrained(tmp_path / "theirs")

    before, first, second = (
        load_file(tmp_path / which / "model.safetensors") for which in ("before", "ours", "theirs")
    )
    assert first.keys() == second.keys()
    for key in first:
        close(first[key], second[key])
    moved = [key for key in first if np.abs(first[key] - before[key]).max() > 1e-4]
    assert len(moved) > 10


def _gradients(tf, tape, loss, encoder):
    variables = [weight.value for weight in encoder.trainable_weights]
    gradients = tape.gradient(loss, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    return [tf.convert_to_tensor(gradient) for gradient in gradients]
