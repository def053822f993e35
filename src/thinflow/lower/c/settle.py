"""Sizes of everything, and what is known before a network runs: computed once, here."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.types import Shape, dtype
from thinflow.lower.c import flow
from thinflow.lower.c.bounded import Counts, is_bounded
from thinflow.lower.c.forms import REFUSED
from thinflow.lower.c.litert import answers, shapes
from thinflow.tflite.model import Operator, Subgraph, Tensor
from thinflow.typing import Array

C_TYPES = {
    "float": "float",
    "int8": "int8_t",
    "uint8": "uint8_t",
    "int16": "int16_t",
    "uint16": "uint16_t",
    "int32": "int32_t",
    "uint32": "uint32_t",
    "int64": "int64_t",
    "uint64": "uint64_t",
    "bool": "bool",
}
"""Element types that C has, by thinflow's name."""

SIZED = {
    "RESHAPE": (1,),
    "FILL": (0,),
    "BROADCAST_TO": (1,),
    "EXPAND_DIMS": (1,),
    "TRANSPOSE_CONV": (0,),
    "RANDOM_UNIFORM": (0,),
    "RANDOM_STANDARD_NORMAL": (0,),
    "MULTINOMIAL": (1,),
}
"""Inputs of operators that tell the sizes of what they make."""
_MOST_FOLDED = 4096
"""Bytes of a constant that takes more flash than what it is made of: small ones are sizes and ranges."""
_SMALL = frozenset(("int4", "int2"))
_UNREPEATABLE = frozenset(("RANDOM_UNIFORM", "RANDOM_STANDARD_NORMAL", "MULTINOMIAL"))


def settle(block: Subgraph) -> dict[Tensor, Tensor]:
    """Make open batches 1, find all sizes, and compute what is made of constants alone.

    Returns:
        Values that have fewer rows than memory -> what tells how many; of outputs that is one, too.

    Raises:
        UnsupportedOp: other sizes are open; or a tensor is of a type that C does not have.
    """
    for tensor in block.inputs:
        tensor.shape = require_sizes(tensor)
    for tensor in (t for o in block.operators for t in o.outputs):
        # A state that is written anew in each run is a value like others.
        tensor.is_variable = False
    for tensor in (t for o in block.operators for t in o.reads() if t.is_constant and t.dtype.name in _SMALL):
        # What several of share a byte in the file has one each in C, and counts the same.
        tensor.data, tensor.dtype = tensor.array().astype(np.int8), dtype("int8")
    kept, counts = [], Counts()
    # In running order, so that what is made of a folded constant is one, too.
    for operator in block.operators:
        if counts.reach(operator):
            _find_counted(operator, counts)
            kept.append(operator)
        elif operator.code in flow.EFFECTS:
            _pass_sizes(operator)
            kept.append(operator)
        elif is_bounded(operator):
            counts.begin(operator)
            kept.append(operator)
        elif not _is_folded(operator):
            kept.append(operator)
    block.operators = kept
    _copy_constants(block)
    block.outputs += dict.fromkeys(counts.of[t] for t in block.outputs if t in counts.of)
    for operator in kept:
        for number in SIZED.get(operator.code, ()):
            # The sizes are those of the output; whatever computed them is not read any more.
            if number < len(operator.inputs):
                operator.inputs[number] = None
    flow.remove_unused(block)
    _check_types(block)
    return counts.of


def _copy_constants(block: Subgraph) -> None:
    """Let outputs that turned out to be constants be written: nothing else would."""
    for number, tensor in enumerate(block.outputs):
        if tensor.is_constant:
            block.outputs[number] = replace(tensor, data=None)
            block.operators.append(Operator(flow.COPY, [tensor], [block.outputs[number]]))


def _find_counted(operator: Operator, counts: Counts) -> None:
    """The sizes of what is made of rows that are counted, in memory for all of them.

    Raises:
        UnsupportedOp: it is not made row by row.
    """
    counts.require_rule(operator)
    # Files tell the sizes of one run, or none.
    for tensor in operator.outputs:
        tensor.shape = None
    _find_sizes(operator)
    counts.hand_on(operator)


class OpenSizes(UnsupportedOp):
    """An input whose sizes are not known.

    Args:
        name, shape: of it.
        example: sizes that would do, if some are known.
    """

    def __init__(self, name: str, shape: Shape, example: Sequence[int] | None = None) -> None:
        # One for the batch; what else would do only the model knows.
        if shape is None:
            super().__init__(
                f"the graph does not say what shape the input '{name}' has, and C needs all sizes",
                hint=f"give it: --shape {name}=1,SIZE, or for pictures --shape {name}=1,224,224,3",
            )
            return
        sizes = ",".join("?" if n is None else str(n) for n in shape)
        given = ["SIZE" if n is None else str(n) for n in shape] if example is None else [*map(str, example)]
        if shape[0] is None:
            given[0] = "1"
        super().__init__(
            f"the sizes of the input '{name}' are open, [{sizes}], and C needs them all",
            hint=f"give them{'' if example is None else ', for example'}: --shape {name}={','.join(given)}",
        )


def require_sizes(tensor: Tensor, examples: Mapping[str, Sequence[int]] | None = None) -> tuple[int, ...]:
    """The sizes of an input, a batch that is open being 1.

    Args:
        tensor: the input.
        examples: name -> sizes that would do.

    Raises:
        OpenSizes: others are open.
    """
    # A batch that is open is no question: C runs one sample at a time.
    shape = tensor.shape
    if shape is None or None in shape[1:]:
        example = (examples or {}).get(tensor.name)
        raise OpenSizes(tensor.name, shape, example if len(example or ()) == len(shape or ()) else None)
    return tuple(n or (0 if n == 0 else 1) for n in shape)


def _pass_sizes(operator: Operator) -> None:
    """Let the values of loops and branches have the sizes of what is copied to them."""
    count = int(operator.options.get("count", 0))
    pairs: list[tuple[Tensor | None, Tensor | None]] = []
    if operator.code in (flow.LOOP, flow.COPY) and operator.outputs:
        pairs = list(zip(operator.inputs, operator.outputs, strict=True))
    elif operator.code == flow.COPY:
        pairs = [(operator.inputs[0], operator.inputs[1])]
    elif operator.code == flow.LOOP_NEXT:
        pairs = list(zip(operator.inputs[:count], operator.inputs[count : 2 * count], strict=True))
    for x, y in pairs:
        if x is None or y is None or x.shape is None or None in x.shape:
            continue
        # A copy into memory of another size would leave something out, or write beyond its end.
        if y.shape is None or None in y.shape or operator.code == flow.LOOP:
            y.shape = x.shape
        elif math.prod(n or 0 for n in y.shape) != math.prod(n or 0 for n in x.shape):
            raise UnsupportedOp(f"the sizes of '{y.name}' change while it runs, {y.shape} and {x.shape}")


def _is_folded(operator: Operator) -> bool:
    """Find the sizes of what an operator makes; whether its results are constants now."""
    inputs = list(operator.reads())
    if operator.code in ("SHAPE", "RANK") and inputs and _is_known(inputs[0]):
        _make_constant(operator, [_size_answer(operator, inputs[0])])
        return True
    is_constant = bool(inputs or operator.code == "RANGE") and all(t.is_constant for t in inputs)
    is_constant = is_constant and operator.code not in _UNREPEATABLE and bool(operator.outputs)
    if is_constant and (found := answers(operator)) is not None:
        size = sum(array.nbytes for array in found)
        least = sum(t.size_bytes or 0 for t in inputs)
        if size <= max(_MOST_FOLDED, least) or operator.code in ("DEQUANTIZE", "CAST"):
            _make_constant(operator, found)
            return True
    if not all(map(_is_known, operator.outputs)):
        _find_sizes(operator)
    return False


def _size_answer(operator: Operator, x: Tensor) -> Array:
    kind = operator.outputs[0].dtype.numpy()
    sizes = [n or 0 for n in x.shape or ()]
    return np.array(sizes if operator.code == "SHAPE" else len(sizes), kind)


def _make_constant(operator: Operator, found: list[Array]) -> None:
    for tensor, array in zip(operator.outputs, found, strict=True):
        tensor.data, tensor.shape = array, array.shape


def _find_sizes(operator: Operator) -> None:
    """Ask LiteRT, which knows how every operator's sizes follow from those of its inputs.

    Raises:
        UnsupportedOp: they depend on the numbers that are computed.
    """
    if (why := REFUSED.get(operator.code)) is not None:
        raise UnsupportedOp(f"'{operator.outputs[0].name}' ({operator.code}) has no form in C: {why}")
    found = shapes(operator)
    if operator.code in _STATED and (sizes := _STATED[operator.code](operator)) is not None:
        found = [sizes]
    for number, tensor in enumerate(operator.outputs):
        if _is_known(tensor):
            continue
        if found is None or found[number] is None:
            # As it stands in the file, with a batch of 1: an operator that LiteRT does not have here.
            if tensor.shape is not None and None not in tensor.shape[1:] and found is None:
                tensor.shape = (1, *tensor.shape[1:])
                continue
            raise UnsupportedOp(
                f"the sizes of '{tensor.name}' ({operator.code}) follow from what is computed, and C needs"
                " them all",
                hint="give the sizes of the inputs with --shape",
            )
        tensor.shape = found[number]


def _drawn(operator: Operator) -> tuple[int, ...] | None:
    """Samples of each row, where their number is constant."""
    x, samples = operator.inputs[:2]
    if x is None or not x.shape or samples is None or not samples.is_constant:
        return None
    return (x.shape[0] or 0, int(samples.array().reshape(-1)[0]))


def _embedded(operator: Operator) -> tuple[int, ...] | None:
    """Rows of a table at the places of a sparse tensor, where its sizes are constant."""
    sizes, table = operator.inputs[2], operator.inputs[4]
    if sizes is None or not sizes.is_constant or table is None or not table.shape:
        return None
    return (*(int(n) for n in sizes.array().reshape(-1)[:-1]), *(n or 0 for n in table.shape[1:]))


_STATED = {"MULTINOMIAL": _drawn, "EMBEDDING_LOOKUP_SPARSE": _embedded}
"""Sizes that LiteRT finds only while it runs, though they are known before."""


def _is_known(tensor: Tensor) -> bool:
    return tensor.shape is not None and None not in tensor.shape


def _check_types(block: Subgraph) -> None:
    ports = {*block.inputs, *block.outputs}
    # What reads and makes strings is refused by its own name.
    told = {t for o in block.operators if o.code in REFUSED for t in o.touched()}
    for tensor in (t for t in block.tensors() if t not in told):
        # Complex numbers are pairs of floats between layers; no parameter has a type for them.
        is_known = tensor.dtype.name in C_TYPES or (tensor.dtype.name == "complex64" and tensor not in ports)
        if not is_known and not tensor.is_constant:
            raise UnsupportedOp(f"'{tensor.name}' is {tensor.dtype}, for which this C has no type")
