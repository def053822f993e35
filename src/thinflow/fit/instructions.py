"""Instructions of layers on a processor, by what its kernels were counted to take.

`data/instructions.json` is written by `python -m benchmarks fit_costs`, which counts made-up networks in
QEMU and compares the estimate with networks that it was not made from.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from thinflow.fit.work import QUANTITIES, Work

KERNELS_OF = {
    "cortex-m0": "cortex-m0",
    "cortex-m4": "cortex-m4",
    "cortex-m7": "cortex-m4",
    "cortex-m33": "cortex-m4",
    "cortex-m55": "cortex-m55",
    "cortex-m85": "cortex-m55",
}
"""Processors, and the one whose counts hold: it has the same kernels and instructions."""


@dataclass(frozen=True)
class Costs:
    """What was counted on one processor.

    Attributes:
        weights: by kernels, or by the kind of a layer, what each of `QUANTITIES` costs in instructions.
        code_bytes: of kernels.
        call_bytes: of code and settings for each call.
        stack_bytes: the deepest that was seen.
        error: of the estimate, relative: of three in four networks that it was judged by and not made from.
    """

    weights: dict[str, list[float]]
    code_bytes: dict[str, int]
    call_bytes: int
    stack_bytes: int
    error: float = 0.0

    def data(self) -> dict[str, Any]:
        """For the file."""
        return {
            "quantities": list(QUANTITIES),
            "instructions": self.weights,
            "code_bytes": self.code_bytes,
            "call_bytes": self.call_bytes,
            "stack_bytes": self.stack_bytes,
            "error": self.error,
        }

    @staticmethod
    @cache
    def of(cpu: str) -> Costs | None:
        """What was counted for a processor; None if nothing was."""
        text = (files("thinflow.fit") / "data" / "instructions.json").read_text("utf-8")
        found = json.loads(text).get(KERNELS_OF.get(cpu, ""))
        if found is None:
            return None
        # A quantity that was added later costs nothing before it is counted.
        weights = {
            key: [*costs, *[0.0] * (len(QUANTITIES) - len(costs))]
            for key, costs in found["instructions"].items()
        }
        numbers = (found["call_bytes"], found["stack_bytes"], found.get("error", 0.0))
        return Costs(weights, found["code_bytes"], *numbers)


@dataclass(frozen=True)
class Estimate:
    """Instructions of a layer.

    Attributes:
        instructions: of a run; 0 for a layer that does nothing.
        is_counted: whether its kernels were counted; if not, they are taken for others of their kind.
    """

    instructions: float
    is_counted: bool


_UNKNOWN = {"macs": 12.0, "outputs": 40.0, "calls": 100.0}
"""What a layer is taken for of which nothing was counted: more than portable kernels take, on purpose."""


_COPY = {"outputs": 1.0, "calls": 50.0}
"""Bytes that are copied by memcpy, a word or more in a few instructions: on the safe side."""


def estimated(work: Work, cpu: str) -> Estimate:
    """The instructions that a layer takes on a processor with counts."""
    if not work.kernels:
        return Estimate(0.0, True)
    costs = Costs.of(cpu)
    weights = costs.weights if costs is not None else {}
    found = weights.get(work.kernels)
    if found is None and work.kernels == "copy":
        found = [_COPY.get(name, 0.0) for name in QUANTITIES]
    used = found or weights.get(work.kind) or [_UNKNOWN.get(name, 0.0) for name in QUANTITIES]
    return Estimate(sum(w * q for w, q in zip(used, work.quantities, strict=True)), found is not None)
