"""The ONNX side: programs, their files, and the rules that make them."""
