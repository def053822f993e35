"""LiteRT, ONNX and PyTorch graphs in TensorFlow's ops, as far as those say the same.

Eight-bit and sixteen-bit ops run as what they approximate: their operands become real numbers, TensorFlow's
kernel computes in float32, and the result is rounded by its quantization parameters. An integer kernel may
come out one quantized value away, as it rounds products of scales in its own way. Recurrent kernels, whose
rounding comes back at every step, are followed exactly: `integer_lstm`, `hybrid`.
"""
