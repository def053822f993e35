"""TFLiteConverter: convert.py IN.pb OUT.tflite INPUT OUTPUT [CALIBRATION.npz] (int8 then)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import tensorflow as tf  # noqa: TID251


def main() -> None:
    source, target, feed, fetch, *calibration = sys.argv[1:]
    converter = tf.compat.v1.lite.TFLiteConverter.from_frozen_graph(source, [feed], [fetch])
    if calibration:
        images = next(iter(np.load(calibration[0]).values()))

        def samples() -> Iterator[list[np.ndarray]]:
            for image in images:
                yield [image[None]]

        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = samples
    Path(target).write_bytes(converter.convert())


main()
