"""`thinflow toco`: the older name of tflite_convert, with flags in the singular too."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.cli.compat._old_converter import convert

EXAMPLES = """
  thinflow toco --input_file=a.pb --output_file=a.tflite --input_array=x --output_array=y
  thinflow toco --input_file=a.pb --output_file=a.tflite --input_array=x --input_shape=1,224,224,3
  thinflow toco --saved_model_dir=saved --output_file=a.tflite --post_training_quantize
"""


def main(argv: Sequence[str]) -> int:
    return convert("toco", argv, EXAMPLES)
