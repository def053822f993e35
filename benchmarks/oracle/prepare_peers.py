"""One model for every peer: prepare_peers.py MODEL.pb INPUT OUTPUT FOLDER NAME [CALIBRATION.npz].

Writes NAME_tf.tflite (TFLiteConverter) and NAME.onnx (tf2onnx) into the folder, and NAME_tf_int8.tflite and
NAME_int8.onnx (ONNX Runtime's static quantization) if there is something to calibrate with. What one of them
cannot convert is told in a line on stdout and left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from converters import attempt, onnx_by_runtime, tflite_by_converter


def main() -> None:
    source, feed, fetch, folder, name, *calibration = sys.argv[1:]
    stem = Path(folder) / name
    samples = [a[None] for a in next(iter(np.load(calibration[0]).values()))] if calibration else []
    tflite, plain = partial(write_tflite, source, feed, fetch), Path(f"{stem}.onnx")
    tell("TFLiteConverter", partial(tflite, Path(f"{stem}_tf.tflite"), []))
    tell("tf2onnx", partial(write_onnx, source, feed, fetch, plain))
    if samples:
        tell("TFLiteConverter, int8", partial(tflite, Path(f"{stem}_tf_int8.tflite"), samples))
        target = Path(f"{stem}_int8.onnx")
        tell("onnxruntime.quantization", partial(write_onnx_int8, plain, target, samples))


def tell(what: str, make: Callable[[], object]) -> None:
    problem = attempt(make)
    if problem:
        print(f"failed: {what}: {problem}")


def write_tflite(source: str, feed: str, fetch: str, target: Path, samples: list[np.ndarray]) -> None:
    import tensorflow as tf  # noqa: TID251

    converter = tf.compat.v1.lite.TFLiteConverter.from_frozen_graph(source, [feed], [fetch])
    tflite_by_converter(converter, samples, target)


def write_onnx(source: str, feed: str, fetch: str, target: Path) -> None:
    import tensorflow as tf  # noqa: TID251
    import tf2onnx

    definition = tf.compat.v1.GraphDef.FromString(Path(source).read_bytes())
    tf2onnx.convert.from_graph_def(
        definition,
        input_names=[f"{feed}:0"],
        output_names=[f"{fetch}:0"],
        opset=17,
        output_path=str(target),
    )


def write_onnx_int8(source: Path, target: Path, samples: list[np.ndarray]) -> None:
    """As ONNX Runtime's documentation advises for x86: unsigned activations."""
    from onnxruntime.quantization import QuantType

    onnx_by_runtime(source, target, samples, activation_type=QuantType.QUInt8)


if __name__ == "__main__":
    main()
