"""What models answer on Arm processors, beside what they answer here, on the same inputs.

    python -m benchmarks arm_answers [--samples 20] [--model NAME ...] [--on cortex-a72 cortex-a76]
        [--threads 1] [--models build/arm-models] [--folder build/arm] [--write]

The models are the .tflite files of ../shared/zoo and the keyword networks of ../shared/models, float and in
eight bits, as thinflow makes them; where there is no ../shared, those that come with thinflow. Here and there
they are run by what `--device` sends to a device, with the same version of LiteRT; QEMU plays the processors.
`--write` puts the table into docs/arm-answers.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.arm.processors import PROCESSORS, interpreter
from benchmarks.arm.root import FOLDER, NotMade
from benchmarks.bench import ROOT
from benchmarks.c import programs
from benchmarks.ptq import cases
from thinflow.device.base import Connection, Job, Settings
from thinflow.device.finding import find_device
from thinflow.errors import EngineUnavailable
from thinflow.formats.files import map_file
from thinflow.tflite import mending
from thinflow.tflite.model import Tensor
from thinflow.tflite.reader import read_program
from thinflow.typing import Array

PAGE = ROOT / "docs" / "arm-answers.md"
MODELS = ROOT / "build" / "arm-models"
MARKS = ("<!-- answers -->\n", "<!-- end of answers -->\n")
_RATE = 16_000
_PATIENCE = 600.0
_HEAVY = {"nmp": 2}
"""Models of which fewer inputs are tried: emulated, one takes the better part of a minute."""


@dataclass(frozen=True)
class Difference:
    """How far answers lie apart, over all outputs of all inputs.

    Attributes:
        integers: the outputs are integers; differences are then in steps of them.
        largest: between two values that should be one.
        scale: the largest value there is.
        apart: how many values differ, of
        values: so many.
        same_top: of how many inputs the largest value stands in the same place, of
        tops: so many; 0 if the outputs are no choice.
        step: what a step is worth where reals are made of eight bits at the end; 0 where they are not.
    """

    integers: bool
    largest: float
    scale: float
    apart: int
    values: int
    same_top: int
    tops: int
    step: float = 0.0

    @property
    def relative(self) -> float:
        """The largest difference, by the largest value."""
        return self.largest / self.scale if self.scale else self.largest

    def __str__(self) -> str:
        if not self.apart:
            return "equal"
        if self.integers or self.step:
            count = round(self.largest / (self.step or 1))
            return f"{count} step{'s' * (count != 1)} in {self.apart} of {self.values}"
        return f"{self.largest:.1e} of {self.scale:.3g}: {self.relative:.1e}"


def difference(
    here: Sequence[Sequence[Array]], there: Sequence[Sequence[Array]], step: float = 0.0
) -> Difference:
    """The difference of answers: of each input all outputs.

    Args:
        step: see there.

    Raises:
        ValueError: they are not of the same outputs.
    """
    largest = scale = 0.0
    apart = values = same_top = tops = 0
    integers = True
    for ours, theirs in zip(here, there, strict=True):
        for a, b in zip(ours, theirs, strict=True):
            if a.shape != b.shape or a.dtype != b.dtype:
                raise ValueError(f"an output is {a.dtype}{list(a.shape)}, and {b.dtype}{list(b.shape)} there")
            integers &= a.dtype.kind in "iub"
            x, y = a.astype(np.float64).ravel(), b.astype(np.float64).ravel()
            with np.errstate(invalid="ignore"):  # of two that are infinite
                gap = np.where((x == y) | (np.isnan(x) & np.isnan(y)), 0.0, np.abs(x - y))
            gap[np.isnan(gap)] = np.inf
            largest = max(largest, float(gap.max(initial=0.0)))
            scale = max(scale, float(np.abs(x).max(initial=0.0)))
            apart += int(np.count_nonzero(gap))
            values += x.size
        (a, b) = ours[0].ravel(), theirs[0].ravel()
        if len(ours) == 1 and a.size > 1:
            tops += 1
            # Two that are equally large here may change places.
            same_top += int(a[b.argmax()] == a.max())
    return Difference(integers, largest, scale, apart, values, same_top, tops, step)


@dataclass(frozen=True)
class Row:
    """A model.

    Attributes:
        inputs: how many, and what they are.
        found: processor -> how far its answers are off.
        refusal: why there is nothing to compare; "" if there is.
    """

    model: str
    inputs: str
    found: Mapping[str, Difference]
    refusal: str = ""


# --- models ------------------------------------------------------------------------------------------------


def models(folder: Path, wanted: Sequence[str] = ()) -> Iterator[tuple[str, Path]]:
    """Name and file of each; those that are made of graphs are made once.

    Args:
        folder: for what is made.
        wanted: names, of all if there are none.
    """
    folder.mkdir(parents=True, exist_ok=True)
    keyword = [f"{k}{part}_{kind}" for k in cases.keywords() for part in ("", "_features") for kind in _KINDS]
    digits = [f"digits_{kind}" for kind in _KINDS]
    names = [n for n in [*keyword, *digits] if not wanted or n in wanted]
    for name, path in programs.programs(folder, ["zoo"], wanted):
        yield name, mended(path, folder)
    if names:
        yield from programs.programs(folder, ["float", "made"], names)


_KINDS = ("float", "int8")


def samples(name: str, path: Path, count: int) -> tuple[list[list[Array]], str]:
    """Inputs of a model, and what they are."""
    tensors = read_program(map_file(path, unpack=False)).subgraphs[0].inputs
    if name.startswith("kws_") and len(tensors) == 2:
        return _speech(tensors, count), "speech"
    return programs.inputs_of(name, path, tensors, count)


def _speech(tensors: Sequence[Tensor], count: int) -> list[list[Array]]:
    """Clips and their rate, for networks that begin with the samples of a sound."""
    sound, _ = tensors
    clips, _ = programs.inputs_of("", Path(), [sound], count)
    return [[*clip, np.array(_RATE, np.int32)] for clip in clips]


def mended(path: Path, folder: Path) -> Path:
    """The file itself, or a copy that LiteRT opens where it refuses it for a slip of its converter."""
    found = mending.mended(map_file(path, unpack=False))
    if found is None:
        return path
    copy = folder / f"{path.stem}_mended.tflite"
    copy.write_bytes(found[0])
    return copy


# --- runs --------------------------------------------------------------------------------------------------


def compared(
    chosen: Iterator[tuple[str, Path]], on: Sequence[str], *, count: int, threads: int, folder: Path
) -> Iterator[Row]:
    """A row for each model.

    Args:
        on: names of processors.
        count: inputs of each.
        folder: where Python for Arm is.

    Raises:
        NotMade: there is none.
    """
    python = places(on, folder)
    with ExitStack() as stack:
        here = connected(stack, sys.executable)
        there = {name: connected(stack, path) for name, path in python.items()}
        for name, path in chosen:
            yield _row(name, path, here, there, count, threads)


def places(on: Sequence[str], folder: Path) -> dict[str, str]:
    """Processor -> a program that is Python there.

    Raises:
        NotMade: there is none.
    """
    return {name: str(interpreter(name, folder)) for name in on}


def connected(stack: ExitStack, python: str) -> Connection:
    """What `--device` sends to a device, running in that Python."""
    device = find_device("local", Settings(python=python, patience=_PATIENCE))
    return stack.enter_context(device.connect())


def _row(
    name: str, path: Path, here: Connection, there: Mapping[str, Connection], count: int, threads: int
) -> Row:
    feeds, what = samples(name, path, min(count, _HEAVY.get(name, count)))
    job = Job(name, str(path), threads, tuple(feeds[0]))
    try:
        ours = list(here.answers(job, feeds))
        step = step_of(path)
        found = {place: difference(ours, list(c.answers(job, feeds)), step) for place, c in there.items()}
    except EngineUnavailable as error:
        return Row(name, what, {}, error.problem)
    return Row(name, f"{len(feeds)}, {what}", found)


def step_of(path: Path) -> float:
    """What a step of eight bits is worth in the output, where it is made of such; 0 where it is not."""
    main = read_program(map_file(path, unpack=False)).subgraphs[0]
    made = [o for o in main.operators if o.code == "DEQUANTIZE" and o.outputs[0] in main.outputs]
    scales = [o.inputs[0].quantization for o in made if o.inputs[0] is not None]
    if len(main.outputs) != 1 or not scales or scales[0] is None or len(scales[0].scale) != 1:
        return 0.0
    return float(scales[0].scale[0])


# --- table -------------------------------------------------------------------------------------------------


def table(rows: Sequence[Row], on: Sequence[str]) -> str:
    """The rows as Markdown."""
    heads = ["model", "inputs", *(f"{PROCESSORS[n].title} ({n})" for n in on), "same top answer"]
    lines = [_line(heads), _line(["---"] * len(heads))]
    for row in rows:
        if row.refusal:
            lines.append(_line([row.model, row.inputs, *[row.refusal] * len(on), ""]))
            continue
        tops = [f"{d.same_top} of {d.tops}" if d.tops else "–" for d in row.found.values()]
        cells = [str(row.found[n]) for n in on]
        lines.append(_line([row.model, row.inputs, *cells, ", ".join(dict.fromkeys(tops))]))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def written(page: str, made: str, marks: tuple[str, str] = MARKS) -> str:
    """The page with another table between two marks."""
    before, _, rest = page.partition(marks[0])
    return f"{before}{marks[0]}\n{made}\n{marks[1]}{rest.partition(marks[1])[2]}"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks arm_answers", description=__doc__)
    parser.add_argument("--samples", type=int, default=20, help="inputs of each model")
    parser.add_argument("--model", nargs="+", default=[], metavar="NAME", help="these alone")
    parser.add_argument("--on", nargs="+", default=list(PROCESSORS), choices=list(PROCESSORS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--models", type=Path, default=MODELS, help="folder for models that are made")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of Python for Arm")
    parser.add_argument("--write", action="store_true", help="into docs/arm-answers.md")
    args = parser.parse_args(argv)
    begun = time.monotonic()
    rows = []
    try:
        chosen = models(args.models, args.model)
        for row in compared(
            chosen, args.on, count=args.samples, threads=args.threads, folder=args.folder.resolve()
        ):
            print(row.model, row.inputs, row.refusal or {n: str(d) for n, d in row.found.items()}, flush=True)
            rows.append(row)
    except NotMade as error:
        print(f"not run: {error}", file=sys.stderr)
        return 1
    made = table(rows, args.on)
    print(f"\n{made}\nafter {time.monotonic() - begun:.0f} s")
    if args.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), made), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
