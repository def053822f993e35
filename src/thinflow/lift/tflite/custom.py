"""Operators that are not LiteRT's own: TensorFlow's ops run by its kernels ("Flex"), sound, detectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from thinflow.errors import FormatError, UnsupportedOp
from thinflow.ir.attrs import Attr, FunctionAttr
from thinflow.ir.graph import Value
from thinflow.ir.types import INT32
from thinflow.lift.lifter import Call
from thinflow.lift.rules import lifts, lifts_defined
from thinflow.tflite.flexbuffer import decode

_FLEX = "tfl.custom.Flex"


def map_of(c: Call) -> dict[str, Any]:
    """The options of a custom operator, which are a map in FlexBuffers.

    Raises:
        UnsupportedOp: they are something else.
    """
    try:
        stored = c.node.attrs.get("custom_options", b"")
        found = decode(stored if isinstance(stored, bytes) else b"")
    except FormatError as error:
        raise UnsupportedOp(f"its options cannot be read: {error.problem}") from error
    if not isinstance(found, dict):
        raise UnsupportedOp("its options are no map")
    return found


def results_of(c: Call, op: str, *inputs: Value, count: int, **attrs: Attr | None) -> list[Value]:
    """The outputs of one node, as many as the operator has."""
    node = c.many(op, *inputs, **attrs)
    return [node.output(n) for n in range(count)]


def by_map(op: str, *options: str, operands: int, count: int = 1) -> Callable[[Call], list[Value]]:
    """The rule for an operator whose options are attributes of an op, by the same names."""

    def rule(c: Call) -> list[Value]:
        found = map_of(c)
        # Converters note types of tensors and flags of their own along with the op's attributes.
        strange = [k for k in found if k not in options and not k.startswith("_")]
        if strange:
            raise UnsupportedOp(f"its option '{strange[0]}' is not known here")
        attrs: dict[str, Attr | None] = {"T": None} | {k: found[k] for k in options if k in found}
        inputs = [c[n] for n in range(operands)]
        return results_of(c, op, *inputs, count=count, **attrs)

    return rule


@lifts_defined(_FLEX)
def flex(c: Call) -> list[Value]:
    """An op of TensorFlow, which the file holds as it was; its reader made attributes of the NodeDef."""
    op = c.node.op.removeprefix(_FLEX)
    attrs = {k: v for k, v in c.node.attrs.items() if k.startswith("flex.")}
    c.read_options.update(attrs)
    if any(isinstance(v, FunctionAttr) for v in attrs.values()):
        raise UnsupportedOp(f"{op} calls functions, which are not in the file")
    inputs = [c[n] for n in range(len(c.xs))]
    own: dict[str, Attr | None] = {"T": None}
    own |= {k.removeprefix("flex."): v for k, v in attrs.items()}
    return results_of(c, op, *inputs, count=max(len(c.node.outputs), 1), **own)


@lifts("tfl.custom.TFLite_Detection_PostProcess")
def detection(c: Call) -> list[Value]:
    """TFLite_Detection_PostProcess: encodings, scores, anchors -> boxes, classes, scores, count."""
    known = (
        *("max_detections", "num_classes", "nms_score_threshold", "nms_iou_threshold"),
        *("y_scale", "x_scale", "h_scale", "w_scale", "max_classes_per_detection", "use_regular_nms"),
        "detections_per_class",
    )
    return by_map("TFLite_Detection_PostProcess", *known, operands=3, count=4)(c)


@lifts("tfl.custom.AvgPool3D", "tfl.custom.MaxPool3D")
def pool_3d(c: Call) -> Value:
    """AvgPool3D, MaxPool3D: TensorFlow's attributes, as a map."""
    found = map_of(c)
    wanted = {k: tuple(found[k]) for k in ("ksize", "strides") if isinstance(found.get(k), list)}
    if len(wanted) != 2 or found.get("data_format", "NDHWC") != "NDHWC":
        raise UnsupportedOp("its windows are not known")
    op = c.node.op.removeprefix("tfl.custom.")
    return c.emit(op, c[0], **wanted, padding=found.get("padding", "VALID"), data_format="NDHWC")


lifts("tfl.custom.AudioSpectrogram")(
    by_map("AudioSpectrogram", "window_size", "stride", "magnitude_squared", operands=1)
)
lifts("tfl.custom.Mfcc")(
    by_map(
        "Mfcc",
        *("upper_frequency_limit", "lower_frequency_limit"),
        *("filterbank_channel_count", "dct_coefficient_count"),
        operands=2,
    )
)
lifts("tfl.custom.Irfft2d")(lambda c: c.emit("IRFFT2D", c[0], c[1], T=None))
lifts("tfl.custom.Roll")(lambda c: c.emit("Roll", c[0], c[1], c[2], Tshift=INT32, Taxis=INT32))
