"""One network in the eight bits of others: quantize_peers.py NAME.keras NAME.onnx SAMPLES.npz FOLDER.

Of the network up to its logits. Writes a file for each tool and setting into the folder, and tells which in a
line on stdout: `SETTING<tab>FILE`, or `failed: SETTING: why`. Tools that are not installed are left out.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np


def main() -> None:
    keras_file, onnx_file, samples_file, folder = sys.argv[1:]
    samples = [a[None] for a in np.load(samples_file)["x"]]
    target = Path(folder)
    attempt(
        "TFLiteConverter", lambda: with_tflite_converter(keras_file, samples, target / "converter.tflite")
    )
    for method, settings in ORT_SETTINGS.items():
        attempt(
            f"ONNX Runtime, {method}",
            lambda method=method, settings=settings: with_onnxruntime(
                onnx_file, samples, target / f"ort_{method}.onnx", method, settings
            ),
        )
    attempt("NNCF", lambda: with_nncf(onnx_file, samples, target / "nncf.onnx"))
    attempt("LiteRT quantizer", lambda: with_litert_quantizer(keras_file, samples, target / "litert.tflite"))


def attempt(setting: str, make: Callable[[], Path]) -> None:
    """Tell of a file, or why there is none."""
    try:
        print(f"{setting}\t{make()}", flush=True)
    except ModuleNotFoundError as error:
        print(f"failed: {setting}: {error.name} is not installed")
    except Exception as error:  # whatever it is, the other peers go on
        first = next(iter(str(error).strip().splitlines()), "")
        print(f"failed: {setting}: {type(error).__name__}: {first[:120]}")


def up_to_logits(path: str):
    """The network without its softmax, with a batch of 1."""
    import keras

    model = keras.models.load_model(path, compile=False)
    names = [layer.name for layer in model.layers]
    result = model.get_layer("logits").output if "logits" in names else model.output
    return keras.Model(model.input, result)


def saved_model(path: str, folder: Path) -> str:
    """A SavedModel of a network for one sample, which has its variables frozen when it is converted."""
    import keras
    import tensorflow as tf  # noqa: TID251

    model, archive = up_to_logits(path), keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec((1, *model.input.shape[1:]), tf.float32)]
    archive.add_endpoint("serve", lambda x: model(x, training=False), signature)
    archive.write_out(str(folder), verbose=False)
    return str(folder)


def with_tflite_converter(path: str, samples: list[np.ndarray], target: Path, quantize: bool = True) -> Path:
    import tensorflow as tf  # noqa: TID251

    folder = saved_model(path, target.with_suffix(".saved"))
    converter = tf.lite.TFLiteConverter.from_saved_model(folder)
    if quantize:

        def calibration() -> Iterator[list[np.ndarray]]:
            for sample in samples:
                yield [sample]

        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = calibration
    target.write_bytes(converter.convert())
    return target


ORT_SETTINGS: dict[str, dict[str, object]] = {
    "MinMax": {},
    "Entropy": {},
    "Percentile": {"CalibPercentile": 99.999},
}


def with_onnxruntime(
    source: str, samples: list[np.ndarray], target: Path, method: str, settings: dict[str, object]
) -> Path:
    from onnxruntime.quantization import (
        CalibrationDataReader,
        CalibrationMethod,
        QuantFormat,
        QuantType,
        quantize_static,
    )
    from onnxruntime.quantization.shape_inference import quant_pre_process

    prepared = target.with_suffix(".prepared.onnx")
    quant_pre_process(source, prepared, skip_symbolic_shape=True)
    import onnx

    name = onnx.load(source).graph.input[0].name

    class Reader(CalibrationDataReader):
        def __init__(self) -> None:
            self._left = iter(samples)

        def get_next(self) -> dict[str, np.ndarray] | None:
            sample = next(self._left, None)
            return None if sample is None else {name: sample}

    quantize_static(
        prepared,
        target,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QInt8,
        weight_type=QuantType.QInt8,
        calibrate_method=getattr(CalibrationMethod, method),
        extra_options=settings,
    )
    return target


def with_nncf(source: str, samples: list[np.ndarray], target: Path) -> Path:
    import nncf
    import onnx

    model = onnx.load(source)
    name = model.graph.input[0].name
    data = nncf.Dataset(samples, lambda x: {name: x})
    onnx.save(nncf.quantize(model, data, subset_size=len(samples), fast_bias_correction=False), target)
    return target


def with_litert_quantizer(path: str, samples: list[np.ndarray], target: Path) -> Path:
    from ai_edge_quantizer import quantizer, recipe

    plain = with_tflite_converter(path, samples, target.with_suffix(".float.tflite"), quantize=False)
    maker = quantizer.Quantizer(str(plain))
    maker.load_quantization_recipe(recipe.static_wi8_ai8())
    import tensorflow as tf  # noqa: TID251

    runner = tf.lite.Interpreter(str(plain)).get_signature_list() or {"serving_default": None}
    key = next(iter(runner))
    name = next(iter(tf.lite.Interpreter(str(plain)).get_signature_runner(key).get_input_details()))
    ranges = maker.calibrate({key: [{name: sample} for sample in samples]})
    maker.quantize(ranges).export_model(str(target), overwrite=True)
    return target


main()
