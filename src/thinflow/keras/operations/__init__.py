"""What functions compute that a model calls on its tensors: Keras's operations, and TensorFlow's."""
