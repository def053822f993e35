"""`thinflow tflite_convert`: TensorFlow's converter to .tflite, with the flags of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.cli.compat._old_converter import convert

EXAMPLES = """
  thinflow tflite_convert --graph_def_file=a.pb --output_file=a.tflite --input_arrays=x --output_arrays=y
  thinflow tflite_convert --graph_def_file=a.pb --output_file=b --input_arrays=x --input_shapes=1,224,224,3
  thinflow tflite_convert --saved_model_dir=saved --output_file=a.tflite --post_training_quantize
"""


def main(argv: Sequence[str]) -> int:
    return convert("tflite_convert", argv, EXAMPLES)
