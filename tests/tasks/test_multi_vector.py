"""BertMultiVectorEncoder: a vector for each token, MaxSim, and the files of three libraries."""

import functools
import json
import string

import numpy as np
import pytest
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from keras_bert import BertMultiVectorEncoder, BertPreprocessor, BertSentenceEncoder
from keras_bert.answers.token_vectors import pool_tokens
from keras_bert.formats import Preset
from keras_bert.formats.libraries import multi_vector
from keras_bert.tasks.registry import task_of
from keras_bert.text import WordPieceTokenizer

from ..support import small
from ..support.data import change_json
from ..support.encoders import MODERN
from ..support.messages import error_names, warning_names
from ..support.reference import bytepair

TEXTS = ["good film", "", "a", "🙂 naïve!", "Good, bad; and a plot."]
DENSE = {"units": 8, "activation": "linear", "use_bias": False, "use_residual": False}
CLASSIC = {
    "dense": [DENSE],
    "prompts": {"query": "[unused0] ", "document": "[unused1] "},
    "query_length": 12,
    "query_expansion": {"length": 12, "attend": False, "token": None},
    "skipped_tokens": list(string.punctuation),
}
OTHER = {
    "dense": [
        {"units": 12, "activation": "gelu", "use_bias": True, "use_residual": True},
        {**DENSE, "use_residual": True},
    ],
    "prompts": {"query": "[unused0] ask: ", "document": "text: "},
    "query_length": 16,
    "query_expansion": {"length": 9, "attend": True, "token": "[SEP]"},
    "token_pooling": {"factor": 2.0, "protected": 1, "normalize": True},
    "mean_maxsim": True,
}
PLAIN = {"normalize": False, "prompts": {}}
SETTINGS = {"classic": CLASSIC, "other": OTHER, "plain": PLAIN}
pytestmark = pytest.mark.usefixtures("untraced_module")


@functools.cache
def word_pieces(**settings):
    return WordPieceTokenizer([*small.VOCABULARY, "[unused0]", "[unused1]"], **settings)


@functools.cache
def byte_pairs():
    return small.modern_byte_pairs(bytepair.train(small.TEXTS, 40))


def new(tokenizer=None, **settings):
    ours = tokenizer or word_pieces()
    modern = {
        **MODERN,
        "family": "modernbert",
        "local_window": 24,
        "layer_norm_epsilon": 1e-5,
        "head_activation": "gelu",
    }
    changes = {"num_layers": 1} if isinstance(ours, WordPieceTokenizer) else modern
    encoder = small.encoder(vocab_size=ours.vocabulary_size, **changes)
    return small.shaken(
        BertMultiVectorEncoder(encoder, BertPreprocessor(ours, None, max_sequence_length=20), **settings)
    )


@pytest.fixture(scope="module")
def model():
    return new(**CLASSIC)


@pytest.fixture
def saved(model, tmp_path):
    model.save_preset(tmp_path / "saved")
    return tmp_path / "saved"


def hidden_states(model, *tokens):
    """The normalized, projected hidden states of a row of tokens, computed step by step."""
    ids = np.array([[model.preprocessor.tokenizer.vocabulary.index(token) for token in tokens]], "int32")
    inputs = {"input_word_ids": ids, "input_mask": np.ones_like(ids), "input_type_ids": np.zeros_like(ids)}
    hidden = model.encoder(inputs)["sequence_output"].numpy()[0] @ model.projection[0].numpy()
    return hidden / np.linalg.norm(hidden, axis=-1, keepdims=True)


def test_the_vectors_of_a_document(model):
    tokens = ["[CLS]", "[unused1]", "good", ",", "film", "[SEP]"]
    expected = hidden_states(model, *tokens)[[0, 1, 2, 4, 5]]  # the comma is skipped
    np.testing.assert_allclose(model.encode("Good, film"), expected, atol=1e-5)


def test_a_query_is_expanded_by_masks_that_nothing_attends_to(model):
    tokens = ["[CLS]", "[unused0]", "good", ",", "film", "[SEP]"]
    found = model.encode_query("good, film")
    assert found.shape == (12, 8)
    np.testing.assert_allclose(found[:6], hidden_states(model, *tokens), atol=1e-5)  # as without expansion
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-5)  # the masks are computed, too
    with warning_names("truncated", 12):
        assert model.encode_query("good " * 30).shape == (12, 8)
    attended = new(**{**CLASSIC, "query_expansion": {"length": 12, "attend": True}})
    np.testing.assert_allclose(
        attended.encode_query("good, film"), hidden_states(model, *tokens, *["[MASK]"] * 6), atol=1e-5
    )
    assert not np.allclose(attended.encode_query("good, film")[:6], found[:6], atol=1e-3)


def test_markers_in_texts_are_text(model):
    tokenizer = model.preprocessor.tokenizer
    for marker in ("[unused1]", "[MASK]"):
        ids = tokenizer.tokenize(f"{marker} good").numpy()
        expected = ["[CLS]", "[unused1]", *(tokenizer.vocabulary[i] for i in ids), "[SEP]"]
        assert len(ids) > 3
        counts = [token not in string.punctuation for token in expected]
        np.testing.assert_allclose(model.encode(f"{marker} good"), hidden_states(model, *expected)[counts], atol=1e-5)


def test_maxsim_by_brute_force(model):
    queries, documents = model.encode_query(TEXTS[:3]), model.encode(TEXTS)
    expected = [
        [sum(max(float(q @ d) for d in document) for q in query) for document in documents] for query in queries
    ]
    np.testing.assert_allclose(model.similarity(queries, documents), expected, atol=1e-5)
    np.testing.assert_allclose(model.similarity(queries[0], documents[1]), [expected[0][1:2]], atol=1e-5)
    mean = BertMultiVectorEncoder(model.encoder, model.preprocessor, mean_maxsim=True)
    alike = mean.encode_query("good")
    np.testing.assert_allclose(mean.similarity(alike, alike), [[1.0]], atol=1e-5)
    of_none = model.similarity(queries, [documents[0], documents[0][:0], documents[1]])  # all tokens are skipped
    np.testing.assert_allclose(of_none, [[row[0], -1e9, row[1]] for row in expected], rtol=1e-5)
    assert model.similarity(queries, [documents[0][:0]]).max() < -1e8
    twice = model.similarity(np.repeat(queries[0], 2, axis=0), documents)  # a token counts as often as it is there
    np.testing.assert_allclose(twice, [[2 * each for each in expected[0]]], rtol=1e-5)
    with error_names(ValueError, "[3, 7]", "[tokens, 8]"):
        model.similarity(np.zeros((3, 7)), documents)


def test_a_server_gets_the_scores_of_pairs_and_counts_their_tokens(model):
    queries, documents = ["good film", "a", "good film"], [TEXTS[4], "film", ""]
    found = model.serve_rerank(tf.constant(queries), tf.constant(documents))
    pairs = zip(model.encode_query(queries), model.encode(documents), strict=True)
    np.testing.assert_allclose(found["score"], [model.similarity(*each)[0, 0] for each in pairs], atol=1e-5)
    # [CLS], a marker and [SEP] of each; skipped tokens are read, expansions are not counted
    assert found["token_count"].numpy().tolist() == [(3 + 2) + (3 + 8), (3 + 1) + (3 + 1), (3 + 2) + 3]


def test_rank(model):
    scores = model.similarity(model.encode_query("bad plot"), model.encode(TEXTS))[0]
    ranked = model.rank("bad plot", TEXTS, top_k=2)
    assert [each["index"] for each in ranked] == np.argsort(-scores)[:2].tolist()
    np.testing.assert_allclose([each["score"] for each in ranked], np.sort(scores)[::-1][:2], atol=1e-5)
    both = model.rank(["bad plot", "a"], [TEXTS, []])
    assert [[each["index"] for each in row[:2]] for row in both] == [[each["index"] for each in ranked], []]
    assert model.rank("a", []) == []


@pytest.mark.parametrize("factor", [1, 2.5, 8, 100])
def test_pooling_merges_the_nearest_clusters(factor):
    hierarchy = pytest.importorskip("scipy.cluster.hierarchy")
    vectors = np.random.default_rng(9).normal(size=(60, 8)).astype("float32")  # whose clusters differ in size
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    rest = vectors[1:]
    distances = (1 - rest @ rest.T)[np.triu_indices(len(rest), 1)]
    count = max(int(len(rest) // factor), 1)
    labels = hierarchy.fcluster(hierarchy.linkage(distances, "ward"), count, "maxclust")
    means = np.array([rest[labels == label].mean(axis=0) for label in np.unique(labels)])
    found = pool_tokens(vectors, factor, normalize=False)
    np.testing.assert_array_equal(found[0], vectors[0])
    np.testing.assert_allclose(in_order(found[1:]), in_order(means), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(pool_tokens(vectors, factor), axis=1), 1, atol=1e-5)


def in_order(vectors):
    return vectors[np.lexsort(vectors.round(3).T)]


@pytest.mark.parametrize(("settings", "words"), [
    ({"query_expansion": {"length": 30}}, ("query_expansion", 30, 20)),
    ({"query_expansion": {"length": 8, "strategy": "min"}}, ("query_expansion", "strategy")),
    ({"query_expansion": {"length": 8, "token": "[X]"}}, ("query_expansion", "[X]")),
    ({"query_length": 0}, ("query_length", 0)),
    ({"prompts": {"passage": "p"}}, ("passage", "query, document")),
    ({"dense": [{"units": 0}]}, ("dense", "'units': 0")),
    ({"dense": [{"units": 3, "activation": "elu"}]}, ("elu", "gelu")),
    ({"token_pooling": {"factor": 0.5}}, ("token_pooling", "0.5")),
])  # fmt: skip
def test_bad_arguments(settings, words):
    with error_names(ValueError, *words):
        new(**settings)


def test_what_is_not_there_is_refused(model, saved):
    with error_names(ValueError, "kind", "passage"):
        model.encode("a", kind="passage")
    with error_names(ValueError, "anchors, positives"):
        model.examples(TEXTS, None)
    with error_names(ValueError, "token_pooling", "outside of a graph"):
        new(**OTHER).serve(["a"])
    with error_names(ValueError, "BertMultiVectorEncoder.from_preset"):
        BertSentenceEncoder.from_preset(saved)


MASK, NORMALIZE, PROMPTS = "2_MultiVectorMask/config.json", "3_Normalize/config.json", multi_vector.PROMPTS


@pytest.mark.parametrize(("name", "values", "words"), [
    (MASK, {"skiplist_tasks": ["query"]}, ("skiplist_tasks", "query")),
    (MASK, {"keep_only_token_ids": [3]}, ("keep_only_token_ids", 3)),
    (NORMALIZE, {"module_input_name": "sentence_embedding"}, ("module_input_name", "sentence_embedding")),
    (PROMPTS, {"similarity_fn_name": "cosine"}, ("cosine", "maxsim")),
    (PROMPTS, {"default_prompt_name": "query"}, ("default_prompt_name", "query")),
    ("1_Dense/config.json", {"module_output_name": "else"}, ("module_output_name", "else")),
    ("sentence_bert_config.json", {"query_expansion": {"strategy": "most", "length": 4}}, ("strategy", "most")),
])  # fmt: skip
def test_unsupported_options_are_refused(saved, name, values, words):
    change_json(saved, name, **values)
    with error_names(ValueError, name, *words):
        multi_vector.read(Preset(saved))


def test_other_modules_are_refused(saved):
    modules = json.loads((saved / "modules.json").read_text())
    (saved / "modules.json").write_text(json.dumps([*modules, {"type": "own.Weights", "path": "9"}]))
    with error_names(ValueError, "modules.json", "own.Weights"):
        BertMultiVectorEncoder.from_preset(saved)
    (saved / "modules.json").unlink()
    for kind in ("1_Dense", "2_MultiVectorMask"):
        with error_names(ValueError, f"{kind}/config.json needs a modules.json"):
            multi_vector.read(Preset(saved))
        (saved / kind / "config.json").unlink()


def test_settings_of_the_files_of_others(tmp_path):
    """With a residual layer of equal sizes, which has no weights of its own."""
    dense = [*OTHER["dense"], {**DENSE, "activation": "tanh", "use_residual": True}]
    model = new(**{**OTHER, "dense": dense})
    model.save_preset(tmp_path / "saved")
    change_json(tmp_path / "saved", "config.json", keras_bert=None)
    read = BertMultiVectorEncoder.from_preset(tmp_path / "saved")
    assert read.settings() == model.settings()
    np.testing.assert_allclose(read.encode("good film"), model.encode("good film"), atol=1e-5)
    change_json(tmp_path / "saved", "6_HierarchicalTokenPooling/config.json", normalize_embeddings=None)
    change_json(tmp_path / "saved", PROMPTS, query_prefix="[unused0] ask")  # the prompt has it, too
    older = multi_vector.read(Preset(tmp_path / "saved"))
    assert not older.token_pooling["normalize"]
    assert older.prompts == OTHER["prompts"]


def as_stanford(saved, directory):
    """Writes the model as Stanford's code does."""
    directory.mkdir()
    weights = {f"bert.{name}": each for name, each in load_file(saved / "model.safetensors").items()}
    weights["linear.weight"] = load_file(saved / "1_Dense/model.safetensors")["linear.weight"]
    save_file(weights, directory / "model.safetensors", metadata={"format": "pt"})
    config = {**json.loads((saved / "config.json").read_text()), "architectures": ["HF_ColBERT"]}
    config.pop("keras_bert")
    (directory / "config.json").write_text(json.dumps(config))
    metadata = {"query_maxlen": 12, "doc_maxlen": 20, "attend_to_mask_tokens": False, "dim": 8, "nbits": 2}
    (directory / "artifact.metadata").write_text(json.dumps(metadata))
    for name in ("vocab.txt", "tokenizer_config.json"):
        (directory / name).write_bytes((saved / name).read_bytes())
    return directory


def as_pylate(saved, directory):
    """Writes the model as PyLate does, up to its version 1.6."""
    directory.mkdir()
    for name in ("config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"):
        (directory / name).write_bytes((saved / name).read_bytes())
    (directory / "1_Dense").mkdir()
    (directory / "1_Dense/model.safetensors").write_bytes((saved / "1_Dense/model.safetensors").read_bytes())
    linear = "torch.nn.modules.linear.Identity"
    files = {
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
        ],
        "sentence_bert_config.json": {"max_seq_length": 19, "do_lower_case": False},
        "1_Dense/config.json": {
            "in_features": 32, "out_features": 8, "bias": False, "activation_function": linear, "use_residual": False,
        },
        PROMPTS: {
            "model_type": "ColBERT", "prompts": {}, "default_prompt_name": None, "similarity_fn_name": "MaxSim",
            "query_prefix": "[unused0]", "document_prefix": "[unused1]", "query_length": 12, "document_length": 20,
            "attend_to_expansion_tokens": False, "do_query_expansion": True, "skiplist_words": list(string.punctuation),
        },
    }  # fmt: skip
    for name, values in files.items():
        (directory / name).write_text(json.dumps(values))
    change_json(directory, "config.json", keras_bert=None)
    return directory


FORMS = {"stanford": as_stanford, "pylate": as_pylate}


def test_query_expansion_of_pylate(saved, tmp_path):
    directory = as_pylate(saved, tmp_path / "pylate")
    change_json(directory, PROMPTS, do_query_expansion=None, attend_to_expansion_tokens=True, skiplist_words=[])
    read = multi_vector.read(Preset(directory))
    assert read.query_expansion == {"length": 12, "attend": True, "token": None}
    assert read.skipped_tokens == []


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.filterwarnings("error::UserWarning")
def test_files_of_others(model, saved, tmp_path, form):
    directory = FORMS[form](saved, tmp_path / form)
    assert task_of(directory) is BertMultiVectorEncoder
    read = BertMultiVectorEncoder.from_preset(directory)
    for kind in ("query", "document"):
        for found, expected in zip(read.encode(TEXTS, kind=kind), model.encode(TEXTS, kind=kind), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-5)


def close(theirs, ours, texts):
    vectors = {}
    for kind in ("query", "document"):
        expected = getattr(theirs, f"encode_{kind}")(texts, convert_to_numpy=True)
        found = vectors[kind] = ours.encode(texts, kind=kind)
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            if kind == "document" and ours.token_pooling:  # the order of clusters is another
                one, other = in_order(one), in_order(other)
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5 * max(1, np.abs(other).max()))
        alone = getattr(theirs, f"encode_{kind}")(texts[0], convert_to_numpy=True)
        assert np.shape(ours.encode(texts[0], kind=kind)) == np.shape(alone)
    expected = theirs.similarity(vectors["query"], vectors["document"]).numpy()
    found = ours.similarity(vectors["query"], vectors["document"])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.abs(expected).max() > 0.1


LONG = [*TEXTS, "the " * 60, "the [MASK] was [SEP] good"]


@pytest.mark.parity
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*truncated")
@pytest.mark.parametrize(("name", "tokenizer"), [
    ("classic", word_pieces), ("classic", byte_pairs), ("other", byte_pairs), ("plain", word_pieces),
])  # fmt: skip
def test_parity_both_ways(tmp_path, name, tokenizer):
    """They read what we write, and we read what they write. They find special tokens in all texts."""
    library = pytest.importorskip("sentence_transformers")
    ours = new(tokenizer(), **SETTINGS[name])
    ours.save_preset(tmp_path / "ours")
    theirs = library.MultiVectorEncoder(str(tmp_path / "ours"), device="cpu")
    close(theirs, ours, LONG[:-1])
    theirs.save_pretrained(str(tmp_path / "theirs"))
    assert task_of(tmp_path / "theirs") is BertMultiVectorEncoder
    read = BertMultiVectorEncoder.from_preset(tmp_path / "theirs", special_tokens_in_text=True)
    assert {name: read.settings()[name] for name in SETTINGS[name]} == SETTINGS[name]
    close(theirs, read, LONG)


@pytest.mark.parity
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*truncated")
@pytest.mark.parametrize("form", FORMS)
def test_parity_of_files_of_others(saved, tmp_path, form):
    library = pytest.importorskip("sentence_transformers")
    directory = FORMS[form](saved, tmp_path / form)
    theirs = library.MultiVectorEncoder(str(directory), device="cpu")
    close(theirs, BertMultiVectorEncoder.from_preset(directory), LONG[:-1])
