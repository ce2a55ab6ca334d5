"""Classes for messages of protocol buffers, made of a short list of their fields, without any generated module."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory


def make_classes(file_name: str, messages: Mapping[str, str], syntax: str = "proto3") -> dict[str, Any]:
    """Makes a class for each message, whose fields are written as `name:number:type`; enumerations are numbers.

    `*` marks a repeated field, `{}` a map from names, `=` begins a default, which only "proto2" has.
    """
    field_type = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"keras_bert/{file_name}.proto", package="keras_bert", syntax=syntax)
    for owner, fields in messages.items():
        descriptor = file.message_type.add(name=owner)
        for field in fields.split():
            name, number, kind = field.split(":")
            kind, _, default = kind.partition("=")
            entry = descriptor.field.add(name=name, number=int(number), label=field_type.LABEL_OPTIONAL)
            if default:
                entry.default_value = default
            if kind.endswith(("*", "{}")):
                entry.label = field_type.LABEL_REPEATED
            value = kind.rstrip("*{}")
            if kind.endswith("{}"):
                pair = descriptor.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
                pair.options.map_entry = True
                pair.field.add(name="key", number=1, label=1, type=field_type.TYPE_STRING)
                pair.field.add(name="value", number=2, label=1, type_name=f".keras_bert.{value}", type=11)
                value = f"{owner}.{pair.name}"
            if value[0].isupper():
                entry.type, entry.type_name = field_type.TYPE_MESSAGE, f".keras_bert.{value}"
            else:
                entry.type = getattr(field_type, f"TYPE_{value.upper()}")
    pool = descriptor_pool.DescriptorPool()  # not the default pool, where other libraries register these messages
    pool.AddSerializedFile(file.SerializeToString())
    find = pool.FindMessageTypeByName
    return {each: message_factory.GetMessageClass(find(f"keras_bert.{each}")) for each in messages}
