"""A network in the eight bits of others: quantize_peers.py SOURCE NAME.onnx SAMPLES.npz FOLDER INPUT OUTPUT.

Of the network up to its logits; its source is a .keras file, or a frozen .pb with these ends. Writes a file
for each tool and setting into the folder, and tells which in a line on stdout:
`SETTING<tab>FILE<tab>SECONDS`, or `failed: SETTING: why`. What counts is the best setting of a tool, so each
has several. Tools that are not installed fail with that reason.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
from converters import attempt, onnx_by_runtime, tflite_by_converter

Samples = list[np.ndarray]
"""Inputs, each with its batch of 1."""


def main() -> None:
    source, onnx_file, samples_file, folder, *ends = sys.argv[1:]
    samples = [a[None] for a in np.load(samples_file)["x"]]
    for number, (setting, suffix, make) in enumerate(settings(Path(source), Path(onnx_file), ends)):
        target, started = Path(folder) / f"peer_{number}{suffix}", time.monotonic()
        problem = attempt(partial(make, samples, target))
        took = time.monotonic() - started
        print(f"failed: {setting}: {problem}" if problem else f"{setting}\t{target}\t{took:.1f}", flush=True)


Make = Callable[[Samples, Path], None]
"""Writes a file of samples and its path; of no samples, a float one."""


def settings(source: Path, onnx_file: Path, ends: list[str]) -> Iterator[tuple[str, str, Make]]:
    """Name, suffix of the file, and what writes it."""
    is_keras = source.suffix == ".keras"
    convert: Make = partial(of_keras, source) if is_keras else partial(of_graphdef, source, ends)
    yield "TFLiteConverter", ".tflite", convert
    if is_keras and is_recurrent(source):
        yield "TFLiteConverter, unrolled", ".tflite", partial(of_keras, source, unrolled=True)
    for method, options in ORT_METHODS.items():
        yield f"ONNX Runtime, {method}", ".onnx", partial(with_onnxruntime, onnx_file, method, options)
    for told, options in NNCF_SETTINGS.items():
        yield f"NNCF{told}", ".onnx", partial(with_nncf, onnx_file, options)
    plain = onnx_file.with_name("peers_float.tflite")
    attempt(partial(convert, [], plain))
    for told, algorithm in LITERT_ALGORITHMS.items():
        yield f"LiteRT quantizer{told}", ".tflite", partial(with_litert_quantizer, plain, algorithm)
    for told, equalizes in (("AIMET", False), ("AIMET, equalized", True)):
        yield told, ".onnx", partial(with_aimet, onnx_file, equalizes)


# ------------------------------------------------------------------------------------------ TFLiteConverter


def is_recurrent(path: Path) -> bool:
    """Whether layers of a network repeat themselves in time."""
    from zipfile import ZipFile

    with ZipFile(path) as archive:
        return b'"unroll"' in archive.read("config.json")


def up_to_logits(path: Path, *, unrolled: bool = False):
    """The network without its softmax; on demand with every step of its recurrent layers written out."""
    import keras

    model = keras.models.load_model(path, compile=False)
    names = [layer.name for layer in model.layers]
    model = keras.Model(model.input, model.get_layer("logits").output if "logits" in names else model.output)
    if not unrolled:
        return model

    def again(layer):
        return type(layer).from_config(_unrolled(layer.get_config()))

    written = keras.models.clone_model(model, clone_function=again)
    written.set_weights(model.get_weights())
    return written


def _unrolled(config: object) -> object:
    """A layer's config with every `unroll` set, those of layers inside too."""
    if isinstance(config, dict):
        return {key: True if key == "unroll" else _unrolled(value) for key, value in config.items()}
    return config


def of_keras(path: Path, samples: Samples, target: Path, *, unrolled: bool = False) -> None:
    """By a SavedModel for one sample, which has its variables frozen when it is converted.

    Without unrolling it crashes on loops, in the interpreter that calibrates.
    """
    import keras
    import tensorflow as tf  # noqa: TID251

    model, archive = up_to_logits(path, unrolled=unrolled), keras.export.ExportArchive()
    archive.track(model)
    signature = [tf.TensorSpec((1, *model.input.shape[1:]), tf.float32)]
    archive.add_endpoint("serve", lambda x: model(x, training=False), signature)
    folder = str(target.with_suffix(".saved"))
    archive.write_out(folder, verbose=False)
    converter = tf.lite.TFLiteConverter.from_saved_model(folder)
    tflite_by_converter(converter, samples, target)


def of_graphdef(path: Path, ends: list[str], samples: Samples, target: Path) -> None:
    """By a frozen graph of TensorFlow 1."""
    import tensorflow as tf  # noqa: TID251

    fed, given = ends
    converter = tf.compat.v1.lite.TFLiteConverter.from_frozen_graph(str(path), [fed], [given])
    tflite_by_converter(converter, samples, target)


# ------------------------------------------------------------------------------------------------ the others

ORT_METHODS: dict[str, dict[str, object]] = {
    "MinMax": {},
    "Entropy": {},
    "Percentile": {"CalibPercentile": 99.999},
}


def with_onnxruntime(
    source: Path, method: str, options: dict[str, object], samples: Samples, target: Path
) -> None:
    from onnxruntime.quantization import QuantType

    onnx_by_runtime(
        source, target, samples, method=method, activation_type=QuantType.QInt8, extra_options=options
    )


NNCF_SETTINGS: dict[str, dict[str, object]] = {
    "": {},
    ", accurate bias": {"fast_bias_correction": False, "preset": "mixed"},
    ", transformer": {"fast_bias_correction": False, "model_type": "transformer"},
}


def with_nncf(source: Path, options: dict[str, object], samples: Samples, target: Path) -> None:
    import nncf
    import onnx

    model = onnx.load(source)
    name = model.graph.input[0].name
    data = nncf.Dataset(samples, lambda x: {name: x})
    kinds = {"preset": nncf.QuantizationPreset, "model_type": nncf.ModelType}
    chosen = {key: kinds[key](value) if key in kinds else value for key, value in options.items()}
    onnx.save(nncf.quantize(model, data, subset_size=len(samples), **chosen), target)


LITERT_ALGORITHMS = {"": "MIN_MAX_UNIFORM_QUANT", ", MSE": "MSE", ", OCTAV": "OCTAV", ", GPTQ": "GPTQ"}


def with_litert_quantizer(plain: Path, algorithm: str, samples: Samples, target: Path) -> None:
    from ai_edge_litert.interpreter import Interpreter
    from ai_edge_quantizer import algorithm_manager, quantizer, recipe

    maker = quantizer.Quantizer(str(plain))
    maker.load_quantization_recipe(recipe.static_wi8_ai8(algorithm_manager.AlgorithmName[algorithm]))
    ((key, ends),) = Interpreter(str(plain)).get_signature_list().items()
    (name,) = ends["inputs"]
    ranges = maker.calibrate({key: [{name: sample} for sample in samples]})
    maker.quantize(ranges).export_model(str(target), overwrite=True)


def with_aimet(source: Path, equalizes: bool, samples: Samples, target: Path) -> None:
    import aimet_onnx
    import onnx
    from aimet_onnx.cross_layer_equalization import equalize_model

    configs = Path(aimet_onnx.__file__).parent / "common" / "quantsim_config"
    by_channel = configs / "default_config_per_channel.json"
    model = onnx.load(source)
    if equalizes:
        equalize_model(model)
    simulated = aimet_onnx.QuantizationSimModel(
        model,
        param_type="int8",
        activation_type="int8",
        config_file=str(by_channel),
        providers=["CPUExecutionProvider"],
    )
    feed = model.graph.input[0].name
    simulated.compute_encodings([{feed: sample} for sample in samples])
    onnx.save(simulated.to_onnx_qdq(), target)


if __name__ == "__main__":
    main()
