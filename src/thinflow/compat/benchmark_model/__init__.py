"""TensorFlow's benchmark_model: its settings, measuring and report."""
