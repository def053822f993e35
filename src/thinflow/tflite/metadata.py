"""LiteRT's model metadata: a flatbuffer inside a .tflite file, and the files in the archive behind it.

Formats: `TFLITE_METADATA` is a buffer of the model with identifier "M001"; which of the files holds labels,
which a vocabulary, stands there.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from thinflow.errors import FormatError
from thinflow.ir.usage import (
    AUDIO,
    AXIS,
    BOXES,
    FEATURES,
    GREY,
    IMAGE,
    RGB,
    TEXT,
    VALUES,
    InputUsage,
    OutputUsage,
    Usage,
    Words,
    word_lines,
)
from thinflow.wire import flatbuffer
from thinflow.wire.flatbuffer import Table
from thinflow.wire.zip_tail import ZipTail

KEY, IDENTIFIER = "TFLITE_METADATA", b"M001"
# Enumerators of AssociatedFileType, of the unions ContentProperties and ProcessUnitOptions, of ColorSpaceType
# and of ScoreTransformationType in LiteRT's metadata_schema.fbs.
AXIS_LABELS, VALUE_LABELS, AXIS_CALIBRATION, VOCABULARY = 2, 3, 4, 5
FEATURE_PROPERTIES, IMAGE_PROPERTIES, BOX_PROPERTIES, AUDIO_PROPERTIES = 1, 2, 3, 4
NORMALIZATION, CALIBRATION, THRESHOLDING, BERT, SENTENCE_PIECE, REGEX = 1, 2, 3, 4, 5, 6
COLOUR_SPACES = {1: RGB, 2: GREY}
BOUNDARIES, BOX_ORDER = 1, (1, 0, 3, 2)
"""Of boxes: their type, and where left, top, right and bottom stand in a row that begins with the top."""
NOTES = {0: "name", 1: "description", 2: "version", 4: "author", 5: "licence"}
"""Slots of ModelMetadata that are texts; 3 are subgraphs, 6 files, 7 the version of parser that it needs."""
_TOKENIZERS = {BERT: "BERT's", SENTENCE_PIECE: "SentencePiece's", REGEX: "a regular expression's"}
_MOST_CHANNELS = 4096
_SHOWN_TEXT = 400


def read_usage(
    metadata: bytes,
    data: memoryview | bytes,
    inputs: Sequence[str],
    outputs: Sequence[str],
    *,
    subgraph: int = 0,
) -> Usage:
    """What the metadata of a .tflite file says of the inputs and outputs of one of its subgraphs.

    What is damaged or contradicts itself is left out, and named in `problems`: a model runs without it.

    Args:
        metadata: the content of `TFLITE_METADATA`.
        data: the whole file, with the archive behind the model.
        inputs, outputs: the names of the graph's ends, in the order of the file.
        subgraph: which one.
    """
    reader = _Reader(data)
    try:
        root = flatbuffer.root(metadata, IDENTIFIER)
        notes = {topic: text[:_SHOWN_TEXT] for slot, topic in NOTES.items() if (text := _text(root, slot))}
        tables = root.tables(3)
        if subgraph >= len(tables):
            return Usage(notes=notes, problems=reader.problems_found())
        return reader.subgraph(tables[subgraph], inputs, outputs, notes)
    except FormatError as error:
        return Usage(problems=(*reader.problems, f"{KEY} cannot be read: {error.problem}"))


def _text(table: Table, slot: int) -> str:
    """A text fit to be kept: bytes that are no UTF-8 become marks."""
    found = table.string(slot) or ""
    return found.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


class _Reader:
    """The files behind a model, read when they are asked for, and what is wrong with them."""

    def __init__(self, data: memoryview | bytes) -> None:
        self.problems: list[str] = []
        self._read: dict[str, tuple[str, ...] | None] = {}
        self._files: ZipTail | None = None
        try:
            self._files = ZipTail(data)
        except FormatError as error:
            self.problems.append(error.problem)

    def problems_found(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.problems))

    def subgraph(
        self, table: Table, inputs: Sequence[str], outputs: Sequence[str], notes: dict[str, str]
    ) -> Usage:
        """Slots of SubGraphMetadata: name, description, inputs, outputs, files, units of both sides."""
        sides = []
        for slot, names, side in ((2, inputs, "inputs"), (3, outputs, "outputs")):
            tables = table.tables(slot)
            # The order is all that says which is meant.
            if tables and len(tables) != len(names):
                self.problems.append(f"{KEY} tells of {len(tables)} {side}, the model has {len(names)}")
                tables = []
            sides.append(list(zip(names, tables, strict=False)))
        made_inputs = {name: self.input(t) for name, t in sides[0]}
        made_outputs = {name: self.output(t) for name, t in sides[1]}
        # A tokenizer may stand beside all inputs, as those of BERT have one together.
        for unit, options in _units(table, 5):
            if unit in _TOKENIZERS:
                words = self.vocabulary(options, unit)
                notes["tokenizer"] = _TOKENIZERS[unit]
                made_inputs = {
                    n: replace(u, kind=TEXT, words=u.words or words) for n, u in made_inputs.items()
                }
        return Usage(made_inputs, made_outputs, notes, self.problems_found())

    def input(self, table: Table) -> InputUsage:
        """Slots of TensorMetadata: name, description, dimension names, content, process units, stats,
        files.
        """
        kind, colours, size, rate = _content(table)
        usage = InputUsage(
            kind,
            colours,
            size,
            low=_stats(table, 1),
            high=_stats(table, 0),
            sample_rate=rate,
            description=_text(table, 1)[:_SHOWN_TEXT],
            said=KEY,
        )
        for unit, options in _units(table, 4):
            if unit == NORMALIZATION:
                mean, std = self.normalization(options)
                usage = replace(usage, mean=mean, std=std)
            elif unit in _TOKENIZERS:
                usage = replace(usage, kind=TEXT, words=self.vocabulary(options, unit))
        words = self.listed(table.tables(6), VOCABULARY)
        return replace(usage, kind=TEXT, words=words) if words is not None else usage

    def output(self, table: Table) -> OutputUsage:
        files = table.tables(6)
        labels = self.listed(files, AXIS_LABELS) or self.listed(files, VALUE_LABELS)
        notes = []
        for unit, options in _units(table, 4):
            if unit == THRESHOLDING:
                notes.append(f"scores below {options.scalar(0, 'f32'):g} do not count")
            elif unit == CALIBRATION:
                notes.append("its scores are to be calibrated")
        return OutputUsage(
            labels,
            _stats(table, 1),
            _stats(table, 0),
            _text(table, 1)[:_SHOWN_TEXT],
            tuple(notes),
            KEY,
            BOXES if _has_boxes(table) else "",
        )

    def normalization(self, options: Table) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Mean and standard deviation, each one number or one for each channel; both empty if they make no
        sense.
        """
        mean, std = (_floats(options, slot) for slot in (0, 1))
        if not mean or not std:
            return (), ()
        sizes = {len(mean), len(std)} - {1}
        if len(sizes) > 1 or max(len(mean), len(std)) > _MOST_CHANNELS:
            self.problems.append(f"its normalization has {len(mean)} means and {len(std)} deviations")
            return (), ()
        if not all(map(math.isfinite, mean)) or not all(math.isfinite(s) and s for s in std):
            self.problems.append("its normalization divides by zero, or has numbers that are not finite")
            return (), ()
        return mean, std

    def vocabulary(self, options: Table, unit: int) -> Words | None:
        """The words of a tokenizer. Slots of BERT's: files; of the others the files are second."""
        return self.listed(options.tables(0 if unit == BERT else 1), None)

    def listed(self, files: Sequence[Table], kind: int | None) -> Words | None:
        """The first list of a kind, of which others may be translations.

        Slots of AssociatedFile: name, description, type, locale.
        """
        for table in files:
            if kind is None or table.scalar(2, "i8") == kind:
                name = _text(table, 0)
                words = self.words(name)
                of = VALUES if kind == VALUE_LABELS else AXIS
                return None if words is None else Words(name, words, _text(table, 3), of)
        return None

    def words(self, name: str) -> tuple[str, ...] | None:
        """The lines of a file; None if there is no such text."""
        if name not in self._read:
            self._read[name] = self._lines(name)
        return self._read[name]

    def _lines(self, name: str) -> tuple[str, ...] | None:
        if self._files is None:
            return None
        try:
            text = self._files.read(name).decode("utf-8-sig")
        except FormatError as error:
            self.problems.append(error.problem)
            return None
        except UnicodeDecodeError:
            self.problems.append(f"the file '{name}' is no UTF-8 text")
            return None
        return word_lines(text) or None


def _content(table: Table) -> tuple[str, str, tuple[int, int] | None, int]:
    """Kind, colours, size and sample rate of a tensor."""
    content = table.table(3)
    # Slots of Content: type and value of the union of properties, range.
    kind = content.scalar(0, "u8") if content is not None else 0
    properties = content.table(1) if content is not None and kind else None
    if properties is None:
        return "", "", None, 0
    if kind == IMAGE_PROPERTIES:
        size = properties.table(1)
        # Slots of ImageSize: width, height.
        sides = (size.scalar(1, "u32"), size.scalar(0, "u32")) if size is not None else (0, 0)
        return IMAGE, COLOUR_SPACES.get(properties.scalar(0, "i8"), ""), sides if all(sides) else None, 0
    if kind == AUDIO_PROPERTIES:
        return AUDIO, "", None, properties.scalar(0, "u32")
    return FEATURES if kind == FEATURE_PROPERTIES else "", "", None, 0


def _has_boxes(table: Table) -> bool:
    """Whether a tensor holds rows of top, left, bottom and right; there are other ways to write boxes."""
    content = table.table(3)
    if content is None or content.scalar(0, "u8") != BOX_PROPERTIES:
        return False
    ends = content.table(1)
    # Centres, sizes and pixels would have to be turned into this first, which nobody here does.
    # Slots of BoundingBoxProperties: order, type, unit (0: parts of the picture).
    if ends is None or ends.scalar(1, "i8") != BOUNDARIES or ends.scalar(2, "i8"):
        return False
    return ends.numbers(0, "u32") == BOX_ORDER


def _units(table: Table, slot: int) -> list[tuple[int, Table]]:
    """The process units of a tensor or subgraph: number of the union's member, and its options."""
    found = []
    for unit in table.tables(slot):
        options = unit.table(1)
        if options is not None:
            found.append((unit.scalar(0, "u8"), options))
    return found


def _floats(table: Table, slot: int) -> tuple[float, ...]:
    return tuple(float(number) for number in table.numbers(slot, "f32") or ())


def _stats(table: Table, slot: int) -> tuple[float, ...]:
    """The largest numbers of a tensor (slot 0) or its smallest (1)."""
    stats = table.table(5)
    found = _floats(stats, slot) if stats is not None else ()
    return found if all(map(math.isfinite, found)) and len(found) <= _MOST_CHANNELS else ()
