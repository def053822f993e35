"""Functions back into the library of a GraphDef, and names for edited ones.

Those that nobody changed are written as they were read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from thinflow.errors import GraphError
from thinflow.formats._attrs import encode_attr
from thinflow.formats._functions import BodyRecord
from thinflow.ir.attrs import PlaceholderAttr
from thinflow.ir.function import ARGUMENT, Edited, Function, Selection, changes, edited_name
from thinflow.ir.graph import Node, Value
from thinflow.ir.ports import OutputArg, output_args, place_of
from thinflow.ir.types import DType
from thinflow.wire import protos


def library_bytes(raw: bytes, functions: Mapping[str, Function]) -> tuple[bytes, dict[str, str]]:
    """The `library` field of a GraphDef, tag included, as it is to be written; new names in it by old ones.

    Functions that were edited after they were read get another name; see `_function_names`.

    Args:
        raw: the field as it was read; empty if there was none.
        functions: those wanted.

    Raises:
        GraphError: a changed function cannot be expressed.
    """
    # Nobody touched the library: its bytes go out as they came, unknown fields and order included.
    if getattr(functions, "is_stored", False):
        return raw, {}
    stored = protos.parse("GraphDef", raw).library
    originals = {message.signature.name: message for message in stored.function}
    changed = changes(functions)
    outputs = {name: _declared_outputs(function) for name, function in changed.items()}
    # What was changed is told last, so that it wins over what was read.
    outputs = {**{name: _outputs_of(m.signature) for name, m in originals.items()}, **outputs}
    written = {
        name: _FunctionWriter(f, outputs).message() for name, f in changed.items() if name in functions
    }
    messages = {name: written[name] if name in written else originals[name] for name in functions}
    edited = [name for name, message in written.items() if message != originals.get(name)]
    names = new_names(messages, edited if isinstance(functions, Edited | Selection) else ())
    result = protos.message("GraphDef")()
    for message in messages.values():
        result.library.function.append(message)
        if names:
            rename_in_function(result.library.function[-1], names)
    _write_gradients(stored, functions, names, result.library)
    return (protos.serialize(result) if result.library.function else b""), names


def _write_gradients(
    stored: Any, functions: Mapping[str, Function], names: Mapping[str, str], library: Any
) -> None:
    """Write the pairs of function and gradient of which both are still there."""
    for pair in stored.gradient:
        if pair.function_name in functions and pair.gradient_func in functions:
            library.gradient.append(pair)
            kept = library.gradient[-1]
            kept.function_name = names.get(pair.function_name, pair.function_name)
            kept.gradient_func = names.get(pair.gradient_func, pair.gradient_func)
    for registered in stored.registered_gradients:
        if registered.gradient_func in functions:
            library.registered_gradients.append(registered)
            kept = library.registered_gradients[-1]
            kept.gradient_func = names.get(registered.gradient_func, registered.gradient_func)


def _outputs_of(signature: Any) -> tuple[OutputArg, ...]:
    return tuple(OutputArg(a.name, a.number_attr or a.type_list_attr) for a in signature.output_arg)


def _declared_outputs(function: Function) -> tuple[OutputArg, ...]:
    if function.source is not None:
        return _outputs_of(function.source.signature)  # type: ignore[attr-defined]
    return tuple(OutputArg(f"output_{i}") for i in range(len(function.outputs)))


def _forget_shape(result: Any, index: int) -> None:
    """Drop what a FunctionDef says of the shape of an argument that is of another type now."""
    if "_input_shapes" in result.attr:
        del result.attr["_input_shapes"]
    if index in result.arg_attr and "_output_shapes" in result.arg_attr[index].attr:
        del result.arg_attr[index].attr["_output_shapes"]


class _FunctionWriter:
    """One changed function on its way into a FunctionDef.

    Args:
        function: the function.
        outputs: what each function of the library calls its results, for calls by the function's name.
    """

    def __init__(self, function: Function, outputs: Mapping[str, tuple[OutputArg, ...]]) -> None:
        self._function = function
        self._outputs = outputs

    def message(self) -> Any:
        """The FunctionDef; what the one it was read from says besides is kept.

        Raises:
            GraphError: an input refers to a port that its op does not have.
        """
        function = self._function
        result = protos.message("FunctionDef")()
        if function.source is not None:
            result.CopyFrom(function.source)
        result.signature.name = function.name
        self._write_arguments(result)
        for key, attr in function.attrs.items():
            if key not in result.attr:
                encode_attr(attr, result.attr[key])
        del result.node_def[:]
        for node in function.graph:
            if node.op != ARGUMENT:
                self._write_node(node, result.node_def.add())
        results = self._write_results(result)
        result.ret.clear()
        result.ret.update(results)
        self._write_control_results(result)
        return result

    def _write_arguments(self, result: Any) -> None:
        signature = result.signature
        # What is said of arguments goes by their number, and would be said of others now.
        if len(signature.input_arg) != len(self._function.inputs):
            del signature.input_arg[:]
            result.arg_attr.clear()
            result.resource_arg_unique_id.clear()
            for _ in self._function.inputs:
                signature.input_arg.add()
        for index, (arg, value) in enumerate(zip(signature.input_arg, self._function.inputs, strict=True)):
            arg.name = value.node.name
            element = value.node.attrs.get("T")
            if isinstance(element, PlaceholderAttr):
                arg.type_attr = element.name
            elif isinstance(element, DType) and arg.type != element.number:
                arg.type = element.number
                arg.ClearField("handle_data")
                _forget_shape(result, index)

    def _write_results(self, result: Any) -> dict[str, str]:
        """The declarations of the results; what each is, by its name."""
        signature, function = result.signature, self._function
        if len(signature.output_arg) != len(function.outputs):
            del signature.output_arg[:]
            for i in range(len(function.outputs)):
                signature.output_arg.add(name=f"output_{i}")
        # Filled up with None, which leaves the declared type alone.
        types = [*function.output_types, *[None] * len(function.outputs)]
        for arg, element in zip(signature.output_arg, types, strict=False):
            if element is not None and arg.type != element.number:
                arg.type = element.number
                arg.ClearField("handle_data")
        return {
            arg.name: self._reference(value)
            for arg, value in zip(signature.output_arg, function.outputs, strict=True)
        }

    def _write_control_results(self, result: Any) -> None:
        effects = {node.name for node in self._function.control_outputs}
        before = {key: name for key, name in result.control_ret.items() if name in effects}
        after = before | {name: name for name in effects - set(before.values())}
        result.control_ret.clear()
        result.control_ret.update(after)
        del result.signature.control_output[:]
        result.signature.control_output.extend(sorted(after))

    def _write_node(self, node: Node, message: Any) -> None:
        record = node.source if isinstance(node.source, BodyRecord) else None
        if record is not None:
            message.CopyFrom(record.message)
        message.name, message.op, message.device = node.name, node.op, node.device
        del message.input[:]
        message.input.extend(self._reference(value) for value in node.inputs)
        message.input.extend(f"^{n.name}" for n in node.control_inputs)
        loaded = record.attrs() if record is not None else {}
        for key in [k for k in message.attr if k not in node.attrs]:
            del message.attr[key]
        for key, attr in node.attrs.items():
            # The very object that was decoded: its message is in place, with
            # whatever we could not decode of it.
            if key in loaded and loaded[key] is attr:
                continue
            message.attr[key].Clear()
            content = encode_attr(attr, message.attr[key])
            if content is not None:
                # A function's body is one protobuf message; its tensors cannot be
                # streamed as those of the graph are.
                message.attr[key].tensor.tensor_content = bytes(content)

    def _reference(self, value: Value) -> str:
        """A value as a body spells it: `argument`, or `node:output:index`."""
        node = value.node
        if node.op == ARGUMENT:
            return node.name
        args = self._outputs.get(node.op) or output_args(node.op)
        try:
            output, index = place_of(args, node.attrs, node.op, value.port)
        except GraphError as error:
            raise error.at(node.where) from error
        return f"{node.name}:{output}:{index}"


# --- names for functions that were edited -------------------------------------------------------------------
#
# Another body under the old name would clash in one process: TensorFlow 2 keeps the functions of all graphs
# that a process imports in one library, and refuses a second one of a name whose body differs. So the model
# as it came and what was made of it could not be imported together.


_LINKS = ("forward_function_name", "backward_function_name")
"""Attributes of a function that name another one as text."""


def new_names(messages: Mapping[str, Any], edited: Collection[str]) -> dict[str, str]:
    """Old name -> new one, of the functions that were edited and of those that mention them.

    Args:
        messages: the FunctionDef of every function, by its old name.
        edited: those whose body is another one by now.

    Returns:
        Names that end in what depends on all edited bodies, and on nothing else.
    """
    if not edited:
        return {}
    # Of all edited bodies together: the same edit gives the same names again, so that
    # writing twice gives equal files.
    digest = hashlib.blake2b(digest_size=4)
    for name in sorted(edited):
        digest.update(messages[name].SerializeToString(deterministic=True))
    concerned = set(edited)
    callers = {name: set(_mentioned(message)) for name, message in messages.items() if name not in edited}
    # Those who call a renamed function have another body now, too, and so have their callers.
    while more := {name for name, called in callers.items() if name not in concerned and called & concerned}:
        concerned |= more
    return {name: edited_name(name, digest.hexdigest()) for name in concerned}


def rename_in_function(message: Any, names: Mapping[str, str]) -> None:
    """Put new names into a FunctionDef: its own, and those of the functions that it mentions."""
    message.signature.name = names.get(message.signature.name, message.signature.name)
    for node in message.node_def:
        rename_in_node(node, names)
    for key in _LINKS:
        if key in message.attr:
            text = message.attr[key].s.decode("utf-8", "replace")
            message.attr[key].s = names.get(text, text).encode()


def rename_in_node(message: Any, names: Mapping[str, str]) -> None:
    """Put new names into a NodeDef that calls or mentions functions."""
    message.op = names.get(message.op, message.op)
    for called in _called(message.attr):
        called.name = names.get(called.name, called.name)


def _mentioned(message: Any) -> Iterator[str]:
    for node in message.node_def:
        yield node.op
        yield from (called.name for called in _called(node.attr))
    yield from (message.attr[key].s.decode("utf-8", "replace") for key in _LINKS if key in message.attr)


def _called(attrs: Mapping[str, Any]) -> Iterator[Any]:
    """The NameAttrList messages in attributes, those in their own attributes included."""
    for attr in attrs.values():
        kind = attr.WhichOneof("value")
        for called in [attr.func] if kind == "func" else attr.list.func if kind == "list" else ():
            yield called
            yield from _called(called.attr)
