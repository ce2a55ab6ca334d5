"""all-MiniLM-L6-v2 as ONNX files, for the benchmarks that compare with ONNX Runtime and OpenVINO."""

import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from _measure import MINILM

from keras_bert import presets

LONGEST = 256  # tokens; what the model is meant for
Run = Callable[[dict[str, np.ndarray]], np.ndarray]  # ONNX inputs -> hidden states
_FOLDER = tempfile.TemporaryDirectory()  # removed when the process ends


def tokenizer():
    """Hugging Face's, without padding."""
    import tokenizers

    found = tokenizers.Tokenizer.from_file(str(presets.resolve(MINILM) / "tokenizer.json"))
    found.no_padding()
    found.enable_truncation(LONGEST)
    return found


def inputs(rows: list[list[int]]) -> dict[str, np.ndarray]:
    """Ids of texts, padded, as ONNX inputs."""
    lengths = np.array([len(row) for row in rows])
    mask = (np.arange(lengths.max()) < lengths[:, None]).astype(np.int64)  # [batch, seq_length]
    ids = np.zeros_like(mask)
    ids[mask.astype(bool)] = np.concatenate(rows)
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}


def vectors(run: Run, rows: list[list[int]]) -> np.ndarray:
    """Ids of texts -> float32 [texts, hidden], of length 1."""
    given = inputs(rows)
    sums = np.einsum("bsh,bs->bh", run(given), given["attention_mask"].astype(np.float32))
    return sums / np.linalg.norm(sums, axis=1, keepdims=True)


def session(path: Path | str, threads: int = 0) -> Run:
    """A file in ONNX Runtime."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    run = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"]).run
    return lambda given: run(None, given)[0]


def onnx_model() -> Path:
    """The model as an ONNX file, in float32, with batch and length left open."""
    path = Path(_FOLDER.name) / "model.onnx"
    if path.exists():
        return path
    import torch
    from transformers import AutoModel

    class HiddenStates(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.bert = AutoModel.from_pretrained(presets.resolve(MINILM), attn_implementation="eager").eval()

        def forward(self, input_ids, attention_mask, token_type_ids):
            return self.bert(input_ids, attention_mask, token_type_ids).last_hidden_state

    names = ["input_ids", "attention_mask", "token_type_ids"]
    ids = torch.ones(2, 8, dtype=torch.long)
    axes = {name: {0: "batch", 1: "seq_length"} for name in (*names, "hidden")}
    # The exporter that ONNX Runtime's optimizer knows the output of.
    torch.onnx.export(
        HiddenStates(), (ids, ids, 0 * ids), path, input_names=names, output_names=["hidden"], dynamic_axes=axes,
        opset_version=17, dynamo=False,
    )  # fmt: skip
    return path


def onnx_fused() -> Path:
    """The model with ONNX Runtime's own fused operators."""
    from onnxruntime.transformers import optimizer

    plain = onnx_model()
    fused = plain.with_name("fused.onnx")
    optimizer.optimize_model(str(plain), "bert", num_heads=12, hidden_size=384, opt_level=1).save_model_to_file(fused)
    return fused


def onnx_int8(fused: bool = True) -> Path:
    """In int8, with a scale for each column; ranges of activations are found in each call."""
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    path = Path(_FOLDER.name) / f"int8-{fused}.onnx"
    model = onnx_fused() if fused else onnx_model()
    float32 = {"DefaultTensorType": onnx.TensorProto.FLOAT}  # of the outputs of its own operators
    quantize_dynamic(model, path, per_channel=True, weight_type=QuantType.QInt8, extra_options=float32)
    return path
