"""TensorFlow's old tools as commands, one module each, with their own flags and output."""
