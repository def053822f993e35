"""MIL's operators in TensorFlow's ops. Core ML computes channels first, so most are one of ONNX's."""
