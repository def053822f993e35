"""Core ML's packages (.mlpackage), by way of ONNX's operators.

Core ML computes channels first, as ONNX does. So a graph is lowered to ONNX's operators, whose rules, layout
passes and fusions are there and proven by a runtime, and each operator of that program is said in MIL, the
language of Core ML's programs, by a function under `@says` in `operators/`. Rules of TensorFlow's ops of
their own would be a third copy of the same: where transposes go, what "SAME" pads, how a norm becomes a
factor and an addend. What it costs is that an op which ONNX decomposes arrives in pieces.

MIL is written by coremltools' builder, which checks types and shapes of each operator and runs its own passes
over the whole. There is nothing here that runs Core ML: what is written is read back by our own reader and
computed by our own kernels, which is what `optimize.coreml_conversion` proves.
"""
