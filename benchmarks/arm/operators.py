"""Which operators answer otherwise on Arm processors, each by itself on inputs of its whole range.

    python -m benchmarks arm_operators [--model NAME ...] [--on cortex-a72 ...] [--times 3] [--write]

Each operator of the models of `arm_answers` becomes a model of its own, with its constants, and is fed random
numbers: whole integers of its type, reals of a normal distribution. `--write` puts the table into
docs/arm-answers.md.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.arm.answers import MODELS, PAGE, Difference, connected, difference, models, places, written
from benchmarks.arm.processors import PROCESSORS
from benchmarks.arm.root import FOLDER, NotMade
from thinflow.device.base import Connection, DeviceLost, Job
from thinflow.errors import EngineUnavailable
from thinflow.formats.files import map_file
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

_NOT_ALONE = {"WHILE", "IF", "CALL", "CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CUSTOM"}
MARKS = ("<!-- operators -->\n", "<!-- end of operators -->\n")


@dataclass
class Kind:
    """Operators of one code on one type of numbers.

    Attributes:
        count: of operators that were tried.
        apart: processor -> how many of them answered otherwise there.
        worst: processor -> the largest difference of any.
    """

    count: int = 0
    apart: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    worst: dict[str, Difference] = field(default_factory=dict)

    def add(self, found: dict[str, Difference]) -> None:
        """Another operator."""
        self.count += 1
        for place, one in found.items():
            self.apart[place] += one.apart > 0
            known = self.worst.get(place)
            if known is None or one.relative > known.relative:
                self.worst[place] = one


def alone(operator: Operator) -> tuple[bytes, list[Tensor]] | None:
    """An operator as a model, and its inputs; None for one that is none by itself."""
    inputs = list(dict.fromkeys(t for t in operator.inputs if t is not None and not t.is_constant))
    sizes = [n for t in (*inputs, *operator.outputs) for n in t.shape or (None,) * (t.shape is None)]
    if operator.code in _NOT_ALONE or not inputs or any(n is None for n in sizes):
        return None
    return to_bytes(Program([Subgraph(inputs, operator.outputs, [operator])])), inputs


def drawn(tensor: Tensor, rng: np.random.Generator) -> Array:
    """Numbers of the whole range of a tensor."""
    kind, shape = tensor.dtype.numpy(), tuple(n or 1 for n in tensor.shape or ())
    if kind.kind == "f":
        return rng.standard_normal(shape).astype(kind) * 2
    if kind.kind == "b":
        return rng.integers(0, 2, shape).astype(kind)
    # Indices and sizes are small; what is quantized has all codes.
    limits = np.iinfo(kind)
    if tensor.quantization is None or not len(tensor.quantization.scale):
        return rng.integers(0, 2, shape).astype(kind)
    return rng.integers(limits.min, limits.max + 1, shape).astype(kind)


def kinds(
    chosen: Iterator[tuple[str, Path]], on: Sequence[str], folder: Path, times: int
) -> dict[tuple[str, str], Kind]:
    """Code and type of operators -> what was found of all of them.

    Raises:
        NotMade: there is no Python for Arm.
    """
    found: dict[tuple[str, str], Kind] = defaultdict(Kind)
    there = places(on, folder)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="thinflow-") as here, ExitStack() as stack:
        ours = connected(stack, sys.executable)
        theirs = {name: connected(stack, python) for name, python in there.items()}
        for number, (name, path) in enumerate(chosen):
            print(name, flush=True)
            program = read_program(map_file(path, unpack=False))
            for place, operator in enumerate(o for s in program.subgraphs for o in s.operators):
                made = alone(operator)
                if made is None:
                    continue
                file = Path(here, f"{number}_{place}.tflite")
                file.write_bytes(made[0])
                feeds = [[drawn(t, rng) for t in made[1]] for _ in range(times)]
                one = _tried(Job(f"{name}:{place}", str(file), 1, tuple(feeds[0])), feeds, ours, theirs)
                if one is not None:
                    found[operator.code, _type(operator)].add(one)
    return found


def _type(operator: Operator) -> str:
    first = next(t for t in operator.inputs if t is not None)
    weights = [t for t in operator.inputs[1:] if t is not None and t.is_constant and t.dtype != first.dtype]
    beside = f", weights {weights[0].dtype}" if weights and str(weights[0].dtype) in ("int8", "half") else ""
    return f"{first.dtype}{beside}"


def _tried(
    job: Job, feeds: Sequence[Sequence[Array]], ours: Connection, theirs: dict[str, Connection]
) -> dict[str, Difference] | None:
    """How far its answers are off; None if LiteRT does not run it alone."""
    try:
        here = list(ours.answers(job, feeds))
        return {place: difference(here, list(c.answers(job, feeds))) for place, c in theirs.items()}
    except DeviceLost:
        raise
    except EngineUnavailable:
        return None


def table(found: dict[tuple[str, str], Kind], on: Sequence[str]) -> str:
    """What differs, as Markdown; then what does not, in a sentence."""
    heads = ["operator", "numbers", *(f"{PROCESSORS[n].title} ({n})" for n in on)]
    lines = [heads, ["---"] * len(heads)]
    for (code, kind), one in sorted(found.items()):
        if any(one.apart.values()):
            cells = [
                f"{one.worst[n]}, in {one.apart[n]} of {one.count}" if one.apart[n] else "equal" for n in on
            ]
            lines.append([f"`{code}`", kind, *cells])
    text = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
    alike = [
        f"`{code}` ({kind}, {one.count})"
        for (code, kind), one in sorted(found.items())
        if not any(one.apart.values())
    ]
    return f"{text}\n\nEqual to the last bit everywhere: {', '.join(alike)}.\n"


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks arm_operators", description=__doc__)
    parser.add_argument("--model", nargs="+", default=[], metavar="NAME", help="of these alone")
    parser.add_argument("--on", nargs="+", default=list(PROCESSORS), choices=list(PROCESSORS))
    parser.add_argument("--times", type=int, default=3, help="inputs of each operator")
    parser.add_argument("--models", type=Path, default=MODELS, help="folder for models that are made")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="of Python for Arm")
    parser.add_argument("--write", action="store_true", help="into docs/arm-answers.md")
    args = parser.parse_args(argv)
    try:
        found = kinds(models(args.models, args.model), args.on, args.folder.resolve(), args.times)
    except NotMade as error:
        print(f"not run: {error}", file=sys.stderr)
        return 1
    made = table(found, args.on)
    print(made)
    if args.write:
        PAGE.write_text(written(PAGE.read_text("utf-8"), made, MARKS), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
