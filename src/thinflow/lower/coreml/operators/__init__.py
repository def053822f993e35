"""ONNX's operators in MIL: functions under `@says`, by family."""
