"""What an .onnx file says of its use in `metadata_props`: the standard's keys for images, and lists of class
names, means and deviations under the keys that exporters write.
"""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from thinflow.ir.types import Shape
from thinflow.ir.usage import AXIS, BGR, GREY, IMAGE, RGB, InputUsage, OutputUsage, Usage, Words
from thinflow.onnx.program import Program

SAID = "metadata_props"
PIXEL_FORMAT, PIXEL_RANGE = "image.bitmappixelformat", "image.nominalpixelrange"
FORMATS = {"gray8": GREY, "rgb8": RGB, "bgr8": BGR}
"""Values of Image.BitmapPixelFormat in ONNX's MetadataProps.md; keys and values in any case."""
RANGES: dict[str, tuple[float, float]] = {
    "nominalrange_0_255": (0.0, 1.0),
    "normalized_0_1": (0.0, 255.0),
    "normalized_1_1": (127.5, 127.5),
    # 0..255 becomes 16..235: x * 219 / 255 + 16.
    "nominalrange_16_235": (-16 * 255 / 219, 255 / 219),
}
"""Values of Image.NominalPixelRange: mean and standard deviation of pixels 0..255."""
# In the order in which they are believed.
_LABELS = ("names", "labels", "classes", "class_names", "class_labels", "label_names", "id2label")
_SCALINGS = tuple((f"{whose}mean", f"{whose}std") for whose in ("", "image_", "norm_", "input_"))
_SIZES = ("imgsz", "image_size", "input_size")
_MOST_TEXT = 1 << 21
"""Characters. The longest lists of classes have 22 thousand names."""
_MOST_NOTES, _SHOWN_TEXT = 50, 400
_MOST_CHANNELS = 4
_LARGEST_SIDE = 1 << 16


@dataclass(frozen=True)
class End:
    """An input or output: its name in the graph, its shape, and what the file's type says that it is."""

    name: str
    shape: Shape
    denotation: str = ""


def read_usage(
    props: Mapping[str, str],
    inputs: Sequence[End],
    outputs: Sequence[End],
    classes: Mapping[str, Words] | None = None,
) -> Usage:
    """What the metadata of a model says of its ends. A value that makes no sense is left out, and named in
    `problems`.

    Args:
        props: `metadata_props` of the model.
        inputs, outputs: of its graph.
        classes: names of classes that operators of the file state: name of the output -> names.
    """
    reader = _Reader({key.lower(): text for key, text in props.items()})
    picture = next((e for e in inputs if e.denotation.upper() == "IMAGE"), None) or _only_picture(inputs)
    # Read in any case: what is understood is no free key.
    made, labels = reader.image(picture is not None), reader.labels()
    said = "class labels of an operator"
    found = {name: OutputUsage(words, said=said) for name, words in (classes or {}).items()}
    if labels is not None and outputs:
        end = next((e for e in outputs if e.shape and e.shape[-1] == len(labels.words)), None)
        # Detectors have the names of their classes, too, which belong to a part of an output.
        labels = labels if end is not None else replace(labels, of="")
        found.setdefault((end or outputs[0]).name, OutputUsage(labels, said=SAID))
    notes = {
        key: text[:_SHOWN_TEXT]
        for key, text in list(props.items())[:_MOST_NOTES]
        if key.lower() not in reader.used and text
    }
    kept = {picture.name: made} if picture is not None and made is not None else {}
    return Usage(kept, found, notes, tuple(reader.problems))


def _only_picture(inputs: Sequence[End]) -> End | None:
    """The one input in the form of pictures; None if there are none or several."""
    found = [e for e in inputs if e.shape is not None and len(e.shape) == 4 and _has_channels(e.shape)]
    return found[0] if len(found) == 1 else None


def _has_channels(shape: Sequence[int | None]) -> bool:
    return any(shape[axis] in (None, 1, 3, 4) for axis in (1, 3))


class _Reader:
    """Values by their keys in small letters; which of them were understood, and what is wrong with others."""

    def __init__(self, props: Mapping[str, str]) -> None:
        self.props = props
        self.used: set[str] = set()
        self.problems: list[str] = []

    def image(self, wanted: bool) -> InputUsage | None:
        """The usage of the image; None if nothing says anything of one."""
        usage = replace(self._range(), colours=self._colours(), size=self._size())
        if not wanted or usage == InputUsage():
            return None
        if "ultralytics" in self.props.get("author", "").lower() and not usage.is_scaled:
            usage = replace(
                usage,
                colours=usage.colours or RGB,
                mean=(0.0,),
                std=(255.0,),
                assumed="networks of Ultralytics take x / 255",
            )
        return replace(usage, kind=IMAGE, said=SAID)

    def _colours(self) -> str:
        name = self.props.get(PIXEL_FORMAT, "").lower()
        colours = FORMATS.get(name, "")
        if colours:
            self.used.add(PIXEL_FORMAT)
        return colours

    def _range(self) -> InputUsage:
        named = RANGES.get(self.props.get(PIXEL_RANGE, "").lower())
        pair = next(((m, s) for m, s in _SCALINGS if m in self.props and s in self.props), None)
        if pair is not None:
            stated = self._scaling(*pair, in_pixels=named == RANGES["nominalrange_0_255"])
            if stated is not None:
                self.used |= {*pair, PIXEL_RANGE}
                return stated
        if named is None:
            return InputUsage()
        self.used.add(PIXEL_RANGE)
        return InputUsage(mean=(named[0],), std=(named[1],))

    def _scaling(self, mean_key: str, std_key: str, *, in_pixels: bool) -> InputUsage | None:
        """(x - mean) / std; numbers of 1 and less are those of pixels 0..1, as torchvision has them."""
        mean, std = (_numbers(self.props[key]) for key in (mean_key, std_key))
        sizes = {len(mean), len(std)} - {1}
        if not mean or not std or len(sizes) > 1 or max(sizes, default=1) > _MOST_CHANNELS or 0 in std:
            self.problems.append(f"'{mean_key}' and '{std_key}' of its metadata are no mean and deviation")
            return None
        if in_pixels or max(*mean, *std) > 1:
            return InputUsage(mean=mean, std=std)
        mean, std = (tuple(float(f"{n * 255:.9g}") for n in numbers) for numbers in (mean, std))
        return InputUsage(mean=mean, std=std, assumed=f"its {mean_key} and {std_key} are of pixels 0..1")

    def _size(self) -> tuple[int, int] | None:
        for key in _SIZES:
            numbers = _numbers(self.props.get(key, ""))
            sides = [int(n) for n in numbers if n == int(n) and 0 < n < _LARGEST_SIDE]
            if numbers and len(sides) == len(numbers) <= 2:
                self.used.add(key)
                return sides[0], sides[-1]
        return None

    def labels(self) -> Words | None:
        """The names of the classes."""
        for key in _LABELS:
            if key not in self.props:
                continue
            words = label_list(self.props[key])
            if words:
                self.used.add(key)
                return Words(f"'{key}'", tuple(words), of=AXIS)
        return None


def _numbers(text: str) -> tuple[float, ...]:
    """`0.5`, `[0.1, 0.2]`, `(1, 2)`, `1, 2`; empty if a text is none of these."""
    parts = text[:_SHOWN_TEXT].strip().strip("[]()").replace(",", " ").split()
    try:
        found = tuple(float(part) for part in parts)
    except ValueError:
        return ()
    return found if all(map(math.isfinite, found)) else ()


def label_list(text: str) -> list[str]:
    """Names in their order from JSON or Python's spelling of a list, or of a dict from numbers to names; else
    from lines, else from a list with commas. Empty if it is none of these.
    """
    if len(text) > _MOST_TEXT:
        return []
    stripped = text.strip()
    if stripped[:1] in ("[", "{"):
        return _names(_parsed(stripped))
    lines = [line.strip() for line in stripped.splitlines()]
    names = lines if len(lines) > 1 else [part.strip() for part in stripped.split(",")]
    return names if len(names) > 1 else []


def _parsed(text: str) -> object:
    for parse in (json.loads, ast.literal_eval):  # the latter takes literals only, and runs nothing
        try:
            found: object = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
            continue
        return found
    return None


def _names(found: object) -> list[str]:
    if isinstance(found, dict):
        try:
            numbered = {int(key): name for key, name in found.items()}
        except (ValueError, TypeError):
            return []
        # Without gaps: a missing number would give all names behind it to other classes.
        if sorted(numbered) != list(range(len(found))):
            return []
        found = [numbered[number] for number in range(len(numbered))]
    if not isinstance(found, list) or not all(isinstance(n, str | int | float) for n in found):
        return []
    return [str(name) for name in found]


def described(program: Program, usage: Usage) -> Program:
    """The program with `metadata_props` that say what is known of its use, as `read_usage` reads them.
    What is only assumed is not written.
    """
    ends = ([End(t.name, t.shape) for t in side] for side in (program.inputs, program.outputs))
    props = _props(usage, *ends)
    return replace(program, metadata={**program.metadata, **props}) if props else program


def _props(usage: Usage, inputs: Sequence[End], outputs: Sequence[End]) -> dict[str, str]:
    props = dict(usage.notes)
    pictures = [(e, u) for e in inputs if (u := usage.input(e.name)) is not None and u.kind == IMAGE]
    if len(pictures) == 1:
        props |= _image_props(pictures[0][1])
    for end in outputs:
        width = end.shape[-1] if end.shape else None
        if (labels := usage.labels(end.name, width)) is not None:
            # As Ultralytics writes them, which tools for ONNX files read.
            props["names"] = repr(dict(enumerate(labels.words)))
            break
    return props


def _image_props(usage: InputUsage) -> dict[str, str]:
    props = {}
    names = {colours: name for name, colours in FORMATS.items()}
    if usage.colours in names:
        props["Image.BitmapPixelFormat"] = names[usage.colours].capitalize()
    if not usage.is_scaled or usage.assumed:
        return props
    known = {pair: name for name, pair in RANGES.items()}
    pair = (usage.mean[0], usage.std[0])
    if len(usage.mean) == len(usage.std) == 1 and pair in known:
        name = known[pair]
        return props | {"Image.NominalPixelRange": "N" + name[1:].replace("range", "Range")}
    lists = {"mean": usage.mean, "std": usage.std}
    props |= {key: json.dumps(list(numbers)) for key, numbers in lists.items()}
    # Else numbers up to 1 would be taken for those of pixels 0..1.
    return props | {"Image.NominalPixelRange": "NominalRange_0_255"}
