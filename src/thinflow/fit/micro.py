"""What TFLite Micro takes for a network: flash, arena and instructions, by what it was measured to take.

The figures come from nine networks (those of MLPerf Tiny, keywords, persons, a sine and an LSTM), built with
CMSIS-NN for a Cortex-M4 and a Cortex-M55 and run in QEMU. Of these the formulas below give the arena within
1 %, the code exactly, and the instructions within 4 % (Cortex-M4) and 13 % (Cortex-M55).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from thinflow.ir.brief import brief_repr
from thinflow.program.arena import ALIGNMENT, place
from thinflow.program.model import Span
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor

_PER_OPERATOR, _PER_CHANNEL, _FIXED, _STACK = 165, 8, 180, 1120
"""Bytes of the arena for what is kept of an operator, of each channel's scale, and for all; and of stack."""
_STATICS = 556
"""Bytes of memory outside of the arena."""
_CODE: dict[str, dict[str, int]] = {
    "cortex-m4": {
        "": 18_500,
        "FULLY_CONNECTED": 13_500,
        "CONV_2D": 23_500,
        "DEPTHWISE_CONV_2D": 20_800,
        "AVERAGE_POOL_2D": 3_100,
        "MAX_POOL_2D": 3_100,
        "ADD": 15_600,
        "SOFTMAX": 4_500,
        "RESHAPE": 500,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": 17_500,
    },
    "cortex-m55": {
        "": 14_270,
        "FULLY_CONNECTED": 10_360,
        "CONV_2D": 16_100,
        "DEPTHWISE_CONV_2D": 23_400,
        "AVERAGE_POOL_2D": 3_700,
        "MAX_POOL_2D": 3_700,
        "ADD": 17_400,
        "SOFTMAX": 4_500,
        "RESHAPE": 500,
        "UNIDIRECTIONAL_SEQUENCE_LSTM": 18_300,
    },
}
"""Bytes of code of the interpreter and of each kernel, solved for from the builds."""
_OTHER_KERNEL = 4_000
"""Bytes of a kernel that was in none of the builds: most are between 2 and 8 kB."""
_INSTRUCTIONS: dict[str, dict[str, float]] = {
    "cortex-m4": {
        "CONV_2D": 2.224,
        "DEPTHWISE_CONV_2D": 4.293,
        "FULLY_CONNECTED": 2.045,
        "output": 21.0,
        "element": 0.0,
        "operator": 745,
    },
    "cortex-m55": {
        "CONV_2D": 0.331,
        "DEPTHWISE_CONV_2D": 3.051,
        "FULLY_CONNECTED": 0.517,
        "output": 4.37,
        "element": 2.73,
        "operator": 619,
    },
}
"""Of a product in each layer, of an output of such layers, of an element of others, and of an operator."""
_KERNELS_OF = {"cortex-m7": "cortex-m4", "cortex-m33": "cortex-m4", "cortex-m85": "cortex-m55"}


@brief_repr
@dataclass(frozen=True)
class MicroFit:
    """What TFLite Micro with CMSIS-NN takes for the same network.

    Attributes:
        flash_bytes: its code and the file of the model.
        ram_bytes: arena and what it has besides; without the stack.
        stack_bytes: of a run.
        instructions: of a run; None for processors it was not counted on, and for networks of floats.
        unknown: operators it was never built with here, whose code is a guess.
    """

    flash_bytes: int
    ram_bytes: int
    stack_bytes: int
    instructions: float | None
    unknown: tuple[str, ...] = ()


def micro_fit(program: Program, file_bytes: int, macs: Mapping[Operator, int], cpu: str) -> MicroFit:
    """What TFLite Micro would take.

    Args:
        program: as the .tflite has it.
        file_bytes: of that file.
        macs: products of its layers.
        cpu: the processor; what is not known is taken for a Cortex-M4 where sizes are concerned.
    """
    block = program.subgraphs[0]
    kernels = _KERNELS_OF.get(cpu, cpu)
    code = _CODE.get(kernels, _CODE["cortex-m4"])
    names = {operator.code for operator in block.operators}
    size = code[""] + sum(code.get(name, _OTHER_KERNEL) for name in names)
    is_integer = all(t.dtype.kind != "f" for t in block.inputs)
    return MicroFit(
        size + file_bytes,
        _arena(block) + _variables(block) + _STATICS,
        _STACK,
        _instructions(block, macs, kernels) if is_integer else None,
        tuple(sorted(names - code.keys())),
    )


def _arena(block: Subgraph) -> int:
    """Bytes of its arena: greedy by size, among equals the later first, as its planner sorts them."""
    last = len(block.operators) - 1
    spans = block.lifetimes()
    lasting = {t for t in block.tensors() if t.is_variable}
    found = []
    for number, tensor in enumerate(block.tensors()):
        if tensor.is_constant:
            continue
        span = Span(0, last) if tensor in lasting else spans[tensor]
        found.append((_size(tensor), number, Span(max(span.start, 0), min(span.end, last))))
    found.sort(key=lambda item: (-item[0], -item[1]))
    # `place` has an order of its own among equals, so that none are left: in units finer than a byte.
    unit = len(found) + 1
    pieces = [(size * unit - n, span) for n, (size, _, span) in enumerate(found)]
    activations = _rounded(-(-place(pieces)[1] // unit))
    channels = sum(
        (o.outputs[0].shape or (0,))[-1] or 0
        for o in block.operators
        if o.code in ("CONV_2D", "DEPTHWISE_CONV_2D")
    )
    return activations + _PER_CHANNEL * channels + _PER_OPERATOR * len(block.operators) + _FIXED


def _variables(block: Subgraph) -> int:
    """Bytes of variables, which lie in its arena behind everything else."""
    states = {o.options["state"] for o in block.operators if "state" in o.options}
    return sum(_rounded(state.size_bytes) for state in states)


def _size(tensor: Tensor) -> int:
    return _rounded(tensor.size_bytes or math.prod(n or 1 for n in tensor.shape or ()))


def _rounded(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT


def _instructions(block: Subgraph, macs: Mapping[Operator, int], kernels: str) -> float | None:
    costs = _INSTRUCTIONS.get(kernels)
    if costs is None:
        return None
    total = 0.0
    for operator in block.operators:
        # What writes to a variable gives nothing, and copies what it reads.
        written = operator.outputs or operator.reads()
        outputs = sum(math.prod(n or 1 for n in t.shape or ()) for t in written)
        total += costs["operator"]
        if operator.code in costs:
            total += costs[operator.code] * macs.get(operator, 0) + costs["output"] * outputs
        elif operator.code != "RESHAPE":
            total += costs["element"] * outputs
    return total
