"""Types, shapes and costs of ops in other vocabularies than TensorFlow's (`tfl.CONV_2D`, `onnx.Conv`).

Files in those vocabularies state the shape of most values; what they leave open is worked out where an op's
rule is known, and an open batch follows the batch that the inputs are given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

# Imported for the rules that it registers.
from thinflow.analysis import aten_costs, coreml_costs, onnx_shapes  # noqa: F401
from thinflow.analysis.foreign_rules import COSTS, FREE, SHAPES, TYPES, type_of
from thinflow.errors import UnsupportedOp
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Node
from thinflow.ir.types import DType, TensorSpec
from thinflow.ir.vocabulary import ATEN, PREFIXES, TFL_CUSTOM
from thinflow.ops.registry import RULE_ERRORS, Cost
from thinflow.ops.traits import Trait, has

T = TypeVar("T")
UNREAD = frozenset({"tfl.variable", "tfl.constant", "onnx.sparse_constant"})
"""Not ops: tensors that have no other place in a graph."""
ACTING = frozenset({"tfl.CALL_ONCE", "tfl.ASSIGN_VARIABLE"})
"""Variables are written without being read: these work by what they do, not by what they give."""


def is_foreign(op: str) -> bool:
    """True if an op belongs to another vocabulary."""
    return op.startswith(PREFIXES)


def is_known(op: str) -> bool:
    """True if an op of another vocabulary belongs to its standard sets, not to an extension."""
    # A domain has dots in its name; an operator code that LiteRT's schema does not
    # name is BUILTIN_ and a number.
    name = op.partition(".")[2].removeprefix("ai.onnx.ml.")  # ONNX's own set for machine learning
    if op.startswith(ATEN.prefix):  # ATen's overloads stand behind a dot
        return not name.startswith("torch.ops.")
    return is_foreign(op) and "." not in name and not name.startswith("BUILTIN_")


def is_counted(op: str) -> bool:
    """True if what an op of another vocabulary costs can be told, or why not."""
    return is_known(op) or op in COSTS


def is_in_runtime(op: str) -> bool:
    """True if the runtime of an op's files has it as it is installed: its standard sets, and its own."""
    if op.startswith(TFL_CUSTOM):
        return has(op.removeprefix(TFL_CUSTOM), Trait.LITERT_CUSTOM)
    return is_known(op) or (op.startswith("onnx.com.microsoft.") and not is_of_extensions(op))


def is_of_extensions(op: str) -> bool:
    """True if an op is one of onnxruntime-extensions: tokenizers, and decoders of pictures and sound."""
    return op.startswith(("onnx.ai.onnx.contrib.", "onnx.com.microsoft.extensions."))


def operands(node: Node, inputs: Sequence[T]) -> list[T | None]:
    """A node's inputs, or what goes with them, by positions of the op's definition; None for absent ones."""
    absent = node.attrs_view.get("absent_inputs")
    missing = set(absent) if isinstance(absent, tuple) else set()
    left = iter(inputs)
    # The attribute counts places of the op's definition, absent ones included.
    return [None if i in missing else next(left, None) for i in range(len(inputs) + len(missing))]


def infer(node: Node, specs: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    """Specs of a node's outputs: what the file states, and what follows from the inputs."""
    results = stated(node)
    batch = _given_batch(node, specs)
    if batch is not None:
        results = tuple(_with_batch(s, batch) for s in results)
    # Rules are for the first output; further ones, such as masks and states, keep what the file states.
    if results and not results[0].is_static:
        results = (_worked_out(node, specs, results[0]), *results[1:])
    return results


def stated(node: Node) -> tuple[TensorSpec, ...]:
    """Specs that the file states of a node's outputs."""
    attrs = node.attrs_view
    shapes, types = attrs.get("_output_shapes"), attrs.get("_output_types")
    if not isinstance(shapes, tuple) or not isinstance(types, tuple):
        return ()
    return tuple(
        TensorSpec(t if isinstance(t, DType) and t.number else None, s.dims)
        for t, s in zip(types, shapes, strict=False)
        if isinstance(s, ShapeAttr)
    )


def _given_batch(node: Node, specs: Sequence[TensorSpec]) -> int | None:
    """The batch that an input has by now, where the file leaves it open."""
    for value, spec in zip(node.inputs, specs, strict=False):
        source = value.node
        declared = source.get("shape") if source.op == "Placeholder" else None
        if is_foreign(source.op):
            declared = next((s.shape for s in stated(source)[value.port : value.port + 1]), None)
        is_open = isinstance(declared, tuple) and declared[:1] == (None,)
        # Open in the file and known by now: somebody gave the batch.
        if is_open and spec.shape and spec.shape[0] is not None:
            return spec.shape[0]
    return None


def _with_batch(spec: TensorSpec, batch: int) -> TensorSpec:
    if spec.shape and spec.shape[0] is None:
        return spec.with_shape((batch, *spec.shape[1:]))
    return spec


def _worked_out(node: Node, specs: Sequence[TensorSpec], known: TensorSpec) -> TensorSpec:
    """The first output's spec with what its op's rules add."""
    rule = SHAPES.get(node.op)
    if rule is None:
        return known
    xs, attrs = operands(node, specs), node.attrs
    try:
        shape = rule(xs, attrs)
    except RULE_ERRORS:  # sizes that are not known, or do not fit: the runtime will say so
        shape = None
    try:
        element = known.dtype or TYPES.get(node.op, type_of(0))(xs, attrs)
    except RULE_ERRORS:
        element = None
    if known.shape is not None and shape is not None and len(shape) == len(known.shape):
        shape = tuple(a if a is not None else b for a, b in zip(known.shape, shape, strict=True))
    return TensorSpec(element, known.shape if shape is None else shape)


def cost(node: Node, outputs: Sequence[TensorSpec], specs: Sequence[TensorSpec]) -> Cost | None:
    """Operations of one run; None where sizes are missing.

    An op without a rule counts one operation per output element, as TensorFlow's do.
    """
    if node.op in UNREAD or node.op in FREE or not outputs:
        return Cost()
    rule = COSTS.get(node.op)
    if not all(s.is_static for s in (outputs[:1] if rule is None else (*outputs[:1], *specs))):
        return None
    if rule is None:
        return Cost(flops=sum(s.size or 0 for s in outputs))
    return rule(outputs[0], operands(node, specs), node.attrs)


NEWEST_OPSET = 28
"""The newest version of ONNX's op set whose changes the rules know, that of ONNX 1.23."""
_NEWEST_OF = {"ai.onnx.ml": 5, "com.microsoft": 1}
"""The same of other domains."""


def require_known_opset(facts: Mapping[str, str]) -> None:
    """Refuse a model whose ops may mean something that is not known here.

    Raises:
        UnsupportedOp: names the version that it asks for.
    """
    entries = (entry.strip() for entry in facts.get("opset", "").split(","))
    version = next((int(entry) for entry in entries if entry.isdecimal()), 0)
    if version > NEWEST_OPSET:
        raise UnsupportedOp(
            f"the model asks for version {version} of ONNX's op set; versions up to {NEWEST_OPSET} are known",
            hint=f"export it for version {NEWEST_OPSET} or older",
        )
    for domain, asked in (
        e.split(maxsplit=1) for e in facts.get("opset", "").split(",") if len(e.split()) == 2
    ):
        newest = _NEWEST_OF.get(domain)
        if newest is not None and asked.isdecimal() and int(asked) > newest:
            raise UnsupportedOp(
                f"the model asks for version {asked} of {domain}; versions up to {newest} are known",
                hint=f"export it for version {newest} or older",
            )
