"""What a model is fed, and the label, from the fields of a record."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from thinflow.datasets.shard import Record
from thinflow.errors import FeedError, closest
from thinflow.ir.brief import brief_repr
from thinflow.ir.types import STRING, UINT8, TensorSpec
from thinflow.quantize.fitting import Inputs, as_array, fit
from thinflow.quantize.sample_files import Scaling, UnreadableSample, read_picture, read_sound
from thinflow.quantize.stored import UNREADABLE
from thinflow.typing import Array

LABEL = "label"
# As TensorFlow's object detection, WebDataset, Hugging Face and tf.data name it.
_LABELS = ("label", "labels", "cls", "class", "image/class/label", "target", "fine_label")
# Fields that say something of a sample, and are none of it.
_ABOUT = frozenset(("__key__", "key", "image/filename", "image/format", "image/height", "image/width"))
# Fields that are what a model of one input is fed, in the order in which they are looked for.
_CONTENTS = ("image", "image/encoded", "image_raw", "jpg", "jpeg", "png", "wav", "audio", "npy", "bmp", "x")
_PICTURES = (b"\xff\xd8\xff", b"\x89PNG", b"BM", b"GIF8")
_NUMBER = re.compile(r"(_\d+|\[\d+\])$")


@brief_repr
@dataclass(frozen=True)
class Feeding:
    """How records become what one model is fed; the same for calibration and evaluation.

    Attributes:
        inputs: name -> what the model wants there.
        scaling: of pictures.
        fields: name of an input, or "label" -> the field that it comes from; others are found by their names.
    """

    inputs: Inputs
    scaling: Scaling = field(default_factory=Scaling)
    fields: Mapping[str, str] = field(default_factory=dict)

    def feed(self, record: Record) -> dict[str, Array]:
        """Input name -> array of one sample.

        Raises:
            UnreadableSample: the sample is damaged.
            FeedError: fields do not fit the inputs.
        """
        held = unfolded(record, self.inputs)
        row = self._from_columns(held, record.place)
        if row is not None:
            return row
        chosen = self._chosen(held, record.place)
        sound = self._sound(held, chosen, record.place)
        if sound is not None:
            return sound
        return {
            name: fit(self._array(held[found], spec, record.place), name, spec, record.place)
            for (name, spec), found in zip(self.inputs.items(), chosen, strict=True)
        }

    def label(self, record: Record) -> Any:
        """The label as it is stored; None without one.

        Raises:
            FeedError: the field that was asked for is not there.
        """
        wanted = self.fields.get(LABEL)
        # A folder's name goes before a field of that name in a .npz within it.
        if wanted is None and record.label is not None:
            return record.label
        held = unfolded(record, self.inputs)
        name = wanted or next((n for n in _LABELS if n in held and n not in self.inputs), None)
        return None if name is None else _plain_label(_field(held, name, record.place))

    def _chosen(self, held: Mapping[str, Any], where: str) -> list[str]:
        """The field of each input."""
        # A sound fills the rate beside its numbers, too, as a file of LiteRT takes them behind DecodeWav.
        if len(self.inputs) > 1 and not set(self.fields) - {LABEL}:
            heard = [k for k in _CONTENTS if isinstance(v := held.get(k), bytes) and v[:4] == b"RIFF"]
            plain = {key.removesuffix(":0") for key in held}
            if heard and not any(name.removesuffix(":0") in plain for name in self.inputs):
                return heard[:1] * len(self.inputs)
        return [self._field_of(name, held, where) for name in self.inputs]

    def _field_of(self, name: str, held: Mapping[str, Any], where: str) -> str:
        given = self.fields.get(name) or self.fields.get(name.removesuffix(":0"))
        if given is not None:
            _field(held, given, where)
            return given
        # TensorFlow calls the value x:0 what its node calls x.
        plain = {key.removesuffix(":0"): key for key in held}
        if (known := plain.get(name.removesuffix(":0"))) is not None:
            return known
        taken = {self.fields.get(LABEL), *_LABELS, *_ABOUT}
        left = [key for key in held if key not in taken]
        if len(self.inputs) == 1:
            if (usual := next((key for key in _CONTENTS if key in left), None)) is not None:
                return usual
            if len(left) == 1:
                return left[0]
        told = ", ".join(list(held)[:8])
        raise FeedError(
            f"nothing is given for input '{name}': the sample has {told or 'no fields'}",
            where,
            hint=closest(name, left) or f"say which field it is: --fields {name}=FIELD",
        )

    def _sound(self, held: Mapping[str, Any], chosen: Sequence[str], where: str) -> dict[str, Array] | None:
        """Of a WAV file for a model of numbers, which may take its rate, too; None for anything else."""
        content = held.get(chosen[0])
        takes_bytes = any(spec.dtype is STRING for spec in self.inputs.values())
        if takes_bytes or not isinstance(content, bytes) or content[:4] != b"RIFF":
            return None
        try:
            sound = read_sound(content, self.inputs, where)
        except FeedError:
            raise
        except UNREADABLE as e:
            raise UnreadableSample(f"the sound cannot be read: {e}", where) from e
        return {name: fit(x, name, self.inputs[name], where) for name, x in sound.items()}

    def _array(self, value: Any, spec: TensorSpec, where: str) -> Array:
        if spec.dtype is STRING or not isinstance(value, bytes):
            return _shaped(as_array(value), spec)
        if is_picture(value):
            return read_picture(io.BytesIO(value), spec, self.scaling, where)
        if value.startswith(b"\x93NUMPY"):
            return _loaded(value, where)
        return self._raw(value, spec, where)

    def _raw(self, value: bytes, spec: TensorSpec, where: str) -> Array:
        """Numbers without a header: pixels, or the input's own type."""
        if spec.size is not None and len(value) == spec.size:
            sizes = [n or 1 for n in spec.shape or ()]
            # As `decode_raw` of TensorFlow's examples has them: height, width and channels in the model's
            # own order.
            pixels = np.frombuffer(value, np.uint8).reshape(sizes)
            return self.scaling.ordered(pixels) if spec.dtype is UINT8 else self.scaling(pixels)
        kind = None if spec.dtype is None else spec.dtype.numpy()
        if kind is not None and spec.size is not None and len(value) == spec.size * kind.itemsize:
            return _shaped(np.frombuffer(value, kind), spec)
        raise UnreadableSample(
            f"{len(value)} bytes are no picture, sound or array, nor as many as {spec} has", where
        )

    def _from_columns(self, held: Mapping[str, Any], where: str) -> dict[str, Array] | None:
        """Of a table's row of numbers, a column each: `x_0`, `x_1`; None for anything else."""
        columns = [key for key in held if key not in (*_LABELS, self.fields.get(LABEL))]
        takes_text = any(spec.dtype is STRING for spec in self.inputs.values())
        if takes_text or not columns or any(not isinstance(held[key], str) for key in columns):
            return None
        plain = {name.removesuffix(":0"): name for name in self.inputs}
        if len(plain) == 1:
            placed = dict.fromkeys(columns, next(iter(self.inputs)))
        else:
            placed = {key: plain.get(_NUMBER.sub("", key.removesuffix(":0")), "") for key in columns}
        if (odd := next((key for key, name in placed.items() if not name), None)) is not None:
            raise FeedError(f"column '{odd}' is of no input", where, f"the model has: {', '.join(plain)}")
        found = {}
        for name, spec in self.inputs.items():
            try:
                row = np.array([float(held[key]) for key in columns if placed[key] == name])
            except ValueError as e:
                raise UnreadableSample(f"a number cannot be read: {e}", where) from e
            found[name] = fit(_shaped(row, spec), name, spec, where)
        return found


def is_picture(content: bytes) -> bool:
    """True for the beginning of a JPEG, PNG, BMP or GIF."""
    return content.startswith(_PICTURES)


def unfolded(record: Record, inputs: Inputs) -> dict[str, Any]:
    """The fields, those inside of .npz and .json members by their own names."""
    held: dict[str, Any] = {}
    for name, value in record.fields.items():
        if name == "npz" and isinstance(value, bytes):
            held |= _members(value, record.place)
        elif name == "json" and isinstance(value, bytes):
            held |= _object(value, record.place)
        else:
            held[name] = value
    return held


def _members(content: bytes, where: str) -> dict[str, Any]:
    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as members:
            return {name: members[name] for name in members.files}
    except UNREADABLE as e:
        raise UnreadableSample(f"the arrays cannot be read: {e}", where) from e


def _object(content: bytes, where: str) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except ValueError as e:
        raise UnreadableSample(f"the JSON cannot be read: {e}", where) from e
    return found if isinstance(found, dict) else {"json": found}


def _field(held: Mapping[str, Any], name: str, where: str) -> Any:
    if name not in held:
        raise FeedError(
            f"the sample has no field '{name}'",
            where,
            hint=closest(name, held) or f"it has: {', '.join(list(held)[:8])}",
        )
    return held[name]


def _loaded(content: bytes, where: str) -> Array:
    try:
        found: Array = np.load(io.BytesIO(content), allow_pickle=False)
    except UNREADABLE as e:
        raise UnreadableSample(f"the array cannot be read: {e}", where) from e
    return found


def _shaped(array: Array, spec: TensorSpec) -> Array:
    """Numbers in a row in the shape of the input, where it has as many: stores keep no shapes."""
    if array.ndim == 1 and spec.size == array.size and spec.shape is not None:
        # tf.Example and Parquet keep lists of numbers without a shape.
        return array.reshape([n or 1 for n in spec.shape])
    return array


def _plain_label(value: Any) -> Any:
    """A word, a number or a list."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.item() if value.ndim == 0 or value.size == 1 else value.tolist()
    if isinstance(value, bytes):
        # Class files of WebDataset hold digits, with a line break behind them.
        value = value.decode("utf-8", "replace")
    return value.strip() if isinstance(value, str) else value
