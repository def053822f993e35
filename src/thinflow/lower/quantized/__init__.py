"""Planning of eight-bit layers of TF1, shared by all targets: they write operators of their own from it.

Eight-bit numbers come from four places, and only the first is lowered from here:

- a graph with TensorFlow's own eight-bit ops (QuantizedConv2D ... Requantize), as `quantize_nodes` makes it
  of a float graph and as files of 2016 to 2019 hold it: this package, and in each target `quantize` (to eight
  bits and back), `quantized*` (products, sums, ops that keep values), `accumulators` (layers), `integers` and
  `requantized_float_layers` (float layers between quantized values);
- a float program, quantized after lowering with measured ranges: `thinflow.quantize`, which knows operators
  of the targets and no op of TensorFlow;
- a float graph with FakeQuant ops: `fake_quant` (ONNX) and `quantize` (LiteRT) write them as they are, and
  `thinflow.quantize` takes their ranges;
- an eight-bit file that is read: `thinflow.lift`.

A real value is (value - zero point) * scale everywhere; the zero point is counted in one of three ways:

| class | zero point |
|---|---|
| `analysis.quant_params.QuantParams` | of the graph's own type, even where that cannot hold it |
| `accumulators.RequantTarget` | 0 to 255 above the lowest value, also where that is -128 |
| `onnx.quantized_context.QuantizedTensor`, `TargetTensors` | a uint8 tensor: signed values are moved by 128 |
| `program.model.Quantization` | of the tensor's own type; in LiteRT's programs int8 throughout |
"""
