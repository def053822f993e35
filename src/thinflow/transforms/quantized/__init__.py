"""TensorFlow's eight-bit ops: their values, ranges and checks."""
