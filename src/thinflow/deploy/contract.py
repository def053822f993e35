"""What an app has to know of a model: how a picture or a sound becomes what is fed, what the answers mean,
and a sample with its answer. Templates of all targets read it, and so do apps, as model.json.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from thinflow.fit.report import Fit
from thinflow.ir.brief import brief_repr
from thinflow.typing import Array

FORM = 1
"""Of model.json; counts up when what apps read changes its meaning."""

PICTURE, SOUND, RATE, NUMBERS = "picture", "sound", "rate", "numbers"
"""Kinds of inputs: `rate` is the number of samples a second beside a sound."""
SCORES, BOXES, BOX_SCORES, BOX_CLASSES, BOX_COUNT, VALUES = (
    *("scores", "boxes", "box_scores", "box_classes", "box_count", "values"),
)
"""Kinds of outputs."""
CLASSIFICATION, DETECTION, ANY = "classification", "detection", "any"
"""Tasks: names for scores, boxes with scores, or numbers that only the app's author knows to read."""
REAL, WHOLE, QUANTIZED = "real", "whole", "quantized"
"""How a scaled number is stored in an input: as it is, as the whole number that it is, or by scale and zero
point."""


@brief_repr
@dataclass(frozen=True)
class PictureSteps:
    """How a picture of any size becomes an input [height, width, channels] of numbers, in this order:
    resized, cut, resized again where it still has another size, its channels ordered, and scaled as
    (pixel - mean) / std in float32.

    Every resize is bilinear on bytes, with a filter that is widened where a picture gets smaller, as Pillow
    has it; across before down, rounded in between.

    Attributes:
        height, width, channels: of the input; 1 channel is grey, the fourth is opacity.
        order: "rgb", "bgr", "grey" or "rgba".
        resize: before it is cut: the shorter side, (height, width), or None to leave that out.
        crop: "center" cuts the input's size out of the middle, or without `resize` the largest part of its
            shape; "" presses the whole picture into it.
        mean, std: a number for each channel, in the order in which they are fed.
        store: "real", "whole" or "quantized".
    """

    height: int
    width: int
    channels: int
    order: str
    resize: int | tuple[int, int] | None = None
    crop: str = ""
    mean: tuple[float, ...] = (0.0,)
    std: tuple[float, ...] = (1.0,)
    store: str = REAL

    def data(self) -> dict[str, Any]:
        """For machines; `resize` is [] for none, [side] for a shorter side, or [height, width]."""
        sides = self.resize
        listed = [] if sides is None else [sides] if isinstance(sides, int) else list(sides)
        return {
            "height": self.height,
            "width": self.width,
            "channels": self.channels,
            "order": self.order,
            "resize": listed,
            "crop": self.crop,
            "mean": list(self.mean),
            "std": list(self.std),
            "store": self.store,
        }


@brief_repr
@dataclass(frozen=True)
class SoundSteps:
    """How a sound becomes an input: samples of its first channel, cut or followed by silence.

    Attributes:
        samples: how many are fed.
        sample_rate: a second; sounds of another rate have to be resampled before.
        store: "real", as floats in -1..1, sample / 32768, or "whole", as 16-bit samples.
        inside: what the model itself computes of them, in words: "spectrogram", "MFCC features".
    """

    samples: int
    sample_rate: int
    store: str = REAL
    inside: tuple[str, ...] = ()

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "samples": self.samples,
            "sample_rate": self.sample_rate,
            "store": self.store,
            "inside": list(self.inside),
        }


@brief_repr
@dataclass(frozen=True)
class AppInput:
    """One input of the model.

    Attributes:
        name: of its tensor in the file.
        alias: what the file's signature calls it.
        shape: all sizes, the batch of 1 included.
        dtype: as numpy calls it: "float32", "int8", "uint8", "int32", ...
        scale, zero_point: real = scale * (code - zero_point); a scale of 0: the numbers stand for themselves.
        kind: "picture", "sound", "rate" or "numbers".
        picture, sound: of such an input.
        value: of a "rate", what is fed.
        said: where that stands: "TFLITE_METADATA", "flags", or "" if nothing says it.
    """

    name: str
    alias: str
    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0
    zero_point: int = 0
    kind: str = NUMBERS
    picture: PictureSteps | None = None
    sound: SoundSteps | None = None
    value: int = 0
    said: str = ""

    def data(self) -> dict[str, Any]:
        """For machines; steps that it does not have are left out."""
        found: dict[str, Any] = {
            "name": self.name,
            "alias": self.alias,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "scale": self.scale,
            "zero_point": self.zero_point,
            "kind": self.kind,
        }
        if self.picture is not None:
            found["picture"] = self.picture.data()
        if self.sound is not None:
            found["sound"] = self.sound.data()
        if self.kind == RATE:
            found["value"] = self.value
        return {**found, "said": self.said}


@brief_repr
@dataclass(frozen=True)
class AppOutput:
    """One output of the model.

    Attributes:
        name, alias, shape, dtype, scale, zero_point: as for an input.
        kind: "scores", "boxes", "box_scores", "box_classes", "box_count" or "values". Boxes are rows of y1,
            x1, y2, x2.
        softmax: whether the app has to make probabilities of the scores, since the model does not.
        tolerance: the largest difference of a real number from the self-test's that is none.
    """

    name: str
    alias: str
    shape: tuple[int, ...]
    dtype: str
    scale: float = 0.0
    zero_point: int = 0
    kind: str = VALUES
    softmax: bool = False
    tolerance: float = 0.0

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "name": self.name,
            "alias": self.alias,
            "shape": list(self.shape),
            "dtype": self.dtype,
            "scale": self.scale,
            "zero_point": self.zero_point,
            "kind": self.kind,
            "softmax": self.softmax,
            "tolerance": self.tolerance,
        }


@brief_repr
@dataclass(frozen=True)
class SelfTest:
    """A sample and what the model answers to it.

    Attributes:
        raw: the picture [height, width, 1, 3 or 4] of uint8, or the samples [n] of int16 that it was made of;
            None for numbers.
        inputs: what is fed, in the order of the model's inputs.
        outputs: what it answers, in their order.
        answer: in words: the likeliest class or the boxes, as the app shows them.
        origin: where the sample comes from: a file's name, or "made up".
    """

    raw: Array | None
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]
    answer: str
    origin: str


@brief_repr
@dataclass(frozen=True)
class PlainC:
    """The model as plain C, where a target has that in place of a runtime.

    Attributes:
        files: NAME.c, NAME.h and NAME_weights.c -> their texts.
        cpu, rounding: they were made for.
        fit: what they take on that processor.
        proof: what they were compared with, and what came of that.
        notes: what else to know of them.
        has_state: whether runs hand something on.
        has_test: whether the sample and LiteRT's answer to it are in them.
    """

    files: Mapping[str, str]
    cpu: str
    rounding: str
    fit: Fit
    proof: str
    notes: tuple[str, ...] = ()
    has_state: bool = False
    has_test: bool = True

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "cpu": self.cpu,
            "rounding": self.rounding,
            "flash_bytes": self.fit.flash_bytes,
            "ram_bytes": self.fit.ram_bytes,
            "stack_bytes": self.fit.footprint.stack_bytes,
            "is_compiled": self.fit.footprint.is_compiled,
        }


@brief_repr
@dataclass(frozen=True)
class Contract:
    """All that an app has to know.

    Attributes:
        name: letters, digits and _, beginning with a letter: of packages, programs and functions.
        title: what people read.
        source: file name of the model that it was made of.
        file: name of the model in the folder.
        task: "classification", "detection" or "any".
        inputs, outputs: in the order of the file.
        labels: names of classes, in their order; empty if they are not known.
        top: how many of the likeliest classes an app shows.
        threshold: score from which on a box is shown.
        test: a sample.
        doubts: what is not known, in sentences that say which flag tells it.
        made_by: "thinflow 1.2.3".
        c: the model as C; `inputs` and `outputs` are then those of its functions.
    """

    name: str
    title: str
    source: str
    file: str
    task: str
    inputs: tuple[AppInput, ...]
    outputs: tuple[AppOutput, ...]
    labels: tuple[str, ...]
    test: SelfTest
    top: int = 5
    threshold: float = 0.5
    doubts: tuple[str, ...] = ()
    made_by: str = ""
    c: PlainC | None = None

    @property
    def features(self) -> tuple[str, ...]:
        """Kinds of inputs, and the task: folders of templates that a target adds to those it always has."""
        kinds = [kind for kind in (PICTURE, SOUND) if any(i.kind == kind for i in self.inputs)]
        return (*(kinds or [NUMBERS]), self.task)

    @property
    def main_input(self) -> AppInput:
        """The picture or the sound; else the first."""
        return next((i for i in self.inputs if i.kind in (PICTURE, SOUND)), self.inputs[0])

    def data(self) -> dict[str, Any]:
        """For machines: the content of model.json."""
        return {
            "form": FORM,
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "file": self.file,
            "task": self.task,
            "inputs": [i.data() for i in self.inputs],
            "outputs": [o.data() for o in self.outputs],
            "labels": list(self.labels),
            "top": self.top,
            "threshold": self.threshold,
            "self_test": {
                "raw": self.raw_file,
                "inputs": [f"selftest/input_{n}.bin" for n in range(len(self.inputs))],
                "outputs": [f"selftest/output_{n}.bin" for n in range(len(self.outputs))],
                "answer": self.test.answer,
                "origin": self.test.origin,
            },
            "doubts": list(self.doubts),
            "made_by": self.made_by,
            **({} if self.c is None else {"c": self.c.data()}),
        }

    @property
    def raw_file(self) -> str:
        """The sample before it is prepared, as a file below the assets; "" for numbers."""
        kinds = {PICTURE: "selftest/sample.png", SOUND: "selftest/sample.wav"}
        return "" if self.test.raw is None else kinds.get(self.main_input.kind, "")


def only(items: Sequence[AppInput], kind: str) -> AppInput | None:
    """The input of a kind; None if there is none."""
    return next((i for i in items if i.kind == kind), None)
