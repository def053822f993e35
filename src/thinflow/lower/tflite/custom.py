"""Spectra, sound features, and the end of an object detector: each is one operator of LiteRT."""

from __future__ import annotations

from thinflow.ir.graph import Node
from thinflow.ir.types import FLOAT, INT32, dtype
from thinflow.lower.rules import lower
from thinflow.lower.tflite.builder import Builder, ints, require, shape_of
from thinflow.tflite.model import Tensor

_MAX_WINDOW = 1 << 16


@lower("AudioSpectrogram", to="tflite")
def audio_spectrogram(
    b: Builder, node: Node, audio: Tensor, *, window_size: int, stride: int, magnitude_squared: bool = False
) -> Tensor:
    """audio [samples,channels] -> [channels,frames,bins]. The kernel fails on less than one window."""
    samples, channels = shape_of(audio, "the audio", 2)
    require(audio.dtype is FLOAT, f"LiteRT takes float sound, not {audio.dtype}")
    require(
        1 < window_size <= _MAX_WINDOW and stride > 0, f"a window of {window_size} every {stride} samples"
    )
    require(
        samples is not None and channels is not None,
        "the number of samples is not known",
        "fix it: desired_samples of DecodeWav, or the shape of the input",
    )
    require((samples or 0) >= window_size, f"{samples} samples are less than a window of {window_size}")
    options = {"window_size": window_size, "stride": stride, "magnitude_squared": bool(magnitude_squared)}
    return b.custom("AudioSpectrogram", audio, options=options)[0]


@lower("Mfcc", to="tflite")
def mfcc(
    b: Builder,
    node: Node,
    spectrogram: Tensor,
    sample_rate: Tensor,
    *,
    upper_frequency_limit: float = 4000.0,
    lower_frequency_limit: float = 20.0,
    filterbank_channel_count: int = 40,
    dct_coefficient_count: int = 13,
) -> Tensor:
    """The kernel reads its limits as whole numbers of hertz."""
    shape_of(spectrogram, "the spectrogram", 3)
    require(
        spectrogram.dtype is FLOAT and sample_rate.dtype is INT32, "LiteRT takes float sound at an int32 rate"
    )
    limits = {"upper_frequency_limit": upper_frequency_limit, "lower_frequency_limit": lower_frequency_limit}
    # Its parser asks the options for integers: 20.5 would be another number without a word.
    broken = [name for name, limit in limits.items() if not float(limit).is_integer()]
    require(not broken, f"LiteRT takes whole numbers of hertz only, unlike its {' and '.join(broken)}")
    require(
        0 < dct_coefficient_count <= filterbank_channel_count,
        f"{dct_coefficient_count} coefficients of {filterbank_channel_count} filters",
    )
    counts = {
        "filterbank_channel_count": filterbank_channel_count,
        "dct_coefficient_count": dct_coefficient_count,
    }
    options = {name: int(limit) for name, limit in limits.items()} | counts
    return b.custom("Mfcc", spectrogram, sample_rate, options=options)[0]


@lower("TFLite_Detection_PostProcess", to="tflite")
def detection_post_process(
    b: Builder,
    node: Node,
    encodings: Tensor,
    scores: Tensor,
    anchors: Tensor,
    *,
    max_detections: int,
    num_classes: int,
    nms_score_threshold: float,
    nms_iou_threshold: float,
    y_scale: float,
    x_scale: float,
    h_scale: float,
    w_scale: float,
    max_classes_per_detection: int = 1,
    use_regular_nms: bool = False,
    detections_per_class: int = 100,
) -> tuple[Tensor, ...]:
    """encodings [1,n,4+], scores [1,n,classes(+1)], anchors [n,4] -> boxes, classes, scores, count."""
    for tensor, what, rank in ((encodings, "encodings", 3), (scores, "scores", 3), (anchors, "anchors", 2)):
        sizes = shape_of(tensor, f"the {what}", rank)
        require(tensor.dtype is FLOAT, f"the {what} are {tensor.dtype}, not float")
        require(rank == 2 or sizes[0] in (1, None), f"LiteRT looks at one image at a time, not {sizes[0]}")
    require(0 < nms_iou_threshold <= 1, f"an overlap of {nms_iou_threshold:g} cannot be a threshold")
    options = {
        "max_detections": max_detections,
        "max_classes_per_detection": max_classes_per_detection,
        "detections_per_class": detections_per_class,
        "use_regular_nms": bool(use_regular_nms),
        "nms_score_threshold": float(nms_score_threshold),
        "nms_iou_threshold": float(nms_iou_threshold),
        "num_classes": num_classes,
        "y_scale": float(y_scale),
        "x_scale": float(x_scale),
        "h_scale": float(h_scale),
        "w_scale": float(w_scale),
    }
    # The kernel reads its options by these names from a FlexBuffers map.
    return b.custom(node.op, encodings, scores, anchors, count=4, options=options)


# ---- Fourier transforms of real numbers.


def _lengths(x: Tensor, lengths: Tensor, count: int) -> tuple[int, ...]:
    """The lengths of the transforms, which the kernel wants to be powers of two."""
    found = ints(lengths, "the length of the transform")
    require(len(found) == count, f"{len(found)} lengths for a transform along {count} axes")
    for size, length in zip(shape_of(x)[-count:], found, strict=True):
        fits = size is None or size >= length
        require(fits, f"axes of {size} are shorter than the transform, {length}")
    # n & (n - 1) clears the lowest bit that is set: 0 is left of a power of two.
    broken = [n for n in found if n < 1 or n & (n - 1)]
    require(found[-1:] != (1,), "LiteRT's transform of single numbers adds up others beside them")
    require(not broken, f"LiteRT transforms powers of two only, not {', '.join(map(str, broken))}")
    return found


@lower("RFFT2D", to="tflite")
def rfft2d(b: Builder, node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    require(x.dtype is FLOAT, f"LiteRT transforms float only, not {x.dtype}")
    require(len(shape_of(x)) >= 2, "the input has no two axes")
    return b.emit("RFFT2D", x, b.ints(_lengths(x, lengths, 2), "lengths"))


@lower("RFFT", to="tflite")
def rfft(b: Builder, node: Node, x: Tensor, lengths: Tensor) -> Tensor:
    """[...,n] as [...,1,n], whose other transform has length 1."""
    require(x.dtype is FLOAT, f"LiteRT transforms float only, not {x.dtype}")
    sizes = shape_of(x)
    require(len(sizes) >= 1 and sizes.count(None) <= 1, "more than one size is not known")
    (length,) = _lengths(x, lengths, 1)
    wide = b.reshaped(x, (*sizes[:-1], 1, sizes[-1]))
    shape = (*sizes[:-1], 1, length // 2 + 1)
    both = b.step("RFFT2D", wide, b.ints([1, length], "lengths"), shape=shape, element=dtype("complex64"))
    # RESHAPE copies bytes, so complex numbers go through it as well.
    inputs, options = b.reshape_operands([-1 if n is None else n for n in (*sizes[:-1], shape[-1])], both)
    return b.emit("RESHAPE", *inputs, **options)
