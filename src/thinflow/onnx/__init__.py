"""ONNX models as they are written: messages, program, writer."""
