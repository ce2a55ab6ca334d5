"""keras-bert fill: what it writes for each mask, and what it refuses."""

import json

import keras
import pytest

from keras_bert import BertConfig, BertEncoder, BertPreprocessor
from keras_bert.tasks import BertMaskedLM
from keras_bert.text import BytePairTokenizer, WordPieceTokenizer
from keras_bert.text.vocabulary import byte_symbols

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "##s", "."]
TEXTS = ["The [MASK] sat.", "[MASK]  [MASK]\tsat"]
SIZES = {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "intermediate_size": 48, "max_positions": 16}


def save(directory, tokenizer):
    keras.utils.set_random_seed(3)
    config = BertConfig(vocab_size=tokenizer.vocabulary_size, initializer_range=0.3, **SIZES)
    preprocessor = BertPreprocessor(tokenizer, sequence_length=None, max_sequence_length=16)
    BertMaskedLM(BertEncoder(config), preprocessor).save_preset(directory)
    return directory


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save(tmp_path_factory.mktemp("model"), WordPieceTokenizer(TOKENS, special_tokens_in_text=True))


def test_json_lines(run, model):
    result = run("fill", model, "--top-k", "3", "--format", "jsonl", *TEXTS)
    assert result.stderr == ""
    answers = BertMaskedLM.from_preset(model).fill(TEXTS, top_k=3)
    for text, line, answer in zip(TEXTS, result.stdout.splitlines(), answers, strict=True):
        assert json.loads(line) == {"text": text, "filled": answer["text"], "masks": answer["masks"]}
        assert [len(mask) for mask in answer["masks"]] == [3] * text.count("[MASK]")


def test_text(run, model):
    answers = BertMaskedLM.from_preset(model).fill(TEXTS, top_k=3)
    result = run("fill", str(model), "--top-k", "3", input="".join(f"{text}\n" for text in TEXTS).encode())
    assert result.stderr == ""
    for line, answer in zip(result.stdout.splitlines(), answers, strict=True):
        filled, *masks = line.split("\t")
        assert filled == " ".join(answer["text"].split())
        expected = [[f"{each['token']} {each['probability']:.3f}" for each in mask] for mask in answer["masks"]]
        assert masks == [" ".join(mask) for mask in expected]


def test_white_space_is_shown_in_quotes(run, model, monkeypatch):
    """A token of byte pairs may be a line's end; a line of output stays one."""
    masks = [[{"token": "\n", "probability": 0.75}, {"token": " c", "probability": 0.25}]]
    monkeypatch.setattr(BertMaskedLM, "fill", lambda *_, **__: [{"text": "a \n", "masks": masks}])
    assert run("fill", model, "a [MASK]").stdout == 'a\t"\\n" 0.750 c 0.250\n'


@pytest.mark.slow
def test_white_space_of_byte_pairs(run, tmp_path):
    tokens = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", *byte_symbols()]
    tokenizer = BytePairTokenizer(tokens, merges=[], special_tokens_in_text=True)
    result = run("fill", str(save(tmp_path / "model", tokenizer)), "a <mask>", "--top-k", str(len(tokens)))
    (line,) = result.stdout.splitlines()
    _, candidates = line.split("\t")
    assert ' "\\n" 0.' in candidates
    assert " c 0." in candidates


def test_mistakes(run, fails, model, untrained):
    assert fails("fill", model, "the [MASK]", "the cat") == "argument 2: it has no [MASK]"
    assert fails("fill", model, input=b"the <mask>\n") == "standard input, line 1: it has no [MASK]"
    assert fails("fill", model, "[MASK]", "--top-k", "11").startswith("--top-k is 11; expected 1 to 10")
    cut = run("fill", model, "cat " * 20 + "[MASK]", exit_code=2)  # warned of, too
    assert "only 0 in the 16 tokens that are read" in cut.stderr.splitlines()[-1]
    assert "has no masked language modeling head" in fails("fill", untrained, "the [MASK]")
