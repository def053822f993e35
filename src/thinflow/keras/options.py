"""The options of a layer, read by what they should be, and noted as read."""

from __future__ import annotations

import math
from collections.abc import Mapping

from thinflow.errors import FormatError, UnsupportedOp
from thinflow.ir.types import DType, dtype
from thinflow.keras.config import LayerConfig

DAMAGED = "the config is damaged, or of a version that is not known; save the model again"


def policy_name(layer: LayerConfig) -> str:
    """The name of the policy of types that a layer has: "float32", "mixed_float16"."""
    policy = layer.options.get("dtype")
    if isinstance(policy, Mapping):
        inner = policy.get("config")
        policy = inner.get("name") if isinstance(inner, Mapping) else None
    return policy if isinstance(policy, str) else "float32"


def compute_type(layer: LayerConfig) -> DType:
    """The type of floats that a layer computes in; float32 where a policy mixes it with a smaller one.

    Raises:
        UnsupportedOp: the policy has other types than floats.
    """
    name = policy_name(layer)
    if name in ("float16", "bfloat16", "float64"):
        return dtype({"float16": "half", "float64": "double"}.get(name, name))
    if name.startswith("int8_from") or "float8" in name or "int4" in name:
        raise UnsupportedOp(
            f"its weights are quantized ({name})", layer.where, "save the model before model.quantize(...)"
        )
    return dtype("float")


class Options:
    """The options of one layer.

    Attributes:
        layer: the config.
        read: options that somebody has looked at, and arguments of its calls.
    """

    def __init__(self, layer: LayerConfig) -> None:
        self.layer = layer
        self.read: set[str] = set()

    @property
    def where(self) -> str:
        return self.layer.where

    def refuse(self, why: str, hint: str = "") -> UnsupportedOp:
        """The error that the layer cannot be said in TensorFlow's ops."""
        return UnsupportedOp(why, self.where, hint)

    def get(self, option: str, default: object = None) -> object:
        """An option as the config has it."""
        self.read.add(option)
        return self.layer.options.get(option, default)

    def flag(self, option: str, default: bool = False) -> bool:
        value = self.get(option, default)
        if value is not None and not isinstance(value, bool | int):
            raise self._odd(option, value, "yes or no")
        return bool(value)

    def integer(self, option: str, default: int | None = None) -> int:
        value = self.get(option, default)
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._odd(option, value, "a whole number")
        return value

    def number(self, option: str, default: float | None = None) -> float:
        value = self.get(option, default)
        # Arrays in configs: Keras 2 wrote a numpy number as a dict of its value.
        if isinstance(value, Mapping) and isinstance(value.get("value"), float | int):
            value = value["value"]
        if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
            raise self._odd(option, value, "a number")
        return float(value)

    def text(self, option: str, default: str = "") -> str:
        value = self.get(option, default)
        if not isinstance(value, str):
            raise self._odd(option, value, "a word")
        return value

    def ints(self, option: str, count: int | None = None, default: int | None = None) -> tuple[int, ...]:
        """Whole numbers; one number stands for `count` alike."""
        value = self.get(option, default)
        if count is not None and isinstance(value, int) and not isinstance(value, bool):
            return (value,) * count
        items = value if isinstance(value, list | tuple) else [value]
        if any(isinstance(n, bool) or not isinstance(n, int) for n in items):
            raise self._odd(option, value, "whole numbers")
        if count is not None and len(items) != count:
            raise self._odd(option, value, f"{count} whole numbers")
        return tuple(n for n in items if isinstance(n, int))

    def choice(self, option: str, *choices: str) -> str:
        """A word that is one of these; the first is the default."""
        value = choices[0] if self.get(option) is None else self.text(option, choices[0]).lower()
        if value not in choices:
            raise self.refuse(f"{option} is '{value}', and only {', '.join(choices)} are known")
        return value

    def _odd(self, option: str, value: object, wanted: str) -> FormatError:
        return FormatError(f"the option {option} is {str(value)[:60]!r}, not {wanted}", self.where, DAMAGED)
