"""A file of another vocabulary as transforms can look at it: its own nodes, in TensorFlow's words where one
op says the same.

A translation has ops that nobody wrote: transposes around a convolution, arithmetic of eight bits. Here an op
that becomes exactly one of TensorFlow's, reading the same values, stands as that one under its own name;
every other stays what it is in the file, and no transform sees through it. So what a transform changes is the
file's.
"""

from __future__ import annotations

from thinflow.analysis.foreign import UNREAD, is_foreign, is_known
from thinflow.analysis.shapes import constant_spec
from thinflow.errors import GraphError
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.types import dtype

_STATEFUL = ("RANDOM", "MULTINOMIAL", "BERNOULLI", "DROPOUT", "VAR", "HASHTABLE", "CALL_ONCE")
"""Parts of the names of ops, in capitals, that may give something else each time."""
_STORED = ("DEQUANTIZE", "QUANTIZE", "DENSIFY", "DEQUANTIZELINEAR", "QUANTIZELINEAR")
"""Ops by which files store weights small: that they read constants is what they are for."""


def is_storage(op: str) -> bool:
    """True for an op by which a file of a runtime unpacks its weights."""
    return is_foreign(op) and op.rpartition(".")[2].upper() in _STORED


def may_merge(op: str) -> bool:
    """True for an op of another vocabulary that gives the same whenever it reads the same."""
    return is_known(op) and op not in UNREAD and not any(word in op.upper() for word in _STATEFUL)


def in_own_ops(file: Graph, translation: Graph) -> Graph:
    """A copy of a file's graph with TensorFlow's ops where one says what one of the file does.

    Args:
        file: in its own vocabulary, with shapes as far as they are known.
        translation: the same in TensorFlow's ops, names kept.
    """
    view = file.clone()
    if translation.vocabulary:  # there is none
        return view
    values = _counterparts(view, translation)
    own = {theirs: ours for ours, theirs in values.items()}
    made = {node.name for node in translation if node.tensor is None}
    names = {node.name for node in view}
    spelled_out = {beginning(name, names) for name in made - names}
    for node in view:
        theirs = values.get(node.output()) if is_foreign(node.op) and node.outputs else None
        if theirs is None or len(node.outputs) != 1 or node.name in spelled_out or is_storage(node.op):
            _state(node, values)
        elif theirs.name == node.name and theirs.node.tensor is None:
            _say(view, node, theirs.node, own)
    return view


def _counterparts(view: Graph, translation: Graph) -> dict[Value, Value]:
    """Values of the file and those of the translation by the same names."""
    found: dict[Value, Value] = {}
    for node in view:
        for value in node.outputs:
            try:
                found[value] = translation.value(translation.aliases.get(value.name, value.name))
            except GraphError:  # what no output needs is not translated
                continue
    return found


def beginning(name: str, names: set[str]) -> str:
    """The node of the file that a node of the translation was made for; "" if its name does not tell."""
    while name and name not in names:
        name = name.rpartition("/")[0]
    return name


def _say(view: Graph, node: Node, theirs: Node, ours: dict[Value, Value]) -> None:
    """Let a node be what it is in the translation, if it reads nothing else there."""
    inputs: list[Value] = []
    for value in theirs.inputs:
        own = ours.get(value)
        if value.node.tensor is not None and (own is None or own.dtype != value.dtype):
            own = view.add(
                "Const", [], view.unique_name(value.node.name), attrs=dict(value.node.attrs), before=node
            ).output()
            own.spec = constant_spec(value.node.tensor)
        if own is None:
            return
        inputs.append(own)
    read = {v for v in node.inputs if v.node.tensor is None}
    if {v for v in inputs if v.node.tensor is None} != read:
        return
    spec = theirs.output().spec
    node.op = theirs.op
    node.set_inputs(inputs)
    for key in list(node.attrs):
        del node.attrs[key]
    node.attrs.update(theirs.attrs)
    node.output().spec = spec


def _state(node: Node, values: dict[Value, Value]) -> None:
    """Let a node of the file state the shapes that the translation knows."""
    specs = [values[v].spec if v in values else v.spec for v in node.outputs]
    if is_foreign(node.op) and specs:
        node.attrs["_output_shapes"] = tuple(ShapeAttr(spec.shape) for spec in specs)
        node.attrs["_output_types"] = tuple(spec.dtype or dtype(0) for spec in specs)
        for value, spec in zip(node.outputs, specs, strict=True):
            value.spec = spec


def constant_behind(value: Value) -> Node | None:
    """The constant of a file that a value is, as it is or unpacked; None if it is computed."""
    node = value.node
    while is_storage(node.op) and node.inputs:
        node = node.inputs[0].node
    return node if node.tensor is not None else None
