"""The table of runtimes, a row each. Whatever lists runtimes reads it; it needs no TensorFlow."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from keras_bert import precisions
from keras_bert.counted import either
from keras_bert.extras import needing_tensorflow_text
from keras_bert.tensors import TRANSFORMERS_INPUTS

if TYPE_CHECKING:
    from keras_bert.engines.runtime import Run
    from keras_bert.runtimes.comparison import Difference
    from keras_bert.runtimes.export import HeadModel, PackedModel


class Runtime(NamedTuple):
    """A runtime to export to, and to load from."""

    name: str  # of its command, and of its file in `keras_bert/runtimes/`, which has `convert` and `open`
    title: str  # in messages
    package: str  # what runs it, on PyPI; the name of its module, too, with underscores
    users: str  # programs that run it, as the command's help says
    file: str  # the model's path in the directory
    files: tuple[str, ...]  # patterns of the paths that a new model replaces
    refused: Mapping[str, str]  # precision that it does not have, but users ask for -> why not
    # Python for the README, whose first line imports the runtime. It reads `inputs`, a dict of lists by name, and sets
    # `outputs`, a dict of arrays by name.
    program: str
    # The path of the small graph beside some models, from outputs of theirs to answers; None: it has none.
    head: str | None = None
    # How a model of another program is recognized: by patterns of a directory's files, of a file's name, by its bytes.
    in_directory: tuple[str, ...] = ()
    named: tuple[str, ...] = ()
    begins: Callable[[bytes], bool] = lambda beginning: False
    names: Mapping[str, str] = TRANSFORMERS_INPUTS  # TF Hub's name of an input -> the runtime's
    ids_dtype: str = "int64"  # of the inputs, or "int32"
    only_answers: bool = False  # whether to leave out outputs that others are computed from
    can_load: bool = True  # whether `load` opens its exports
    has_fixed_length: bool = False  # whether its function takes `sequence_length`

    @property
    def precisions(self) -> list[str]:
        """The precisions in which it stores weights: float32, and the keywords of `convert` in its file."""
        keywords = inspect.signature(self._module.convert).parameters
        return [name for name in precisions.EXPORTS if name == "float32" or name in keywords]

    def convert(self, model: PackedModel | HeadModel, path: Path, precision: str) -> None:
        """Writes a model to a path in one of its precisions."""
        below_float32 = {} if precision == "float32" else {precision: True}
        self._module.convert(model, path, **below_float32)

    def export(self, *arguments: Any, **settings: Any) -> list[Difference]:
        """Exports a model, as its function `keras_bert.runtimes.export_...` says."""
        with needing_tensorflow_text(f"export_{self.name}"):
            write = importlib.import_module("keras_bert.runtimes.export").write
        return write(self, *arguments, **settings)

    def open(self, path: Path, threads: int | None = None) -> Run:
        """Opens a file on the CPU, and returns a function from inputs to outputs, both by the runtime's names."""
        # If the runtime can load exports, several threads may call the function at once. One call computes on `threads`
        # threads, by default on as many as the runtime chooses, which are the processor's cores. Raises ImportError if
        # the runtime is not installed, ValueError if the file is damaged or `threads` is below 1.
        if threads is not None and threads < 1:
            raise ValueError(f"threads is {threads}; expected at least 1, or None for all cores")
        return self._module.open(path, threads)

    @property
    def _module(self) -> Any:
        return importlib.import_module(f"keras_bert.runtimes.{self.name}")


_ONNX = Runtime(
    name="onnx",
    title="ONNX Runtime",
    package="onnxruntime",
    users="ONNX Runtime, sentence-transformers and optimum",
    file="onnx/model.onnx",
    files=("onnx/*.onnx", "onnx/*.onnx_data"),
    refused={"bfloat16": "ONNX Runtime does not support bfloat16 on CPUs"},
    program="""\
import onnxruntime
session = onnxruntime.InferenceSession("onnx/model.onnx")
names = [output.name for output in session.get_outputs()]
outputs = dict(zip(names, session.run(names, {name: np.array(each) for name, each in inputs.items()})))""",
    head="onnx/head.onnx",
    in_directory=("*.onnx", "onnx/*.onnx"),
    named=("*.onnx",),
)
_OPENVINO = Runtime(
    name="openvino",
    title="OpenVINO",
    package="openvino",
    users="OpenVINO, sentence-transformers and optimum",
    file="openvino/openvino_model.xml",
    files=("openvino/*.xml", "openvino/*.bin"),
    refused={"bfloat16": "OpenVINO uses bfloat16 by itself if the processor can"},
    program="""\
import openvino
model = openvino.compile_model("openvino/openvino_model.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
found = model({name: np.array(each) for name, each in inputs.items()})
outputs = {name: found[output] for output in model.outputs for name in output.get_names()}""",
    head="openvino/openvino_head.xml",
    in_directory=("openvino_model.xml", "openvino/*.xml"),
    named=("*openvino_model.xml", "*openvino_model.bin"),
)
_LITERT = Runtime(
    name="litert",
    title="LiteRT",
    package="ai-edge-litert",
    users="LiteRT (TensorFlow Lite) and MediaPipe",
    file="model.tflite",
    files=("model.tflite",),
    names={name: name for name in TRANSFORMERS_INPUTS},
    ids_dtype="int32",
    refused={"bfloat16": "LiteRT does not support bfloat16"},
    program="""\
from ai_edge_litert.interpreter import Interpreter
run = Interpreter("model.tflite").get_signature_runner()
found = [run(**{name: np.array([each[i]], np.int32) for name, each in inputs.items()}) for i in range(len(texts))]
outputs = {name: np.concatenate([each[name] for each in found]) for name in found[0]}""",
    begins=lambda beginning: beginning[3:8] == b"\0TFL3",
    only_answers=True,
    can_load=False,
    has_fixed_length=True,
)
RUNTIMES = {each.name: each for each in (_ONNX, _OPENVINO, _LITERT)}
LOADABLE = [each for each in RUNTIMES.values() if each.can_load]
LOADABLE_TITLES = either(each.title for each in LOADABLE)
