"""ONNX Runtime: exports with Keras's exporter (tf2onnx), and ONNX Runtime's own tools for float16 and int8."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_bert.engines.runtime import Inputs, Run, opening
from keras_bert.extras import import_extra
from keras_bert.runtime_table import RUNTIMES
from keras_bert.tensors import TRANSFORMERS_OUTPUTS

if TYPE_CHECKING:
    import numpy as np
    import onnx
    import tf2onnx
    from onnxscript import ir

    from keras_bert.runtimes.export import HeadModel, PackedModel

_OPSET = 18
_LARGEST = 2**31 - 2**20  # bytes of weights in `model.onnx`, a message of protobuf; more stand in `model.onnx_data`
# How long a thread without work waits in a loop before it sleeps. ONNX Runtime's default, about a millisecond, takes
# cores from the rest of a busy machine.
_SPIN = ("session.intra_op.spin_duration_us", "20")


def convert(packed: PackedModel | HeadModel, path: Path, float16: bool = False, int8: bool = False) -> None:
    import numpy as np

    onnx = import_extra("onnx", "onnx", "runtimes")
    for name in ("tf2onnx", "onnxscript"):
        import_extra(name, name, "runtimes")
    if float16 or int8:
        import_extra("onnxruntime", "onnxruntime", "runtimes")
    _add_operations()
    from onnxscript import ir

    from keras_bert.runtimes.export import WithWeightsAsInputs
    from keras_bert.runtimes.onnx_fusion import fuse

    open_model = WithWeightsAsInputs(packed)
    signature = open_model.signature()
    open_model.export(str(path), format="onnx", input_signature=signature, verbose=False, opset_version=_OPSET)
    graph = onnx.load(path)
    _name_axes_and_outputs(graph)
    model = fuse(graph, {name: np.asarray(each.value) for name, each in open_model.unseen.weights.items()})
    if float16:
        model = _to_float16(model)
    if int8:
        return _quantize(ir.to_proto(model), path)
    is_large = sum(each.const_value.nbytes for each in model.graph.initializers.values()) > _LARGEST
    ir.save(model, path, external_data=f"{path.name}_data" if is_large else None)


@functools.cache
def _add_operations() -> None:
    """Registers operations that ONNX lacks with tf2onnx: erfc, which TensorFlow's GELU uses, and log1p."""
    import numpy as np
    from tf2onnx import utils
    from tf2onnx.handler import tf_op

    @tf_op("Erfc")
    class Erfc:
        @classmethod
        def version_9(cls, graph: tf2onnx.graph.Graph, node: tf2onnx.graph.Node, **kwargs: Any) -> None:
            """Replaces `erfc(-x c)` by `1 + erf(x c)`, which `onnx_fusion.py` makes a GELU; others by `1 - erf(x)`."""
            dtype, shape = graph.get_dtype(node.output[0]), graph.get_shape(node.output[0])
            one = graph.make_const(utils.make_name("one"), np.array(1, np.float32)).output[0]
            name, operation, argument = node.output[0], "Sub", node.input[0]
            product = node.inputs[0]
            if product.type == "Mul" and product.inputs[0].type == "Neg" and product.inputs[1].is_const():
                operation = "Add"
                argument = graph.make_node("Mul", [product.inputs[0].input[0], product.input[1]]).output[0]
            erf = graph.make_node("Erf", [argument], dtypes=[dtype], shapes=[shape]).output[0]
            graph.remove_node(node.name)
            inputs = [erf, one] if operation == "Add" else [one, erf]
            graph.make_node(operation, inputs, outputs=[name], dtypes=[dtype], shapes=[shape])

    @tf_op("Log1p")
    class Log1p:
        @classmethod
        def version_7(cls, graph: tf2onnx.graph.Graph, node: tf2onnx.graph.Node, **kwargs: Any) -> None:
            """Replaces `log1p(x)` by `log(x + 1)`."""
            name, dtype, shape = node.output[0], graph.get_dtype(node.output[0]), graph.get_shape(node.output[0])
            one = graph.make_const(utils.make_name("one"), np.array(1, np.float32)).output[0]
            total = graph.make_node("Add", [node.input[0], one], dtypes=[dtype], shapes=[shape]).output[0]
            graph.remove_node(node.name)
            graph.make_node("Log", [total], outputs=[name], dtypes=[dtype], shapes=[shape])


def _name_axes_and_outputs(model: onnx.ModelProto) -> None:
    """Names the axes, and adds the second names of outputs."""
    from onnx import helper

    for value in (*model.graph.input, *model.graph.output):
        dims = value.type.tensor_type.shape.dim
        for axis, name in enumerate(("batch", "seq_length")[: len(dims)]):
            if not dims[axis].dim_value:
                dims[axis].dim_param = name
    outputs = {value.name: value for value in model.graph.output}
    for name, alias in TRANSFORMERS_OUTPUTS.items():
        if name in outputs:
            model.graph.node.append(helper.make_node("Identity", [name], [alias]))
            copy = type(outputs[name])()
            copy.CopyFrom(outputs[name])
            copy.name = alias
            model.graph.output.append(copy)


def _to_float16(model: ir.Model) -> ir.Model:
    """Makes weights and operators float16; inputs and outputs keep their types."""
    from onnxscript import ir

    float16 = import_extra("onnxruntime.transformers.float16", "onnxruntime", "runtimes")
    # The converter's own inference stops at 2 GB. The strict one fails at operators that are not ONNX's.
    ir.passes.common.ShapeInferencePass(check_type=False, strict_mode=False, data_prop=False)(model)
    proto = float16.convert_float_to_float16(ir.to_proto(model), keep_io_types=True, disable_shape_infer=True)
    return ir.from_proto(proto)


def _quantize(model: onnx.ModelProto, path: Path) -> None:
    """Quantizes weights to 7 bits, with a scale per column: with 8, sums overflow in processors without VNNI."""
    quantization = import_extra("onnxruntime.quantization", "onnxruntime", "runtimes")
    settings = {"per_channel": True, "reduce_range": True, "weight_type": quantization.QuantType.QInt8}
    quantization.quant_utils.add_pre_process_metadata(model)  # nothing is left to prepare
    float32 = {"DefaultTensorType": model.graph.output[0].type.tensor_type.elem_type}  # of ONNX Runtime's own operators
    quantization.quantize_dynamic(model, path, extra_options=float32, **settings)


def open(path: Path, threads: int | None = None) -> Run:
    import numpy as np

    onnxruntime = import_extra("onnxruntime", "onnxruntime", "runtimes")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or 0
    options.add_session_config_entry(*_SPIN)
    with opening(path, RUNTIMES["onnx"].title):
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    inputs = {each.name: {"tensor(float)": np.float32}.get(each.type, np.int64) for each in session.get_inputs()}
    outputs = [each.name for each in session.get_outputs()]

    def run(values: Inputs) -> dict[str, np.ndarray]:
        found = session.run(outputs, {name: np.asarray(values[name], dtype) for name, dtype in inputs.items()})
        return dict(zip(outputs, found, strict=True))

    return run
