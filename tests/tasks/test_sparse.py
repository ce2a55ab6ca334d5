"""BertSparseEncoder: weights of tokens, its directories, and sentence-transformers' SparseEncoder beside it."""

import json

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bert import BertMaskedLM, BertSentenceEncoder, BertSparseEncoder
from keras_bert.formats import Preset
from keras_bert.formats.libraries import sparse_encoder
from keras_bert.formats.weight_files import write_safetensors
from keras_bert.tasks.registry import load_task, task_of

from ..support import small
from ..support.data import change_json
from ..support.messages import error_names, warning_names

TEXTS = [*small.TEXTS, "good", "the river bank"]


def new(text=None, **settings):
    return small.shaken(BertSparseEncoder(small.encoder(num_layers=1), small.preprocessor(**text or {}), **settings))


@pytest.fixture(scope="module")
def model():
    made = new()
    made.head.bias.assign(made.head.bias - 3.0)  # so that some weights are 0
    return made


@pytest.fixture
def saved(model, tmp_path):
    model.save_preset(tmp_path / "sparse")
    return tmp_path / "sparse"


@pytest.mark.parametrize(("pooling", "activation"), [("max", "relu"), ("sum", "log1p_relu")])
def test_weights(saved, pooling, activation, untraced):
    """Those of the logits of each position but padding, by the formula of Formal et al. 2021, equation 3."""
    model = BertSparseEncoder.from_preset(saved, pooling=pooling, activation=activation)
    weights = np.asarray(model(TEXTS))
    packed = model.preprocessor(TEXTS)
    hidden = model.encoder(packed)["sequence_output"]
    positions = np.tile(np.arange(hidden.shape[1]), (len(TEXTS), 1))
    logits = np.asarray(BertMaskedLM.from_preset(saved).logits(hidden, positions))
    for row, mask, of_row in zip(weights, np.asarray(packed["input_mask"]), logits, strict=True):
        values = np.log(1 + np.maximum(of_row[mask > 0], 0))
        values = np.log(1 + values) if activation == "log1p_relu" else values
        np.testing.assert_allclose(row, getattr(values, pooling)(axis=0), rtol=0, atol=1e-5)
    assert 0 < np.count_nonzero(weights) < weights.size


def test_encode(model, untraced):
    vocabulary = model.preprocessor.tokenizer.vocabulary
    weights = np.concatenate([np.asarray(model([text])) for text in TEXTS])
    answers = model.encode(TEXTS)
    for answer, row in zip(answers, weights, strict=True):
        expected = {vocabulary[i]: row[i] for i in np.argsort(-row) if row[i] > 0}
        assert list(answer) == list(expected)
        np.testing.assert_allclose(list(answer.values()), list(expected.values()), rtol=0, atol=1e-5)
    one = model.encode(TEXTS[0], top_k=2)
    assert list(one) == list(answers[0])[:2]
    fields = model.kind.fields(model.encode("good"))
    assert list(fields["weights"]) == list(model.encode("good"))
    served = model.serve(tf.constant(TEXTS))["weights"].numpy()
    assert all(not values[len(answer) :].any() for answer, values in zip(answers, served, strict=True))


def test_a_preset_is_of_this_task(saved):
    assert task_of(saved) is BertSparseEncoder
    with error_names(ValueError, "BertSparseEncoder.from_preset"):
        BertSentenceEncoder.from_preset(saved)


@pytest.mark.parametrize(("call", "words"), [
    (lambda model: model.encode("good", top_k=0), ("top_k", "0")),
    (lambda model: new(pooling="mean"), ("pooling", "'mean'", "max", "sum")),
    (lambda model: new(activation="gelu"), ("activation", "'gelu'", "relu", "log1p_relu")),
    (lambda model: new(text={"stride": 4}), ("stride", "4")),
])  # fmt: skip
def test_settings_that_it_has_not_are_refused(model, call, words):
    with error_names(ValueError, *words):
        call(model)


def test_a_masked_language_model_is_read(model, tmp_path):
    masked = BertMaskedLM(model.encoder, small.preprocessor(tokenizer=small.tokenizer(special_tokens_in_text=True)))
    masked.save_preset(tmp_path / "masked")
    assert task_of(tmp_path / "masked") is BertSentenceEncoder  # nothing says that it was trained for this
    assert BertSparseEncoder.from_preset(tmp_path / "masked").pooling == "max"
    BertSentenceEncoder(model.encoder, small.preprocessor()).save_preset(tmp_path / "vectors")
    with error_names(ValueError, "masked language modeling head"):
        BertSparseEncoder.from_preset(tmp_path / "vectors")


POOLING, THEIRS = "1_SpladePooling/config.json", "config_sentence_transformers.json"


@pytest.mark.parametrize(("name", "values", "words"), [
    (POOLING, {"pooling_strategy": "mean"}, ("pooling_strategy", "'mean'", "max")),
    (POOLING, {"activation_function": "gelu"}, ("activation_function", "'gelu'")),
    ("sentence_bert_config.json", {"transformer_task": "feature-extraction"}, ("transformer_task",)),
    (THEIRS, {"max_active_dims": 64}, ("max_active_dims", "64")),
    (THEIRS, {"default_prompt_name": "q", "prompts": {"q": "query: "}}, ("default_prompt_name", "'q'")),
])  # fmt: skip
def test_what_is_not_supported_is_refused(saved, name, values, words):
    change_json(saved, name, **values)
    with error_names(ValueError, *words):
        BertSparseEncoder.from_preset(saved)


def test_other_modules_are_refused(saved):
    modules = json.loads((saved / "modules.json").read_text())
    (saved / "modules.json").write_text(json.dumps([*modules, modules[1]]))
    with error_names(ValueError, "MLMTransformer, SpladePooling, SpladePooling"):
        sparse_encoder.read(Preset(saved))


@pytest.fixture
def routed(tmp_path):
    """A model whose queries have a table of different weights."""
    as_theirs = {"tokenizer": small.tokenizer(max_chars_per_word=100)}
    made = new(as_theirs, activation="log1p_relu", query_table=True)
    made.query_weights.assign(np.arange(made.query_weights.shape[0]) % 7)
    made.save_preset(tmp_path / "routed")
    return tmp_path / "routed", made


@pytest.mark.slow
def test_queries_by_a_table(routed, tmp_path):
    directory, made = routed
    vocabulary, table = made.preprocessor.tokenizer.vocabulary, made.query_weights.numpy()
    longest = made.preprocessor.longest
    made.save(tmp_path / "model.keras")
    for each in (BertSparseEncoder.from_preset(directory), keras.models.load_model(tmp_path / "model.keras")):
        for text, found in zip(TEXTS, each.encode_query(TEXTS), strict=True):
            ids = {*made.preprocessor.tokenizer.tokenize(text).numpy().tolist()[:longest]}
            assert found == {vocabulary[i]: table[i] for i in ids if table[i]}
            assert list(found.values()) == sorted(found.values(), reverse=True)
        assert list(each.encode_query(TEXTS[0], top_k=1)) == list(each.encode_query(TEXTS[0]))[:1]
        assert each.encode(TEXTS) == made.encode(TEXTS)
        assert each.encode_query([]) == []
    with warning_names("queries truncated", longest, 1):
        made.encode_query("good " * (longest + 1))
    without = BertSparseEncoder.from_preset(directory, query_table=False)
    assert without.encode_query(TEXTS) == without.encode(TEXTS)
    without.save_preset(directory, overwrite=True)
    assert not (directory / "router_config.json").exists()
    assert not (directory / sparse_encoder.QUERIES).exists()


ROUTER, QUERIES = "router_config.json", sparse_encoder.QUERIES


@pytest.mark.parametrize(("name", "values", "words"), [
    (ROUTER, {"structure": {"query": [""], "document": ["", "document_1_SpladePooling"]}}, ("query: MLMTransformer",)),
    (ROUTER, {"structure": {"query": [QUERIES], "document": [""]}}, ("document: MLMTransformer",)),
    (ROUTER, {"parameters": {"default_route": "query"}}, ("default_route", "'query'")),
    (ROUTER, {"parameters": {"route_mappings": {"('query', 'text')": "query"}}}, ("route_mappings",)),
    (f"{QUERIES}/config.json", {"path": "idf.json"}, ("path", "idf.json")),
    (f"{QUERIES}/vocab.txt", "[PAD]", ("vocab.txt", "differs")),
    (f"{QUERIES}/model.safetensors", None, (QUERIES, "model.safetensors", "weights of queries")),
    (THEIRS, {"prompts": {"query": "q: "}}, ("'q: '", "queries")),
    ("modules.json", None, (ROUTER, "needs a modules.json")),
    ("modules.json", [{"type": "own.Router", "path": ""}], ("own.Router",)),
    ("modules.json", [{"type": "a.Transformer", "path": ""}, {"type": "a.Pooling", "path": "1"}], ("a.Pooling",)),
])  # fmt: skip
def test_other_routers_and_modules_are_refused(routed, name, values, words):
    directory, _ = routed
    if isinstance(values, dict):
        change_json(directory, name, **values)
    else:
        (directory / name).unlink()
    if isinstance(values, list | str):
        (directory / name).write_text(values if isinstance(values, str) else json.dumps(values))
    with error_names(ValueError, *words):
        BertSparseEncoder.from_preset(directory)


def test_how_texts_were_padded_and_cut_is_no_difference_of_tokenizers(routed):
    """The last use of a tokenizer of Hugging Face's leaves it in the file."""
    directory, _ = routed
    content = small.tokenizer(max_chars_per_word=100).tokenizer_json()
    for path in (directory, directory / QUERIES):
        (path / "tokenizer.json").write_text(json.dumps(content))
    padding = {"strategy": "BatchLongest", "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0}
    truncation = {"direction": "Right", "max_length": 9, "strategy": "LongestFirst", "stride": 0}
    change_json(directory, f"{QUERIES}/tokenizer.json", padding=padding | {"pad_type_id": 0, "pad_token": "[PAD]"})
    sparse_encoder.read(Preset(directory))
    change_json(directory, f"{QUERIES}/tokenizer.json", padding=None, truncation=truncation)
    sparse_encoder.read(Preset(directory))
    change_json(directory, f"{QUERIES}/tokenizer.json", normalizer=None)
    with error_names(ValueError, "tokenizer.json", "differs"):
        sparse_encoder.read(Preset(directory))


def test_a_table_of_another_vocabulary(routed):
    directory, made = routed
    short = made.query_weights.numpy()[:-1]
    write_safetensors(directory / QUERIES / "model.safetensors", {"weight": short.shape}, [("weight", short)])
    with error_names(ValueError, QUERIES, len(short), len(short) + 1):
        BertSparseEncoder.from_preset(directory)


def test_a_table_that_is_gone_when_it_is_read(routed):
    directory, _ = routed
    preset = Preset(directory)
    assert preset.once(sparse_encoder.read).query_table
    (directory / QUERIES / "model.safetensors").unlink()
    with error_names(FileNotFoundError, QUERIES, "model.safetensors", "weights of queries"):
        sparse_encoder.read_query_weights(preset, 9)


def close(library, theirs, ours, texts, encode="encode"):
    expected = getattr(theirs, encode)(texts, convert_to_sparse_tensor=False).numpy()
    vocabulary = ours.preprocessor.tokenizer.vocabulary
    for answer, row in zip(getattr(ours, encode)(texts), expected, strict=True):
        found = np.array([answer.get(token, 0.0) for token in vocabulary])
        np.testing.assert_allclose(found, row, rtol=0, atol=1e-5)
    assert np.count_nonzero(expected) > 10


@pytest.mark.parity
def test_sparse_encoder_on_a_real_model(shared_data, tmp_path):
    """A real model that was trained for it, with the files of the newest version, and back."""
    library = pytest.importorskip("sentence_transformers")
    theirs = library.SparseEncoder(str(shared_data / "bert-tiny-mlm"), device="cpu")
    texts = ["The film was very good!", "", "Who painted the Mona Lisa, and where does it hang?", "rain " * 600]
    theirs.save_pretrained(str(tmp_path / "theirs"))
    assert task_of(tmp_path / "theirs") is BertSparseEncoder
    with warning_names("texts truncated"):
        close(library, theirs, load_task(tmp_path / "theirs"), texts)
    ours = BertSparseEncoder.from_preset(shared_data / "bert-tiny-mlm")
    assert {"good", "film", "movie"} < set(ours.encode(texts[0], top_k=5))
    ours.save_preset(tmp_path / "ours")
    with warning_names("texts truncated"):
        close(library, library.SparseEncoder(str(tmp_path / "ours"), device="cpu"), ours, texts)


@pytest.mark.parity
def test_other_poolings(model, tmp_path):
    library = pytest.importorskip("sentence_transformers")
    ours = new(pooling="sum", activation="log1p_relu")
    ours.save_preset(tmp_path)
    close(library, library.SparseEncoder(str(tmp_path), device="cpu"), ours, TEXTS[:2])


@pytest.mark.parity
def test_a_router_both_ways(routed, tmp_path):
    """Theirs keeps the network in a folder, ours in the directory itself, where transformers reads it."""
    library = pytest.importorskip("sentence_transformers")
    torch = pytest.importorskip("torch")
    directory, ours = routed
    theirs = library.SparseEncoder(str(directory), device="cpu")
    texts = [*TEXTS, "", "good good film unknowable"]
    for encode in ("encode", "encode_query"):
        close(library, theirs, ours, texts, encode)
    modules = library.sparse_encoder.modules
    network = list(library.SparseEncoder(modules=[*theirs[0].sub_modules["document"]], device="cpu"))
    weights = torch.linspace(0.0, 3.0, len(network[0].tokenizer))
    table = modules.SparseStaticEmbedding(network[0].tokenizer, weights, frozen=True)
    router = library.base.modules.Router.for_query_document([table], network)
    another = library.SparseEncoder(modules=[router], device="cpu")
    another.save_pretrained(str(tmp_path / "theirs"))
    assert not (tmp_path / "theirs/config.json").is_file()
    assert task_of(tmp_path / "theirs") is BertSparseEncoder
    read = BertSparseEncoder.from_preset(tmp_path / "theirs")
    assert read.activation == "log1p_relu"
    for encode in ("encode", "encode_query"):
        close(library, another, read, texts, encode)
