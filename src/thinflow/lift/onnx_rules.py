"""Lifting rules for ONNX's ops, by subject in the modules beside this one."""

from __future__ import annotations

from thinflow.lift import onnx_arrays, onnx_control, onnx_math, onnx_quantized, onnx_windows
from thinflow.lift.onnx_values import Rule

RULES: dict[str, Rule] = {
    f"onnx.{name}": rule
    for module in (onnx_math, onnx_arrays, onnx_windows, onnx_quantized, onnx_control)
    for name, rule in module.RULES.items()
}
