"""Makes the golden files: what transformers and sentence-transformers (with torch) say about the same models and texts.

    pip install torch transformers sentence-transformers
    python -m tests.golden.make_golden [--mlm-model DIRECTORY]

Writes, beside this script:
    tiny-bert/              a random BERT (2 layers, hidden size 32) as transformers saves it
    tiny-bert-old-names/    the same with the names of the oldest files, `bert.` before and `LayerNorm.gamma/beta`
    tiny-bert.npz           its outputs, all of them
    minilm.npz              all-MiniLM-L6-v2: ids, a summary of the hidden states, pooled outputs, sentence vectors
    bert-tiny-mlm.npz       the same for a BERT without a pooler in its file, which is not part of this repository
    families/               a random masked-language model of each other family as transformers saves it
    families.npz            their inputs, hidden states and logits
"""

import argparse
import shutil
from pathlib import Path

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer

from keras_bert import presets

from ..support.texts import PAIRS, TEXTS
from .summary import summary

HERE = Path(__file__).parent


def write(name, **arrays):
    path = HERE / f"{name}.npz"
    np.savez_compressed(path, **arrays)
    print(f"{path.name}: {path.stat().st_size / 1000:.1f} kB, " + ", ".join(arrays))


def outputs(model, ids, mask, types):
    """float32 `[num_layers, batch, seq_length, hidden]` and `[batch, hidden]`."""
    with torch.no_grad():
        arrays = {"input_ids": ids, "attention_mask": mask, "token_type_ids": types}
        result = model(**{name: torch.tensor(array) for name, array in arrays.items()}, output_hidden_states=True)
    pooled = result.last_hidden_state[:, 0] if result.pooler_output is None else result.pooler_output
    return torch.stack(result.hidden_states[1:]).numpy(), pooled.numpy()  # hidden_states[0] is the embedding


def real_model(name, directory, with_pooler, sentence_vectors):
    tokenizer = transformers.BertTokenizer.from_pretrained(directory)
    model = transformers.BertModel.from_pretrained(directory, add_pooling_layer=with_pooler).eval()
    arrays = {}
    for kind, texts in (("single", (TEXTS,)), ("pair", tuple(zip(*PAIRS, strict=True)))):
        encoded = tokenizer(*(list(part) for part in texts), padding=True, return_tensors="np")
        ids, mask, types = (encoded[key] for key in ("input_ids", "attention_mask", "token_type_ids"))
        hidden, pooled = outputs(model, ids, mask, types)
        arrays |= {
            f"{kind}_word_ids": ids.astype(np.int32),
            f"{kind}_mask": mask.astype(np.int8),
            f"{kind}_type_ids": types.astype(np.int8),
            f"{kind}_encoder_outputs": summary(hidden, mask),
            f"{kind}_pooled_output": pooled,
        }
    if sentence_vectors:
        arrays["sentence_vectors"] = SentenceTransformer(str(directory), device="cpu").encode(TEXTS)
    write(name, texts=np.array(TEXTS), pairs=np.array(PAIRS), **arrays)


def tiny_model():
    config = transformers.BertConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=40,
        # Neither of these is the default, so reading them is tested too.
        hidden_act="gelu_new",
        layer_norm_eps=1e-5,
    )
    torch.manual_seed(0)
    model = transformers.BertModel(config).eval()
    with torch.no_grad():
        for weight in model.parameters():  # far from 0 and 1, so that leaving out any of them shows
            weight += 0.3 * torch.randn_like(weight)
    new, old = HERE / "tiny-bert", HERE / "tiny-bert-old-names"
    model.save_pretrained(new)
    old.mkdir(exist_ok=True)
    shutil.copy(new / "config.json", old)
    renamed = {}
    for key, value in load_file(new / "model.safetensors").items():
        key = key.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta")
        renamed["bert." + key] = value
    save_file(renamed, old / "model.safetensors", metadata={"format": "pt"})

    generator = np.random.default_rng(0)
    ids = generator.integers(1, config.vocab_size, (4, 12))
    types = np.sort(generator.integers(0, 2, ids.shape))
    mask = (np.arange(12) < np.array([[12], [7], [3], [1]])).astype(np.int64)
    ids, types = ids * mask, types * mask
    hidden, pooled = outputs(model, ids, mask, types)
    write(
        "tiny-bert",
        word_ids=ids.astype(np.int32),
        mask=mask.astype(np.int8),
        type_ids=types.astype(np.int8),
        encoder_outputs=hidden,
        pooled_output=pooled,
    )


def families():
    sizes = {
        "vocab_size": 40,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "max_position_embeddings": 20,
    }
    configs = {
        "roberta": transformers.RobertaConfig(**sizes, type_vocab_size=1, layer_norm_eps=1e-5),
        "xlm-roberta": transformers.XLMRobertaConfig(**sizes, type_vocab_size=1),
        "distilbert": transformers.DistilBertConfig(
            vocab_size=40, dim=16, n_layers=2, n_heads=2, hidden_dim=32, max_position_embeddings=20
        ),
        "albert": transformers.AlbertConfig(**{**sizes, "num_hidden_layers": 4}, embedding_size=8, num_hidden_groups=2),
        "electra": transformers.ElectraConfig(**sizes, embedding_size=8),
    }
    arrays = {}
    for name, config in configs.items():
        torch.manual_seed(0)
        model = transformers.AutoModelForMaskedLM.from_config(config).eval()
        for weight in model.parameters():
            torch.nn.init.normal_(weight, std=0.3)
        model.save_pretrained(HERE / "families" / name)
        mask = np.array([[1] * 9, [1] * 5 + [0] * 4])
        ids = np.where(mask, np.random.default_rng(0).integers(5, 40, mask.shape), config.pad_token_id)
        types = {"token_type_ids": torch.tensor([[0] * 4 + [1] * 5, [0] * 9])} if name in ("albert", "electra") else {}
        with torch.no_grad():
            result = model(
                input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask), **types, output_hidden_states=True
            )
        arrays |= {
            f"{name}_word_ids": ids.astype(np.int32),
            f"{name}_mask": mask.astype(np.int32),
            f"{name}_encoder_outputs": torch.stack(result.hidden_states[1:]).numpy(),
            f"{name}_logits": result.logits.numpy(),
        }
        if types:
            arrays[f"{name}_type_ids"] = types["token_type_ids"].numpy().astype(np.int32)
    write("families", **arrays)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mlm-model", type=Path, help="directory of bert-tiny-mlm; left out, its file is not made")
    arguments = parser.parse_args()
    tiny_model()
    families()
    real_model("minilm", presets.resolve("all-MiniLM-L6-v2"), with_pooler=True, sentence_vectors=True)
    if arguments.mlm_model:
        real_model("bert-tiny-mlm", arguments.mlm_model, with_pooler=False, sentence_vectors=False)
