"""Preprocessing layers of Keras with random configurations; see `_keras_cases`."""

from __future__ import annotations

import numpy as np

from tests.oracle._keras_cases import Case, Draw, case


@case("Rescaling")
def rescaling(d: Draw) -> Case:
    return Case(d.layers.Rescaling(d.of(1 / 255, 2.0), offset=d.of(0.0, -1.0)), [d.sizes(3)])


@case("Normalization")
def normalization(d: Draw) -> Case:
    axis = d.of(-1, None, 1)
    shape = (3, 4)
    if axis is None:
        layer = d.layers.Normalization(axis=None, mean=1.5, variance=2.0)
    else:
        size = 4 if axis == -1 else 3
        numbers = [float(n) for n in range(size)]
        layer = d.layers.Normalization(axis=axis, mean=numbers, variance=[n + 0.5 for n in numbers])
    return Case(layer, [shape])


@case("Resizing")
def resizing(d: Draw) -> Case:
    options = {"crop_to_aspect_ratio": d.flag()}
    if d.generation == 3:
        options = d.of(options, {"pad_to_aspect_ratio": True, "fill_value": 0.3}, {"antialias": True})
    method = d.of("bilinear", "nearest", *(["bicubic"] if d.generation == 3 else []))
    if d.generation == 3 and d.flag():
        # Of twice the size the sums are exact, and are rounded alike.
        return Case(d.layers.Resizing(8, 10, interpolation="bilinear"), [(4, 5, 3)], integers=256)
    layer = d.layers.Resizing(d.size(2, 9), d.size(2, 9), interpolation=method, **options)
    return Case(layer, [(*d.sizes(2, 4, 9), 3)])


@case("CenterCrop")
def center_crop(d: Draw) -> Case:
    return Case(d.layers.CenterCrop(d.size(2, 7), d.size(2, 7)), [(*d.sizes(2, 4, 9), 3)])


for _name, _options in {
    "RandomFlip": {},
    "RandomRotation": {"factor": 0.2},
    "RandomZoom": {"height_factor": 0.2},
    "RandomContrast": {"factor": 0.2},
    "RandomTranslation": {"height_factor": 0.2, "width_factor": 0.1},
}.items():
    case(_name)(lambda d, name=_name, options=_options: Case(getattr(d.layers, name)(**options), [(5, 6, 3)]))


@case("MelSpectrogram", (3,))
def mel_spectrogram(d: Draw) -> Case:
    length = d.of(None, 24, 25)
    layer = d.layers.MelSpectrogram(
        fft_length=32, sequence_length=length, sequence_stride=d.size(4, 20), num_mel_bins=d.size(3, 9),
        window=d.of("hann", "hamming", None), sampling_rate=8000, min_freq=d.of(0.0, 40.0),
        max_freq=d.of(None, 3000), power_to_db=d.flag(), mag_exp=d.of(1.0, 2.0, 1.5),
        ref_power=d.of(1.0, 0.3),
    )  # fmt: skip
    return Case(layer, [(d.size(64, 99),)])


@case("STFTSpectrogram", (3,))
def stft_spectrogram(d: Draw) -> Case:
    length, form = d.size(5, 12), d.of("channels_last", "channels_first")
    layer = d.layers.STFTSpectrogram(
        mode=d.of("log", "magnitude", "psd", "real", "imag", "angle", "stft"), frame_length=length,
        frame_step=d.of(None, 3), fft_length=d.of(None, 16), window=d.of(np.hanning(length).tolist(), None),
        scaling=d.of("density", None), padding=d.of("valid", "same"), expand_dims=d.flag(),
        data_format=form,
    )  # fmt: skip
    return Case(layer, [(40, 2) if form == "channels_last" else (2, 40)])


@case("HashedCrossing", (2, 3))
def hashed_crossing(d: Draw) -> Case:
    layer = d.layers.HashedCrossing(num_bins=d.size(3, 50), output_mode=d.of("int", "one_hot"))
    return Case(layer, [(1,), (1,)], integers=1000)


@case("AutoContrast", (3,))
def auto_contrast(d: Draw) -> Case:
    return Case(d.layers.AutoContrast(value_range=d.of((0, 255), (0, 1), (-2, 2))), [(6, 5, 3)])


@case("MaxNumBoundingBoxes", (3,))
def max_num_bounding_boxes(d: Draw) -> Case:
    return Case(d.layers.MaxNumBoundingBoxes(d.size()), [(6, 5, 3)])


@case("Pipeline", (3,))
def pipeline(d: Draw) -> Case:
    layers = [d.layers.Rescaling(0.5, 1.0), d.layers.CenterCrop(4, 4), d.layers.RandomFlip()]
    return Case(d.layers.Pipeline(layers[: d.size(1, 3)]), [(6, 5, 3)])


@case("CategoryEncoding")
def category_encoding(d: Draw) -> Case:
    layer = d.layers.CategoryEncoding(7, output_mode=d.of("one_hot", "multi_hot", "count"))
    shape = (1,) if layer.output_mode == "one_hot" else (d.size(),)
    return Case(layer, [shape], integers=7)


@case("Discretization")
def discretization(d: Draw) -> Case:
    layer = d.layers.Discretization(bin_boundaries=[-1.0, 0.0, 0.5], output_mode=d.of("int", "multi_hot"))
    return Case(layer, [(d.size(),)])


@case("Hashing", (3,))
def hashing(d: Draw) -> Case:
    return Case(
        d.layers.Hashing(5, mask_value=d.of(None, 0), salt=d.of(None, 133)), [(d.size(),)], integers=99
    )
