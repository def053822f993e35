"""LiteRT's model metadata for a program: how its inputs are made, and the names of its classes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from thinflow.ir.usage import AUDIO, AXIS, BOXES, FEATURES, IMAGE, TEXT, InputUsage, OutputUsage, Usage, Words
from thinflow.tflite.metadata import (
    AUDIO_PROPERTIES,
    AXIS_LABELS,
    BOUNDARIES,
    BOX_ORDER,
    BOX_PROPERTIES,
    COLOUR_SPACES,
    FEATURE_PROPERTIES,
    IDENTIFIER,
    IMAGE_PROPERTIES,
    KEY,
    NORMALIZATION,
    NOTES,
    VALUE_LABELS,
    VOCABULARY,
)
from thinflow.tflite.model import Program, Tensor
from thinflow.wire import flatbuffer
from thinflow.wire.flatbuffer import Scalar, Vector, scalar

_PIXELS = (0.0, 255.0)
_CODES = {"uint8": (0.0, 255.0), "int8": (-128.0, 127.0)}
_PARSERS = {"": "1.0.0", TEXT: "1.0.1", AUDIO: "1.3.0"}
"""The first version of LiteRT's metadata parser that knows a kind of input."""


def described(program: Program, usage: Usage) -> Program:
    """The program with metadata that says what is known of its use, and files of words behind it. It is the
    same if nothing is known; what is only assumed is not written.

    Args:
        program: its inputs and outputs have the names that they have in the usage.
        usage: of the graph that it was made from.
    """
    main = program.subgraphs[0]
    writer = _Writer()
    inputs = [writer.input(t, usage.input(t.name)) for t in main.inputs]
    outputs = [writer.output(t, usage.output(t.name)) for t in main.outputs]
    notes = {slot: usage.notes[topic] for slot, topic in NOTES.items() if topic in usage.notes}
    if not writer.has_facts and not notes:
        return program
    root: dict[int, Any] = {
        **notes,
        3: [{2: inputs or None, 3: outputs or None}],
        7: max(_PARSERS.get(kind, "") for kind in ("", *writer.kinds)),
    }
    content = b"".join(flatbuffer.encode(root, IDENTIFIER)[1])
    return replace(program, metadata={**program.metadata, KEY: content}, files=writer.files)


class _Writer:
    """Tables of inputs and outputs, and the files that they name."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self.kinds: set[str] = set()
        self.has_facts = False

    def input(self, tensor: Tensor, usage: InputUsage | None) -> dict[int, Any]:
        """The table of an input; its name alone if nothing is known."""
        usage = usage or InputUsage()
        is_stated = usage.is_scaled and not usage.assumed
        # The kind of an input that somebody only assumed is an assumption, too.
        kind = "" if usage.assumed and not usage.said else usage.kind
        self.kinds.add(kind)
        self.has_facts |= is_stated or bool(kind or usage.words or usage.description)
        units = [{0: Scalar("u8", NORMALIZATION), 1: _normalization(usage)}] if is_stated else None
        low, high = _range(tensor, usage)
        return {
            0: tensor.name,
            1: usage.description or None,
            3: _content(kind, usage),
            4: units,
            5: {0: Vector("f32", high), 1: Vector("f32", low)} if low and high else None,
            6: self._listed(usage.words, VOCABULARY, "vocab.txt"),
        }

    def output(self, tensor: Tensor, usage: OutputUsage | None) -> dict[int, Any]:
        """The table of an output; its name alone if nothing is known."""
        usage = usage or OutputUsage()
        labels = usage.labels if usage.labels is not None and usage.labels.of else None
        width = tensor.shape[-1] if tensor.shape else None
        if labels is not None and labels.of == AXIS and width not in (None, len(labels.words)):
            labels = None
        self.has_facts |= bool(labels or usage.description or usage.kind)
        kind = VALUE_LABELS if labels is not None and labels.of != AXIS else AXIS_LABELS
        return {
            0: tensor.name,
            1: usage.description or None,
            3: _content(usage.kind or (FEATURES if labels else ""), InputUsage()),
            6: self._listed(labels, kind, "labels.txt"),
        }

    def _listed(self, words: Words | None, kind: int, name: str) -> list[dict[int, Any]] | None:
        """The table of a file with words, a line each."""
        if words is None:
            return None
        lines = (re.sub(r"[\r\n]+", " ", word) for word in words.words)
        content = "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")
        own = re.sub(r"[^A-Za-z0-9_.-]", "_", words.name.rpartition("/")[2])
        place = own if own.endswith(".txt") else name
        number = 1
        while self.files.setdefault(place, content) != content:
            number += 1
            place = f"{name.removesuffix('.txt')}_{number}.txt"
        return [{0: place, 2: scalar("i8", kind), 3: words.locale or None}]


def _normalization(usage: InputUsage) -> dict[int, Any]:
    return {0: Vector("f32", usage.mean), 1: Vector("f32", usage.std)}


def _range(tensor: Tensor, usage: InputUsage) -> tuple[Sequence[float], Sequence[float]]:
    """The smallest and the largest number that goes in, of each channel."""
    element = "" if tensor.dtype is None else tensor.dtype.name
    if element in _CODES:
        return ([_CODES[element][0]], [_CODES[element][1]]) if usage.kind == IMAGE else ((), ())
    is_real = tensor.dtype is not None and tensor.dtype.is_floating
    if not is_real or usage.kind != IMAGE or not usage.is_scaled or usage.assumed:
        return (), ()
    count = max(len(usage.mean), len(usage.std))
    pairs = zip(_repeated(usage.mean, count), _repeated(usage.std, count), strict=True)
    ends = [sorted((pixel - mean) / std for pixel in _PIXELS) for mean, std in pairs]
    return [low for low, _ in ends], [high for _, high in ends]


def _repeated(numbers: Sequence[float], count: int) -> Sequence[float]:
    return numbers if len(numbers) == count else [numbers[0]] * count


def _content(kind: str, usage: InputUsage) -> Mapping[int, Any] | None:
    """Slots of Content: type and value of the union of properties."""
    if kind == IMAGE:
        spaces = {colours: number for number, colours in COLOUR_SPACES.items()}
        size = None
        if usage.size is not None:
            size = {0: Scalar("u32", usage.size[1]), 1: Scalar("u32", usage.size[0])}
        properties = {0: scalar("i8", spaces.get(usage.colours, 0)), 1: size}
        return {0: Scalar("u8", IMAGE_PROPERTIES), 1: properties}
    if kind == AUDIO:
        # Task libraries refuse a sound without a number of channels; all that is told of here has one.
        rates = {0: scalar("u32", usage.sample_rate), 1: Scalar("u32", 1)}
        return {0: Scalar("u8", AUDIO_PROPERTIES), 1: rates}
    if kind == BOXES:
        ends = {0: Vector("u32", BOX_ORDER), 1: Scalar("i8", BOUNDARIES)}
        return {0: Scalar("u8", BOX_PROPERTIES), 1: ends}
    return {0: Scalar("u8", FEATURE_PROPERTIES), 1: {}} if kind in (FEATURES, TEXT) else None
