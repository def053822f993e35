"""How a model is used, as its file says: what a picture, a sound or a text becomes before it is fed, and what
the numbers that come out are called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

IMAGE, AUDIO, TEXT, FEATURES = "image", "audio", "text", "features"
RGB, BGR, GREY = "RGB", "BGR", "grey"
BOXES = "boxes"
AXIS, VALUES = "axis", "values"
_SHOWN_WORDS = 3


@dataclass(frozen=True)
class Words:
    """A list of words in a file, such as the names of classes.

    Attributes:
        name: of the file, or the key that held them.
        words: in their order; a vocabulary's index is the number that is fed.
        locale: language, such as "en-US"; "" if it is not said.
        of: of labels: "axis" if each belongs to a place in the last axis of an output, "values" if the
            output's numbers are indices into the list.
    """

    name: str
    words: tuple[str, ...]
    locale: str = ""
    of: str = AXIS

    def __repr__(self) -> str:
        return f"Words({self.name!r}, {len(self.words)} words)"

    def text(self, noun: str) -> str:
        """`1001 labels (background, tench, goldfish, ...)`."""
        dots = ", ..." if len(self.words) > _SHOWN_WORDS else ""
        count = f"{len(self.words)} {noun if len(self.words) != 1 else noun.removesuffix('s')}"
        return f"{count} ({', '.join(self.words[:_SHOWN_WORDS])}{dots})"


def word_lines(text: str) -> tuple[str, ...]:
    """The words of a text that has one a line, without the white space at their ends.

    An empty line is an empty word, as a word's number is that of its line; at the end of the text it is none.
    """
    # At \n alone: splitlines also breaks at form feeds and the like, which would shift all words behind.
    lines = [line.rstrip() for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


@dataclass(frozen=True)
class InputUsage:
    """How an input is made.

    Attributes:
        kind: "image", "audio", "text" or "features"; "" if nothing says.
        colours: of an image: "RGB", "BGR" or "grey"; "" if nothing says.
        size: of an image, (height, width), where the shape leaves them open.
        mean, std: what is fed is (x - mean) / std of a pixel 0..255 or another raw number x; one number, or
            one for each channel; empty if nothing says. Of an input of codes, which real numbers they are.
        low, high: the smallest and largest number that is fed; empty if nothing says.
        sample_rate: of sound, samples a second; 0 if nothing says.
        words: of a text, the vocabulary: what is fed is the index of a word.
        description: in the words of whoever made the model.
        own: what the model itself does to its input first: "x / 127.5 - 1".
        said: where all this stands: "TFLITE_METADATA".
        assumed: why mean and std are an assumption, which nobody states; "" if they are stated.
    """

    kind: str = ""
    colours: str = ""
    size: tuple[int, int] | None = None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    sample_rate: int = 0
    words: Words | None = None
    description: str = ""
    own: str = ""
    said: str = ""
    assumed: str = ""

    @property
    def is_scaled(self) -> bool:
        """True if it is known, or assumed, how raw numbers become what is fed."""
        return bool(self.mean and self.std)

    @property
    def formula(self) -> str:
        """`(x - 127.5) / 127.5`; "" where nothing is known."""
        return scaling_text(self.mean, self.std) if self.is_scaled else ""

    def text(self, shape: Sequence[int | None] | None = None) -> str:
        """All of it in one line, as `inspect` says it.

        Args:
            shape: of the input, which says the size of an image.
        """
        parts = [self._what(shape)]
        if self.is_scaled:
            pixels = self.formula if self.formula != "x" else "as they are"
            parts.append(f"pixels 0..255 {pixels}" if self.kind == IMAGE else self.formula)
        elif self.low and self.high:
            parts.append(f"values {min(self.low):g}..{max(self.high):g}")
        if self.own:
            parts.append(f"the model itself computes {self.own} of it")
        if self.words is not None:
            parts.append(self.words.text("words") + f" from {self.words.name}")
        where = ", ".join(filter(None, [self.said, f"assumed: {self.assumed}" if self.assumed else ""]))
        return ", ".join(filter(None, parts)) + (f" [{where}]" if where else "")

    def _what(self, shape: Sequence[int | None] | None) -> str:
        if self.kind == AUDIO:
            return f"sound, {self.sample_rate} samples a second" if self.sample_rate else "sound"
        if self.kind != IMAGE:
            return self.kind
        size = _sides(shape) or self.size
        sides = f"{size[1]}x{size[0]}" if size is not None else ""
        return " ".join(filter(None, [sides, self.colours, "picture"]))

    def data(self) -> dict[str, Any]:
        """For machines; what is not known is left out."""
        found: dict[str, Any] = {
            "kind": self.kind,
            "colours": self.colours,
            "size": list(self.size or ()),
            "mean": list(self.mean),
            "std": list(self.std),
            "low": list(self.low),
            "high": list(self.high),
            "sample_rate": self.sample_rate,
            "vocabulary": list(self.words.words) if self.words is not None else [],
            "vocabulary_file": self.words.name if self.words is not None else "",
            "description": self.description,
            "own": self.own,
            "said": self.said,
            "assumed": self.assumed,
        }
        return {key: value for key, value in found.items() if value}


def _sides(shape: Sequence[int | None] | None) -> tuple[int, int] | None:
    """Height and width of a shape of four sizes, whichever end has the channels."""
    if shape is None or len(shape) != 4:
        return None
    last = shape[3] in (1, 3, 4) or shape[1] not in (1, 3, 4)
    height, width = shape[1:3] if last else shape[2:]
    return (height, width) if height is not None and width is not None else None


@dataclass(frozen=True)
class OutputUsage:
    """What an output means.

    Attributes:
        labels: names of the classes; None if the file has none.
        low, high: the smallest and largest number; empty if nothing says.
        description: in the words of whoever made the model.
        notes: what else the file says to do with it: "scores below 0.3 do not count".
        said: where all this stands.
        kind: "boxes" for rows of top, left, bottom and right, in parts of the picture; "" for anything else.
    """

    labels: Words | None = None
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    description: str = ""
    notes: tuple[str, ...] = ()
    said: str = ""
    kind: str = ""

    def text(self) -> str:
        """All of it in one line, as `inspect` says it."""
        parts = ["boxes: top, left, bottom, right"] * (self.kind == BOXES) + list(self.notes)
        if self.labels is not None:
            labels = f"{self.labels.text('labels')} from {self.labels.name}"
            parts.insert(0, f"numbers of {labels}" if self.labels.of == VALUES else labels)
        if not parts and self.low and self.high:
            parts.append(f"values {min(self.low):g}..{max(self.high):g}")
        return ", ".join(parts) + (f" [{self.said}]" if parts and self.said else "")

    def data(self) -> dict[str, Any]:
        """For machines; what is not known is left out."""
        labels = self.labels
        found: dict[str, Any] = {
            "labels": list(labels.words) if labels is not None else [],
            "labels_file": labels.name if labels is not None else "",
            "labels_of": labels.of if labels is not None else "",
            "low": list(self.low),
            "high": list(self.high),
            "description": self.description,
            "notes": list(self.notes),
            "said": self.said,
            "kind": self.kind,
        }
        return {key: value for key, value in found.items() if value}


@dataclass(frozen=True)
class Usage:
    """How the inputs and outputs of a model are used. It stays with a graph whatever is done to it: an entry
    counts as long as there is an input or output of its name.

    Attributes:
        inputs, outputs: by the names that these have in the graph.
        notes: what else the file says of the model, as it says it: author, licence, free keys.
        problems: what of it cannot be read, and why.
    """

    inputs: Mapping[str, InputUsage] = field(default_factory=dict)
    outputs: Mapping[str, OutputUsage] = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.inputs or self.outputs or self.notes or self.problems)

    def input(self, name: str) -> InputUsage | None:
        """How an input is made; None if nothing says. A runtime may put ":0" behind its name."""
        return self.inputs.get(name) or self.inputs.get(name.removesuffix(":0"))

    def output(self, name: str) -> OutputUsage | None:
        """What an output means; None if nothing says."""
        return self.outputs.get(name) or self.outputs.get(name.removesuffix(":0"))

    def labels(self, name: str, width: int | None = None) -> Words | None:
        """The names of the classes that an output has scores of; None if it has none, or another number.

        Args:
            name: of the output.
            width: how many scores it gives, if that is known.
        """
        found = self.output(name)
        labels = found.labels if found is not None else None
        if labels is None or labels.of != AXIS or width not in (None, len(labels.words)):
            return None
        return labels

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "inputs": {name: usage.data() for name, usage in self.inputs.items()},
            "outputs": {name: usage.data() for name, usage in self.outputs.items()},
            "notes": dict(self.notes),
            "problems": list(self.problems),
        }


def scaling_text(mean: Sequence[float], std: Sequence[float]) -> str:
    """`(x - 127.5) / 127.5`, `x / 255`, `x`; lists where channels differ."""
    above = "x" if not any(mean) else f"x - {_numbers(mean)}"
    if len(set(mean)) == 1 and mean[0] < 0:
        above = f"x + {_numbers([-mean[0]])}"
    if all(s == 1 for s in std):
        return above
    return f"{above} / {_numbers(std)}" if above == "x" else f"({above}) / {_numbers(std)}"


def _numbers(values: Sequence[float]) -> str:
    texts = [f"{value:.6g}" for value in values]
    return texts[0] if len(set(texts)) == 1 else f"[{', '.join(texts)}]"
