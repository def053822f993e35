"""Core ML's packages: messages, the file of weights, operands of operators; coremltools, quietly."""
