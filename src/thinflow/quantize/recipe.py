"""What the user may choose about quantization, as frozen data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from thinflow.errors import ParameterError, closest
from thinflow.lower.tflite import schema
from thinflow.lower.tflite.program import Operator
from thinflow.quantize import observers

SCHEMES = ("int8",)


@dataclass(frozen=True)
class Recipe:
    """How to quantize.

    Attributes:
        scheme: "int8" is int8 activations and weights with int32 biases, by LiteRT's rules.
        observer: name of a range observer, see `observers`.
        observer_options: keyword arguments of that observer.
        per_channel: one weight scale per output channel instead of one per tensor.
        skip_ops: op codes ("SOFTMAX") that stay float.
        skip_nodes: patterns (`*` and `?`) for operators that stay float: matched with the name of the source
            node and of each output.
        keep_float_io: leave the model's float inputs and outputs float. Otherwise they become int8.
        few_samples: below this many calibration samples there is a warning.
    """

    scheme: str = "int8"
    observer: str = "minmax"
    observer_options: Mapping[str, Any] = field(default_factory=dict)
    per_channel: bool = True
    skip_ops: frozenset[str] = frozenset()
    skip_nodes: tuple[str, ...] = ()
    keep_float_io: bool = True
    few_samples: int = 100

    def __post_init__(self) -> None:
        if self.scheme not in SCHEMES:
            raise ParameterError(
                f"there is no quantization scheme '{self.scheme}'",
                hint=closest(self.scheme, SCHEMES) or f"there are: {', '.join(SCHEMES)}",
            )
        observers.make(self.observer, self.observer_options)
        for field_name in ("skip_ops", "skip_nodes"):
            if isinstance(getattr(self, field_name), str):
                raise ParameterError(f"{field_name} is a string", hint="give a collection of strings")
        for code in self.skip_ops:
            if schema.op_code(code) is None:
                raise ParameterError(
                    f"skip_ops: '{code}' is no LiteRT op", hint=closest(code, schema.OP_CODES)
                )
        object.__setattr__(self, "skip_ops", frozenset(self.skip_ops))
        object.__setattr__(self, "skip_nodes", tuple(self.skip_nodes))

    def why_skipped(self, operator: Operator) -> str:
        """The choice that keeps an operator float; empty if there is none."""
        if operator.code in self.skip_ops:
            return f"skip_ops names {operator.code}"
        names = [operator.origin, *(t.name for t in operator.outputs)]
        for pattern in self.skip_nodes:
            if any(name and fnmatchcase(name, pattern) for name in names):
                return f"skip_nodes has '{pattern}'"
        return ""
