"""The messages of TensorFlow's files, with the fields that are read here. It needs protobuf, but no TensorFlow.

Importing `tensorflow.core...` would run TensorFlow itself, which takes seconds.
"""

from __future__ import annotations

import functools
from typing import Any

from google.protobuf import message

from keras_bert.formats.protocol_buffers import make_classes

_MESSAGES = {
    # tensorflow/core/protobuf/saved_model.proto, meta_graph.proto
    "SavedModel": "meta_graphs:2:MetaGraph*",
    "MetaGraph": "meta_info_def:1:MetaInfo graph_def:2:Graph signature_def:5:Signature{} object_graph_def:7:Objects",
    "MetaInfo": "tags:4:string* tensorflow_version:5:string",
    "Signature": "inputs:1:TensorInfo{} outputs:2:TensorInfo{}",
    "TensorInfo": "name:1:string dtype:2:int32 tensor_shape:3:Shape",
    # tensorflow/core/framework/graph.proto, node_def.proto, attr_value.proto, function.proto, tensor_shape.proto
    "Graph": "node:1:Node* library:2:Library",
    "Node": "name:1:string op:2:string input:3:string* attr:5:Attribute{}",
    "Attribute": "list:1:Attributes s:2:bytes type:6:int32 func:10:Call",
    "Attributes": "type:6:int32* shape:7:Shape*",
    "Call": "name:1:string",
    "Operation": "name:1:string input_arg:2:Call* output_arg:3:Call*",
    "Pair": "key:1:string value:2:string",
    "Library": "function:1:Function*",
    "Function": "signature:1:Operation node_def:3:Node* ret:4:Pair*",
    "Shape": "dim:2:Dimension* unknown_rank:3:bool",
    "Dimension": "size:1:int64",
    # tensorflow/core/protobuf/saved_object_graph.proto
    "Objects": "nodes:1:Object* concrete_functions:2:Concrete{}",
    "Object": "children:1:Child* user_object:4:UserObject variable:7:Variable",
    "Child": "node_id:1:int32 local_name:2:string",
    "UserObject": "identifier:1:string metadata:3:string",
    "Variable": "dtype:1:int32 name:6:string",
    "Concrete": "bound_inputs:2:int32*",
    # tensorflow/core/protobuf/trackable_object_graph.proto
    "TrackableObjects": "nodes:1:Trackable*",
    "Trackable": "children:1:Child* attributes:2:Value* slot_variables:3:Slot*",
    "Value": "name:1:string full_name:2:string checkpoint_key:3:string",
    "Slot": "original_variable_node_id:1:int32 slot_name:2:string slot_variable_node_id:3:int32",
    # keras/protobuf/saved_metadata.proto, of Keras 2
    "KerasMetadata": "nodes:1:KerasNode*",
    "KerasNode": "metadata:5:string",
    # tensorflow/core/protobuf/tensor_bundle.proto
    "BundleHeader": "num_shards:1:int32",
    "BundleEntry": "dtype:1:int32 shape:2:Shape shard_id:3:int32 offset:4:int64 size:5:int64 crc32c:6:fixed32",
}
# The numbers of types, tensorflow/core/framework/types.proto.
DTYPES = {
    1: "float32", 2: "float64", 3: "int32", 4: "uint8", 6: "int8", 7: "string", 9: "int64", 10: "bool", 14: "bfloat16",
    19: "float16", 20: "resource", 21: "variant",
}  # fmt: skip
STRING, BOOL, BFLOAT16 = 7, 10, 14


_classes = functools.cache(lambda: make_classes("tensorflow", _MESSAGES))


def parse(name: str, content: bytes) -> Any:
    """Parses a message of this name. Raises ValueError if it is damaged."""
    try:
        return _classes()[name].FromString(content)
    except message.DecodeError as error:
        raise ValueError(str(error)) from None
