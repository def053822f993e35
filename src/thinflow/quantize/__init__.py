"""Models in fewer bits: observe ranges, choose scales, rewrite a LiteRT or an ONNX program.

both     recipe, calibrate, observers, feeds, placement, ranges, weights, small_weights, schemes
LiteRT   int8, trained, equalize, channels, simulate, constants
ONNX     qdq, prepare
"""
