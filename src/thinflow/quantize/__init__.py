"""Models in fewer bits: observe ranges, choose scales, rewrite a LiteRT or an ONNX program.

both     recipe, calibrate, observers, feeds, placement, ranges, weights, small_weights, schemes,
         channel_groups, equalize
LiteRT   int8, trained, channels, simulate, constants
ONNX     qdq, prepare
"""
