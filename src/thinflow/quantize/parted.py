"""Calibration in parts, each by whoever has a runtime: merged they are what one walk over all gives."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from thinflow.errors import ParameterError
from thinflow.ir.brief import brief_repr
from thinflow.onnx import program as onnx
from thinflow.quantize import observers
from thinflow.quantize.calibrate import (
    Calibration,
    Seen,
    activations_of,
    answers_of,
    finished,
    look,
    observers_of,
)
from thinflow.quantize.finite_samples import require_few
from thinflow.quantize.observers import Mergeable, State
from thinflow.quantize.recipe import PLAIN, Recipe
from thinflow.quantize.runners import Feed, Runner, runner_of
from thinflow.tflite import model as tflite
from thinflow.typing import Progress

_FORMAT = 1
_LENGTH = struct.Struct("<Q")
# What observers keep: no other type that a part names is handed to numpy.
_TYPES = {"<f8", "<i8"}


@brief_repr
@dataclass(frozen=True)
class Watch:
    """What is observed, and by what.

    Attributes:
        program: the float one.
        tensors: of it.
        makers: name and options of the observer of each.
    """

    program: tflite.Program | onnx.Program
    tensors: Sequence[Any]
    makers: Sequence[tuple[str, Mapping[str, object]]]

    def observer(self, number: int) -> Mergeable:
        """A fresh observer of a tensor.

        Raises:
            ParameterError: it cannot see samples in parts.
        """
        name, options = self.makers[number]
        made = observers.make(name, options)
        if not isinstance(made, Mergeable):
            raise ParameterError(
                f"observer '{name}' cannot see samples in parts",
                hint="give it state, merge and resume, or calibrate on one machine",
            )
        return made


@brief_repr
@dataclass(frozen=True)
class Walk:
    """One walk over all samples, and what is known from those before.

    Attributes:
        number: of the walk; the first is 0.
        active: places of the tensors that are observed in it.
        wholes: of each of those, the state behind the first walk; empty in that walk.
    """

    number: int
    active: Sequence[int]
    wholes: Sequence[State] = ()


@brief_repr
@dataclass
class PartSeen:
    """What a part of the samples showed.

    Attributes:
        seen: besides what observers keep.
        states: of the observers, in the order of `Walk.active`.
    """

    seen: Seen
    states: Sequence[State] = field(default_factory=list)

    def content(self) -> bytes:
        """All of it, to be stored and sent: numbers and texts alone, so that reading it runs nothing."""
        arrays = [(n, name, np.asarray(a)) for n, one in enumerate(self.states) for name, a in one.items()]
        head = {
            "format": _FORMAT,
            "seen": asdict(self.seen) | {"left_out": list(self.seen.left_out.items())},
            "states": len(self.states),
            "arrays": [[n, name, a.dtype.newbyteorder("<").str, list(a.shape)] for n, name, a in arrays],
        }
        text = json.dumps(head).encode()
        body = b"".join(a.astype(a.dtype.newbyteorder("<")).tobytes() for _, _, a in arrays)
        # Counts are mostly zeros.
        return zlib.compress(_LENGTH.pack(len(text)) + text + body, 1)

    @classmethod
    def of_content(cls, content: bytes) -> PartSeen | None:
        """What was stored; None if it is damaged or of another version."""
        try:
            raw = zlib.decompress(content)
            (length,) = _LENGTH.unpack_from(raw)
            start = _LENGTH.size + length
            head = json.loads(raw[_LENGTH.size : start])
            if head["format"] != _FORMAT:
                return None
            states: list[State] = [{} for _ in range(head["states"])]
            for number, name, kind, shape in head["arrays"]:
                if kind not in _TYPES:
                    return None
                array = np.frombuffer(raw, kind, int(np.prod(shape, dtype=np.int64)), start).reshape(shape)
                states[number][name] = array
                start += array.nbytes
            seen = head["seen"]
            seen["left_out"] = {int(number): name for number, name in seen["left_out"]}
            return cls(Seen(**seen), states)
        # Whatever is damaged in it ends in one of these, and the part is looked at again.
        except (ValueError, KeyError, TypeError, IndexError, zlib.error, struct.error):
            return None


class PartWatcher:
    """Looks at parts of the samples, with the runtime opened once."""

    def __init__(self, watch: Watch, threads: int = 1) -> None:
        self.watch = watch
        self._runner: Runner = runner_of(watch.program, watch.tensors, threads)

    def look(self, walk: Walk, before: Sequence[State], feeds: Iterable[Feed], first: int) -> PartSeen:
        """What a part shows.

        Args:
            before: states of the first walk over the samples before it; empty in that walk.
            feeds: its samples.
            first: number of the first of them.
        """
        made = {number: self.watch.observer(number) for number in walk.active}
        for place, one in enumerate(made.values()):
            whole, ahead = (walk.wholes[place], before[place]) if walk.number else ({}, {})
            one.resume(walk.number, whole, ahead)
        active = {self.watch.tensors[number]: one for number, one in made.items()}
        return PartSeen(look(self._runner, active, feeds, first=first), [o.state() for o in made.values()])


class Parted(Protocol):
    """Samples that others look at, part by part.

    Attributes:
        count: of samples; None if nobody knows.
    """

    @property
    def count(self) -> int | None: ...

    def parts_seen(
        self, watch: Watch, walk: Walk, before: Callable[[int], Sequence[State]]
    ) -> Iterator[tuple[int, PartSeen]]:
        """How many samples each part has and what it shows, in order; the same parts in each walk.

        Args:
            before: number of a part -> states of the first walk over all parts before it.
        """

    def place(self, number: int) -> str:
        """The file of a sample, or its number."""


def calibrate_in_parts(
    program: tflite.Program | onnx.Program,
    parted: Parted,
    recipe: Recipe = PLAIN,
    *,
    progress: Progress | None = None,
) -> Calibration:
    """As `calibrate` gives it, bit for bit.

    Raises:
        ParameterError: the recipe's observer cannot see samples in parts.
    """
    answers, activations = answers_of(program), activations_of(program)
    made = observers_of(activations, recipe, answers)
    usual = (recipe.observer, dict(recipe.observer_options))
    makers = [("minmax", {}) if t in answers else usual for t in made]
    watch = Watch(program, list(made), makers)
    watched = {tensor: watch.observer(number) for number, tensor in enumerate(made)}
    result = Calibration()
    ones = list(watched.values())
    befores: list[list[State]] = []
    walks = max((one.passes for one in ones), default=1)
    done, total = 0, parted.count or 0
    for number in range(walks):
        active = [n for n, one in enumerate(ones) if number < one.passes]
        walk = Walk(number, active, [ones[n].state() for n in active] if number else ())
        for n in active:
            ones[n].begin(number)
        before = _before(befores, active) if number else _nothing
        for size, part in parted.parts_seen(watch, walk, before):
            if number == 0:
                befores.append([one.state() for one in ones])
                result.add(part.seen, parted.place)
            for n, state in zip(active, part.states, strict=True):
                ones[n].merge(state)
            done += size
            if progress is not None:
                progress(min(done, walks * total), walks * total, "calibrating")
        if number == 0:
            require_few(result.left_out, result.samples + len(result.left_out))
    return finished(result, watched, answers, recipe)


def _nothing(part: int) -> Sequence[State]:
    del part  # in the first walk nothing is known
    return ()


def _before(befores: Sequence[Sequence[State]], active: Sequence[int]) -> Callable[[int], Sequence[State]]:
    return lambda part: [befores[part][n] for n in active]
