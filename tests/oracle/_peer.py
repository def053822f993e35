"""TensorFlow's own converter to LiteRT, for comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

import tensorflow as tf

from tests.oracle._frozen import Array, Frozen
from thinflow.tflite.reader import read_program


def convert(frozen: Frozen) -> bytes:
    """A float .tflite of a frozen graph."""
    return bytes(_converter(frozen).convert())


def convert_int8(frozen: Frozen, samples: Iterable[list[Array]]) -> bytes:
    """An int8 .tflite with float inputs and outputs. A sample has its arrays in the order of the inputs."""
    converter = _converter(frozen)
    fed = [list(sample) for sample in samples]
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.representative_dataset = lambda: iter(fed)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    return bytes(converter.convert())


def convert_scheme(
    frozen: Frozen, scheme: str, samples: Iterable[list[Array]], border: str = "float32"
) -> bytes:
    """A .tflite in the converter's own form of a scheme.

    Args:
        samples: for int8 and int16x8.
        border: type of inputs and outputs.
    """
    sets, kinds = tf.lite.OpsSet, {"float16": [tf.float16]}
    wide = sets.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
    converter = _converter(frozen)
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    converter.target_spec.supported_types = kinds.get(scheme, [])
    if scheme in {"int8", "int16x8"}:
        fed = [list(sample) for sample in samples]
        converter.representative_dataset = lambda: iter(fed)
        converter.target_spec.supported_ops = (
            [sets.TFLITE_BUILTINS_INT8] if scheme == "int8" else [wide, sets.TFLITE_BUILTINS]
        )
        converter.inference_input_type = converter.inference_output_type = tf.dtypes.as_dtype(border)
    return bytes(converter.convert())


def _converter(frozen: Frozen) -> tf.lite.TFLiteConverter:
    def imported(*tensors: tf.Tensor) -> list[tf.Tensor]:
        feeds = dict(zip(frozen.inputs, tensors, strict=True))
        return tf.graph_util.import_graph_def(
            frozen.graph_def,
            input_map=feeds,
            return_elements=[f"{name}:0" for name in frozen.outputs],
            name="",
        )

    signature = [tf.TensorSpec(shape, kind) for shape, kind in frozen.inputs.values()]
    function: Callable[..., list[tf.Tensor]] = tf.function(imported, autograph=False)
    return tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function(*signature)])


def operators(content: bytes) -> Counter[str]:
    """How often each operator stands in a .tflite."""
    return Counter(operator.code for part in read_program(content).subgraphs for operator in part.operators)
