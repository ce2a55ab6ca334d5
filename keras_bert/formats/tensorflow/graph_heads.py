"""Finds the classifier that a Keras 2 SavedModel has on its encoder, by following its graph. No operation is run.

The output of the model is followed back through calls of functions, dropout and reshaping. A classifier is a Dense
layer that reads `pooled_output`, or each token of `sequence_output`. Its activation is that of the graph.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from keras_bert.formats.tensorflow.messages import DTYPES

# Messages of TensorFlow, see `messages`.
Node: TypeAlias = Any
Function: TypeAlias = Any

_INTEGERS = {number for number, name in DTYPES.items() if name in ("int32", "int64")}
_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_PASSED = ("Identity", "StopGradient", "Transpose", "Reshape", "Squeeze")  # the last three are parts of Keras's Dense
_ACTIVATIONS = ("Elu", "Relu", "Sigmoid", "Softmax", "Tanh")
_MOST_STEPS, _MOST_LAYERS = 10_000, 100  # from an output to what computes it; more only in a graph that never ends


@dataclass(frozen=True)
class GraphHead:
    """A Dense layer on an encoder."""

    head: str  # "sequence" or "tokens"
    kernel: str  # the names of the variables
    bias: str
    activation: str | None  # the name of an operation
    row_length: int | None  # that of the preprocessor in front of the encoder; None: any, or there is none


def find_head(model: Any, pooler_kernel: str) -> GraphHead | str:
    """Finds the Dense of a model's only output, on the encoder of `pooler_kernel`; or says what else computes it."""
    try:
        return _find_head(model, pooler_kernel)
    except (IndexError, KeyError, UnicodeDecodeError) as error:
        return f"the graph is damaged ({error!r:.60})"


def _find_head(model: Any, pooler_kernel: str) -> GraphHead | str:
    graph = model.meta_graphs[0]
    signatures = {name: each for name, each in graph.signature_def.items() if each.outputs}
    signature = signatures.get("serving_default") or next(iter(signatures.values()), None)
    outputs = {} if signature is None else {name: each.name for name, each in signature.outputs.items()}
    if len(outputs) != 1:
        return f"the graph has the outputs {', '.join(sorted(outputs)) or '(none)'}, and only one can be a head"
    functions = {each.signature.name: each for each in graph.graph_def.library.function}
    frame = _Frame(_by_name(graph.graph_def.node), functions)
    chain = list(_dense_layers(_Tensor(frame, *outputs.values())))
    if not chain:
        return "the output is not that of a Dense layer"
    first, *others = chain
    if first.bias is None:
        return f"{first} has no bias"
    kind = None
    if others and (others[0].kernel, others[0].activation) == (pooler_kernel, "Tanh"):
        kind = "sequence"
    elif not others and first.source == _last_layer(first.source.frame, pooler_kernel):
        kind = "tokens"
    if kind is None:
        below = " <- ".join(str(layer) for layer in others if layer.kernel != pooler_kernel)
        reads = f"reads {below}" if below else "reads neither pooled_output nor each token of sequence_output"
        return f"{first} {reads}; a head is one Dense layer on the encoder"
    return GraphHead(kind, first.kernel, first.bias, first.activation, _row_length(first.frame.nodes.values()))


@dataclass(eq=False)
class _Frame:
    """A function while it is called."""

    nodes: Mapping[str, Node]
    functions: Mapping[str, Function]
    arguments: Mapping[str, _Tensor] = field(default_factory=dict)  # the tensors of its caller that it gets
    results: list[str] = field(default_factory=list)  # the tensors that it returns
    calls: dict[str, _Frame] = field(default_factory=dict)

    def called(self, node: Node) -> _Frame:
        """The frame of the function that a node calls, the same one each time."""
        if node.name not in self.calls:
            function = self.functions[node.attr["f"].func.name]
            names = (each.name for each in function.signature.input_arg)
            arguments = {name: _Tensor(self, tensor) for name, tensor in zip(names, node.input, strict=False)}
            outputs = {each.key: each.value for each in function.ret}
            results = [outputs[each.name] for each in function.signature.output_arg]
            self.calls[node.name] = _Frame(_by_name(function.node_def), self.functions, arguments, results)
        return self.calls[node.name]


def _by_name(nodes: Iterable[Node]) -> dict[str, Node]:
    return {node.name: node for node in nodes}


@dataclass(frozen=True)
class _Tensor:
    frame: _Frame
    name: str  # "node:output:0", in the main graph "node:0", or an argument

    @property
    def key(self) -> str:
        return self.name.split(":")[0]

    @property
    def op(self) -> str:
        """The operation that computes it; "" for an argument."""
        return self.frame.nodes[self.key].op if self.key in self.frame.nodes else ""

    def input(self, i: int) -> _Tensor:
        return _Tensor(self.frame, self.frame.nodes[self.key].input[i])

    def origin(self) -> _Tensor:
        """What computes its values: another tensor, through calls and operations that change no number."""
        tensor = self
        for _ in range(_MOST_STEPS):
            frame, ending = tensor.frame, tensor.name.rpartition(":")[2]
            if tensor.op in _CALLS and frame.nodes[tensor.key].attr["f"].func.name in frame.functions:
                frame = frame.called(frame.nodes[tensor.key])
                tensor = _Tensor(frame, frame.results[int(ending) if ending.isdecimal() else 0])
            elif tensor.op in _PASSED:
                tensor = tensor.input(0)
            elif not tensor.op and tensor.key in frame.arguments:
                tensor = frame.arguments[tensor.key]
            else:
                return tensor
        raise KeyError("it never ends")

    def variable(self) -> str | None:
        """The name of the variable whose value it is."""
        read = self.origin()
        handle = read.input(0).origin() if read.op == "ReadVariableOp" else read
        return handle.frame.nodes[handle.key].attr["shared_name"].s.decode() if handle.op == "VarHandleOp" else None


@dataclass(frozen=True)
class _Dense:
    kernel: str
    bias: str | None
    activation: str | None
    source: _Tensor
    frame: _Frame  # of the function that it is in

    def __str__(self) -> str:
        return f"the Dense layer {self.kernel.rpartition('/')[0]} ({self.activation or 'no activation'})"


def _dense(tensor: _Tensor) -> _Dense | None:
    """Recognizes `activation(x W + b)`, with or without b."""
    tensor, activation, bias = tensor.origin(), None, None
    if tensor.op in _ACTIVATIONS:
        activation, tensor = tensor.op, tensor.input(0).origin()
    if tensor.op in ("BiasAdd", "Add", "AddV2"):
        bias, tensor = tensor.input(1).variable(), tensor.input(0).origin()
    if tensor.op not in ("MatMul", "BatchMatMulV2", "Einsum"):
        return None
    kernel = tensor.input(1).variable()
    return None if kernel is None else _Dense(kernel, bias, activation, tensor.input(0).origin(), tensor.frame)


def _dense_layers(tensor: _Tensor) -> Iterator[_Dense]:
    """Lists the Dense layers that a tensor went through, the last one first."""
    layer = _dense(tensor)
    for _ in range(_MOST_LAYERS):
        if layer is None:
            return
        yield layer
        layer = _dense(layer.source)


def _last_layer(frame: _Frame, pooler_kernel: str) -> _Tensor | None:
    """Finds `sequence_output` among the nodes of a function: the pooler reads its first token."""
    for node in frame.nodes.values():
        layer = _dense(_Tensor(frame, f"{node.name}:0")) if node.op in ("BiasAdd", "AddV2") else None
        if layer is not None and layer.kernel == pooler_kernel:
            first = layer.source
            return first.input(0).origin() if first.op == "StridedSlice" else None
    return None


def _row_length(nodes: Iterable[Node]) -> int | None:
    """Finds the length of the rows of a preprocessor among nodes: a call that returns three matrices of integers."""
    for node in (each for each in nodes if each.op in _CALLS):
        shapes = [tuple(dim.size for dim in shape.dim) for shape in node.attr["_output_shapes"].list.shape]
        if {*node.attr["Tout"].list.type} <= _INTEGERS and len(shapes) == 3 and len({*shapes}) == 1:
            return shapes[0][1] if len(shapes[0]) == 2 and shapes[0][1] > 0 else None
    return None
