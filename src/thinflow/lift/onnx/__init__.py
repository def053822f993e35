"""Lifting rules for ONNX's operators."""
