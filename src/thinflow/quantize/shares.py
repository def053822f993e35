"""Shares of a program's multiplications by what computes them: integers, or floats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from thinflow.ir.brief import short_number
from thinflow.onnx import program as onnx
from thinflow.program.model import Operator
from thinflow.quantize.macs import kernels_of, multiplied
from thinflow.tflite import model as tflite

_SHOWN = 6
"""Ops in float that are named."""


@dataclass
class Shares:
    """Multiplications of one run, by how they are done. Loops and branches count once.

    Attributes:
        computed: "int8", "int16", "float32"... -> multiplications.
        stored: type of constant weights -> multiplications by such.
        in_float: op that stays float -> multiplications in such.
        has_loops: whether some are done in loops or branches.
    """

    computed: dict[str, int] = field(default_factory=dict)
    stored: dict[str, int] = field(default_factory=dict)
    in_float: dict[str, int] = field(default_factory=dict)
    has_loops: bool = False

    @property
    def total(self) -> int:
        """Of all kinds."""
        return sum(self.computed.values())

    def percent(self, count: int) -> float:
        """A number of multiplications as a part of all."""
        return 100 * count / max(self.total, 1)

    @property
    def sentence(self) -> str:
        """`int8 94.2% of 2.70M multiplications; in float: Conv2D 5.8%, Softmax`."""
        if not self.total:
            told = "no matrices are multiplied"
        else:
            integers = {kind: n for kind, n in self.computed.items() if "int" in kind}
            smaller = {kind: n for kind, n in self.stored.items() if kind != "float32"}
            once = " (loops counted once)" if self.has_loops else ""
            whole = f"of {short_number(self.total)} multiplications{once}"
            if smaller and not integers:
                return f"{self._listed(smaller)} {whole} with weights stored so; all computed in float"
            told = f"{self._listed(integers) or 'none'} {whole}"
        named = [
            f"{code} {self.percent(n):.1f}%" if n else code
            for code, n in sorted(self.in_float.items(), key=lambda item: -item[1])
        ]
        more = f" and {len(named) - _SHOWN} more" if len(named) > _SHOWN else ""
        return f"{told}; in float: {', '.join(named[:_SHOWN])}{more}" if named else told

    def _listed(self, kinds: dict[str, int]) -> str:
        return ", ".join(f"{kind} {self.percent(n):.1f}%" for kind, n in kinds.items())

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "sentence": self.sentence,
            "multiplications": self.total,
            "computed": self.computed,
            "weights": self.stored,
            "float": self.in_float,
        }


def shares(
    program: tflite.Program | onnx.Program,
    in_float: Iterable[str] = (),
    sizes: Mapping[str, tuple[int, ...]] | None = None,
) -> Shares:
    """The shares of a program in fewer bits.

    Args:
        in_float: ops of which some stay float, also such as multiply nothing.
        sizes: of tensors by name, where they were seen; open ones count as 1.
    """
    kernels, found = kernels_of(program), Shares(in_float=dict.fromkeys(in_float, 0))
    blocks = program.programs() if isinstance(program, onnx.Program) else program.subgraphs
    for block in blocks:
        codes, stored = _codes(block.operators), _stored(block.operators)
        for operator in block.operators:
            plain = _plain(operator, stored, sizes or {})
            count = multiplied(plain, kernels)
            if not count:
                continue
            found.has_loops = found.has_loops or block is not blocks[0]
            kind = _kind(operator, plain, codes)
            found.computed[kind] = found.computed.get(kind, 0) + count
            constants = [t for t in plain.reads() if t.is_constant]
            if constants:
                weights = max(constants, key=lambda t: int(t.array().size))
                name = weights.dtype.numpy_name
                found.stored[name] = found.stored.get(name, 0) + count
            if kind.startswith("float"):
                found.in_float[operator.code] = found.in_float.get(operator.code, 0) + count
    return found


def reading_matrices(program: tflite.Program | onnx.Program) -> set[Operator[Any]]:
    """Operators that read constant matrices, unpacked ones included."""
    blocks = program.programs() if isinstance(program, onnx.Program) else program.subgraphs
    found: set[Operator[Any]] = set()
    for block in blocks:
        stored = _stored(block.operators)
        for operator in block.operators:
            read = [stored.get(t, t) for t in operator.reads()]
            if any(t.is_constant and len(t.shape or ()) > 1 for t in read):
                found.add(operator)
    return found


def _codes(operators: Iterable[Operator[Any]]) -> dict[Any, Any]:
    """What a change of type gives -> what it takes."""
    return {o.outputs[0]: o.inputs[0] for o in operators if _changes_type(o)}


def _changes_type(operator: Operator[Any]) -> bool:
    return operator.code.upper().startswith(("DEQUANTIZE", "CAST"))


def _stored(operators: Iterable[Operator[Any]]) -> dict[Any, Any]:
    """What is computed from one stored constant, and by constants beside it -> that constant."""
    found: dict[Any, Any] = {}
    for operator in operators:
        first, *others = operator.inputs or [None]
        source = found.get(first, first)
        is_stored = source is not None and source.is_constant
        is_unpacked = first in found or (is_stored and _changes_type(operator))
        if is_unpacked and all(t is None or t.is_constant for t in others):
            found[operator.outputs[0]] = source
    return found


def _plain(
    operator: Operator[Any], stored: Mapping[Any, Any], sizes: Mapping[str, tuple[int, ...]]
) -> Operator[Any]:
    """An operator as if it read constants as they are stored, with the sizes that were seen."""

    def seen(tensor: Any) -> Any:
        shape = (
            None if tensor is None else sizes.get(tensor.name.removesuffix("/exact").removesuffix("/rounded"))
        )
        return tensor if shape is None else replace(tensor, shape=shape)

    inputs = [stored[t] if t in stored else seen(t) for t in operator.inputs]
    # A view of what is common to operators of every runtime.
    return Operator(operator.code, inputs, [seen(t) for t in operator.outputs], operator.options)


def _kind(operator: Operator[Any], plain: Operator[Any], codes: Mapping[Any, Any]) -> str:
    """What a product is computed in: a type, and how its inputs come to it."""
    operands = [t for t in operator.inputs if t is not None][:2]
    first = operands[0] if not operands[0].is_constant else operands[-1]
    if not first.dtype.is_floating:
        return str(first.dtype.numpy_name)
    # A runtime that makes one integer kernel of an op between pairs does so where both operands have one.
    if all(t in codes for t in operands) and not codes[first].is_constant:
        return "int8"
    # Integers beside floats: those are rounded in each run.
    beside = [t for t in operator.reads() if t.is_constant and not t.dtype.is_floating and t.quantization]
    if beside and beside[0] in plain.inputs:
        return f"{beside[0].dtype.numpy_name}, rounded in each run,"
    return str(first.dtype.numpy_name)
