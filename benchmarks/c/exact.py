"""Whether networks in C answer as LiteRT does, layer by layer, on real inputs.

    python -m benchmarks c_exact [--model NAME ...] [--kind zoo made float] [--samples 200]
        [--rounding litert xnnpack] [--on here cortex-m0 ... aarch64 armhf x86-64] [--seconds 60]
        [--sanitize] [--compile] [--folder FOLDER]

The programs are the .tflite files of ../shared/zoo, and eight bits and floats of everything else there, as
thinflow makes them. `here`, each operator is fed what LiteRT computed before it, those in loops and branches
in every round, and each of its answers has to be equal: integers all of them, reals within 1e-5 of the
largest. What was not compared by itself is named. Then the answers of the network as a whole, which are told
apart where reals become integers on the way. Elsewhere, a sum of the bytes of every integer
value is compared with that of LiteRT's, of as many of the inputs as QEMU plays in `--seconds`; the table
tells how many these were. `--sanitize` runs it all with address and undefined behaviour
watched, by GCC and Clang; `--compile` tells how long a compiler takes at -O2 on one core.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.c.elsewhere import PLACES, compile_seconds, played, refusal, watched
from benchmarks.c.programs import KINDS, inputs_of, programs
from thinflow.engines._c_library import Library, compiler
from thinflow.engines._c_processor import processors_here
from thinflow.errors import UnsupportedOp
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.flow import (
    BRANCH,
    BRANCH_ELSE,
    BRANCH_END,
    COPY,
    LOOP,
    LOOP_NEXT,
    LOOP_TEST,
    RENAMES,
)
from thinflow.lower.c.litert import kernel_sets
from thinflow.lower.c.options import ROUNDINGS, Options
from thinflow.lower.c.sound import know_rate
from thinflow.lower.c.target import begin_with
from thinflow.lower.c.write import Writer
from thinflow.optimize.c_layer_proof import side_by_side
from thinflow.tflite.model import Program, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.runtime import interpreter
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

HEADERS = ("program", "rounding", "where", "inputs", "values", "verdict")
_FLOAT = 1e-5
"""Of the largest number of a layer."""
_FIRST, _SECONDS = 3, 60.0
"""Inputs by which the time of others is estimated, and how long QEMU may play a network somewhere."""
_PARTS = (LOOP_TEST, LOOP_NEXT, BRANCH_ELSE, BRANCH_END)
_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-ffp-contract=off")


def opened(content: bytes, rounding: str) -> Any:
    """LiteRT with the kernels that a rounding means, all values kept; None if it refuses the program."""
    for number, kind in enumerate(kernel_sets(rounding)):
        if number:
            print("the reference kernels lack an operator: others judge, which round otherwise", flush=True)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                engine = interpreter(
                    model_content=content,
                    experimental_op_resolver_type=kind,
                    experimental_preserve_all_tensors=True,
                    num_threads=1,
                )
                engine.allocate_tensors()
                return engine
        except (ValueError, RuntimeError):
            continue
    return None


class Answers:
    """What LiteRT computes of some inputs, value by value."""

    def __init__(self, program: Program, content: bytes, rounding: str) -> None:
        self.block = program.subgraphs[0]
        self.engine = opened(content, rounding)
        self._index: dict[Tensor, int] = {}
        if self.engine is None:
            return
        for operator, details in zip(self.block.operators, self.engine._get_ops_details(), strict=False):
            read = zip(operator.inputs, details["inputs"], strict=True)
            written = zip(operator.outputs, details["outputs"], strict=True)
            ends = [(t, n) for t, n in (*read, *written) if t is not None]
            # After a run states are what it left, and not what it read.
            self._index.update((t, n) for t, n in ends if not t.is_constant and not t.is_variable)

    def of(self, feeds: Sequence[Array]) -> dict[Tensor, Array]:
        """All values of a run, begun anew."""
        self.engine.reset_all_variables()
        for details, value in zip(self.engine.get_input_details(), feeds, strict=True):
            self.engine.set_tensor(details["index"], value.reshape(details["shape"]))
        self.engine.invoke()
        return {t: self._value(n) for t, n in self._index.items()}

    def outputs(self) -> list[Array]:
        """What the last run answered."""
        return [self.engine.get_tensor(d["index"]) for d in self.engine.get_output_details()]

    def knows(self, tensor: Tensor) -> bool:
        """Whether a value is one of this subgraph, and not of one that it calls."""
        return tensor in self._index or tensor in self.block.inputs

    def _value(self, number: int) -> Array:
        try:
            return np.array(self.engine.get_tensor(number))
        # What a delegate computes on the way lies nowhere.
        except ValueError:
            return np.empty(0)


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    return tuple(-1 if n is None else n for n in tensor.shape or ())


def wrong(got: Array, wanted: Array) -> str:
    """What is wrong with a value; "" if nothing is."""
    if got.size != wanted.size:
        return f"{got.size} numbers, not {wanted.size}"
    got = got.reshape(wanted.shape)
    if wanted.dtype.kind != "f":
        count = int((got != wanted).sum())
        return f"{count} of {wanted.size} differ" if count else ""
    error = _error(got, wanted)
    if math.isinf(error):
        return "not finite where LiteRT is"
    return f"off by {error:.2g} of the largest" if error > _FLOAT else ""


class Layers:
    """Every operator of a network by itself, compiled.

    Args:
        made: the network; operators of which not all values are known are left out.
        answers: what knows them.
    """

    def __init__(self, made: Network, answers: Answers) -> None:
        self.parts = []
        own = [o for o in made.block.operators if all(answers.knows(t) for t in o.outputs)]
        self.own = [o for o in own if o.code not in (*RENAMES, COPY, *_PARTS)]
        self.compared: set[Tensor] = set()
        known = [o for o in own if all(t.is_constant or t.is_variable or answers.knows(t) for t in o.reads())]
        for program, sources in side_by_side(Subgraph(made.block.inputs, made.block.outputs, known)):
            inputs, outputs = list(program.subgraphs[0].inputs), list(program.subgraphs[0].outputs)
            alone = network(program, replace(made.options, keep_all=False))
            library = Library(alone, Writer(alone, "part").files(), "part", _FLAGS)
            self.parts.append((library, [sources[t] for t in inputs], [sources[t] for t in outputs]))

    def wrongs(self, values: dict[Tensor, Array]) -> Iterator[str]:
        """A line for each value that is not LiteRT's, when all before it are."""
        for library, inputs, outputs in self.parts:
            # Rows that are counted may be fewer in LiteRT than there is memory for.
            sizes = [math.prod(_sizes(t)) for t in library.network.block.inputs]
            found = [values[t].size if t in values else 0 for t in inputs]
            if 0 in found or found != sizes:
                continue
            fed = [
                values[t].reshape(i.shape) for t, i in zip(inputs, library.network.block.inputs, strict=True)
            ]
            library.restart()
            for tensor, got in zip(outputs, library.run(fed), strict=True):
                wanted = values.get(tensor)
                if wanted is None or not wanted.size:
                    continue
                self.compared.add(tensor)
                if told := wrong(got, wanted):
                    yield f"'{tensor.name}': {told}"

    def left(self) -> Counter[str]:
        """Operators that were not compared by themselves, by LiteRT's names."""
        names = {LOOP: "WHILE", BRANCH: "IF"}
        unseen = [o for o in self.own if self.compared.isdisjoint(o.outputs)]
        return Counter(names.get(o.code, o.custom_code or o.code) for o in unseen)


class Level:
    """A subgraph: what LiteRT computes in it, its operators in C, and the subgraphs that it calls.

    Args:
        content: of the program.
        number: of the subgraph.
        options: of the C.
        given: what it is called with, which says its sizes; None for those that the file has.
    """

    def __init__(
        self, content: bytes, number: int, options: Options, given: Sequence[Array] | None = None
    ) -> None:
        program = read_program(content)
        begin_with(program, number)
        for tensor, value in zip(program.subgraphs[0].inputs, given or (), strict=given is not None):
            tensor.shape = value.shape
        self.content, self.options = to_bytes(program), options
        self.answers = Answers(program, self.content, options.rounding)
        self.called: dict[tuple[int, str], Level] = {}
        self.layers: Layers | None = None
        self.flows = [o for o in self.answers.block.operators if o.code in ("WHILE", "IF")]
        self.operators = [*self.answers.block.operators]
        # The weights of a layer in a loop may come from outside of it.
        with suppress(UnsupportedOp):
            if self.answers.engine is not None:
                self.layers = Layers(network(program, replace(options, keep_all=True)), self.answers)

    def wrongs(self, feeds: Sequence[Array]) -> Iterator[str]:
        """A line for each value of a run that is not LiteRT's, when all before it are."""
        values = self.answers.of(feeds)
        yield from () if self.layers is None else self.layers.wrongs(values)
        for number, operator in enumerate(self.flows):
            read = [t for t in operator.inputs if t is not None]
            given = [np.array(t.array() if t.is_constant else values[t]).reshape(_sizes(t)) for t in read]
            yield from self._branch(number, given) if operator.code == "IF" else self._rounds(number, given)

    def _branch(self, number: int, given: list[Array]) -> Iterator[str]:
        """The side of a branch that is taken."""
        side = self._called(number, "then" if given[0].any() else "else", given[1:])
        if side.answers.engine is not None:
            yield from side.wrongs(given[1:])

    def _rounds(self, number: int, given: list[Array]) -> Iterator[str]:
        """All rounds of a loop."""
        condition, body = (self._called(number, part, given) for part in ("cond", "body"))
        while condition.answers.engine is not None and body.answers.engine is not None:
            yield from condition.wrongs(given)
            if not condition.answers.outputs()[0].any():
                return
            yield from body.wrongs(given)
            given = [np.array(value) for value in body.answers.outputs()]

    def _called(self, number: int, part: str, given: Sequence[Array]) -> Level:
        """A subgraph that a loop or branch calls."""
        index = int(self.flows[number].options[f"{part}_subgraph_index"])
        if (number, part) not in self.called:
            self.called[number, part] = Level(self.content, index, self.options, given)
        return self.called[number, part]

    def all(self) -> Iterator[Level]:
        """This and all that it called."""
        yield self
        for inner in self.called.values():
            yield from inner.all()

    def left(self) -> Counter[str]:
        """As `Layers.left`, of what it called, too."""
        own = (
            Counter(o.custom_code or o.code for o in self.operators)
            if self.layers is None
            else self.layers.left()
        )
        return sum((inner.left() for inner in self.called.values()), own)


def here(path: Path, name: str, rounding: str, count: int) -> tuple[str, ...]:
    """A line of the table: this machine's kernels, layer by layer, and as a whole."""
    _, content = read(path)
    options = Options(rounding, processors_here()[0])
    whole = network(read_program(content), options)
    level = Level(content, 0, options)
    if level.answers.engine is None:
        return name, rounding, "here", "0", "", "LiteRT does not run it"
    feeds, what = inputs_of(name, path, whole.block.inputs, count)
    library = Library(whole, Writer(whole, "net").files(), "net", _FLAGS)
    problems: Counter[str] = Counter()
    exact = 0
    for feed in feeds:
        problems.update(level.wrongs(feed))
        outputs = level.answers.outputs()
        library.restart()
        exact += not any(wrong(g, w) for g, w in zip(library.run(feed), outputs, strict=True))
    verdict = "exact" if not problems else f"{len(problems)} DIFFER: {'; '.join(list(problems)[:2])}"
    if exact < len(feeds):
        told = "reals round midway" if rounds_midway(whole) else "ANSWERS DIFFER"
        verdict += f"; {told}: {len(feeds) - exact} of {len(feeds)} answers"
    if left := level.left():
        verdict += f"; not by themselves: {', '.join(f'{n} {code}' for code, n in left.items())}"
    compared = sum(len(one.layers.compared) for one in level.all() if one.layers is not None)
    return name, rounding, f"here, {options.cpu}", f"{len(feeds)}, {what}", str(compared), verdict


def elsewhere(
    path: Path, name: str, rounding: str, where: str, count: int, seconds: float = _SECONDS
) -> tuple[str, ...]:
    """A line of the table: another processor, by sums of all integer values."""
    program, content = read(path)
    place = PLACES[where]
    answers = Answers(program, content, rounding)
    made = network(program, Options(rounding, place.cpu, keep_all=True))
    if answers.engine is None:
        return name, rounding, where, "0", "", "LiteRT does not run it"
    feeds, what = inputs_of(name, path, made.block.inputs, count)
    known, reals = answers.of(feeds[0]), _reals(made)
    # What is made of reals is compared layer by layer here; the last bit of one may differ from processor to
    # processor, and the answers tell by how much.
    watched_values = [t for t in made.block.tensors() if t in known and t not in reals]
    # Values of floats that come in are the input's own; what is made of constants was computed before.
    watched_values = [t for t in watched_values if t.dtype.kind != "f" and not t.is_constant]
    # Of rows that are counted LiteRT has those in use alone.
    ends = [t for t in dict.fromkeys(made.block.outputs) if t in reals and t in known]
    told = [t for t in ends if t.dtype.kind == "f" and known[t].nbytes == t.size_bytes]
    count = str(len(watched_values) + len(told))
    try:
        found, outputs = played(made, place, feeds, watched_values, told, _FIRST, seconds)
    except (RuntimeError, TimeoutError) as error:
        return name, rounding, where, "0", count, f"not run: {error}"[:300]
    bad, off = dict[str, None](), 0.0
    for n, feed in enumerate(feeds[: len(found)]):
        values = answers.of(feed)
        sums = np.array([_sum(values[t]) for t in watched_values])
        bad.update((t.name, None) for t, b in zip(watched_values, found[n] != sums, strict=True) if b)
        off = max([off, *(_error(rows[n], values[t]) for rows, t in zip(outputs, told, strict=True))])
    return name, rounding, where, f"{len(found)}, {what}", count, _verdict(made, list(bad), off)


def _verdict(made: Network, bad: Sequence[str], off: float) -> str:
    """What is told of integer values that differ, and of how far the real answers are off."""
    if bad:
        return f"{len(bad)} DIFFER: {bad[0]}"
    if off <= _FLOAT:
        return f"exact; reals off by {off:.1g}" if off else "exact"
    told = "reals round midway" if rounds_midway(made) else "ANSWERS DIFFER"
    return f"{told}: off by {off:.2g} of the largest"


def _error(got: Array, wanted: Array) -> float:
    """How far reals are off, as a part of the largest; infinite where one alone is no number."""
    wanted = wanted.reshape(got.shape)
    both = np.isfinite(got) & np.isfinite(wanted)
    if not (both | (got == wanted) | (np.isnan(got) & np.isnan(wanted))).all():
        return math.inf
    return float(np.abs(got - wanted)[both].max(initial=0)) / max(
        float(np.abs(wanted[both]).max(initial=0)), 1e-6
    )


def _sum(value: Array) -> int:
    """The sum of the bytes, each by a factor of its place, as the probe has it."""
    raw = np.ascontiguousarray(value).view(np.uint8).reshape(-1).astype(np.uint32)
    factors = np.arange(raw.size, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(1)
    return int(((raw + np.uint32(1)) * factors).sum(dtype=np.uint32))


def _reals(made: Network) -> set[Tensor]:
    """Values that are real, or made of reals that are computed."""
    found: set[Tensor] = set()
    for operator in made.block.operators:
        computed = [t for t in operator.reads() if t in found]
        for tensor in operator.outputs:
            if tensor.dtype.kind == "f" or computed:
                found.add(tensor)
    return found


def rounds_midway(made: Network) -> bool:
    """Whether reals that are computed become integers."""
    reals = _reals(made)
    return any(t.dtype.kind != "f" for t in reals)


def read(path: Path) -> tuple[Program, bytes]:
    """A program whose rate of sound is known, and its file."""
    program = read_program(path.read_bytes())
    know_rate(program)
    for tensor in program.subgraphs[0].tensors():
        # Files of 2019 say that scales of biases are along their fourth dimension, which LiteRT refuses now.
        if tensor.quantization is not None and len(tensor.shape or ()) == 1:
            tensor.quantization.axis = 0
    return program, to_bytes(program)


def rows(name: str, path: Path, args: argparse.Namespace) -> Iterator[tuple[str, ...]]:
    """The lines of a program; what is refused is told as such."""
    for rounding in args.rounding:
        for where in [*args.on, *["sanitizers"] * args.sanitize, *["compiled"] * args.compile]:
            try:
                yield _row(name, path, rounding, where, args)
            except UnsupportedOp as error:
                yield name, rounding, where, "", "", f"refused: {error.problem}"[:300]
                break


def _row(name: str, path: Path, rounding: str, where: str, args: argparse.Namespace) -> tuple[str, ...]:
    if where == "here":
        return here(path, name, rounding, args.samples)
    if where == "sanitizers":
        return _watched_row(name, path, rounding)
    if where == "compiled":
        return _compile_row(name, path, rounding)
    return elsewhere(path, name, rounding, where, args.samples, args.seconds)


def _watched_row(name: str, path: Path, rounding: str) -> tuple[str, ...]:
    program, _ = read(path)
    made = network(program, Options(rounding))
    feeds, what = inputs_of(name, path, made.block.inputs, 2)
    found = {c: watched(made, feeds, c) for c in ("gcc", "clang")}
    verdict = "; ".join(f"{c}: {told}" for c, told in found.items())
    return name, rounding, "sanitizers", f"{len(feeds)}, {what}", "", verdict


def _compile_row(name: str, path: Path, rounding: str) -> tuple[str, ...]:
    program, _ = read(path)
    seconds = compile_seconds(network(program, Options(rounding)))
    return name, rounding, "compiled", "", "", f"{seconds:.1f} s of processor at -O2"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks c_exact", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--model", nargs="*", metavar="NAME", help="only these")
    parser.add_argument("--kind", nargs="*", choices=KINDS, default=list(KINDS))
    parser.add_argument("--samples", type=int, default=200, metavar="N", help="inputs of each (default 200)")
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        metavar="S",
        help=f"that QEMU plays a network somewhere (default {_SECONDS:g})",
    )
    parser.add_argument("--rounding", nargs="*", choices=ROUNDINGS, default=["litert"])
    parser.add_argument("--on", nargs="*", choices=["here", *PLACES], default=["here"])
    parser.add_argument("--sanitize", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--folder", type=Path, metavar="FOLDER", help="keeps what is made")
    args = parser.parse_args(argv)
    if compiler() is None:
        print("skipped: there is no C compiler")
        return 0
    args.on = [where for where in args.on if where == "here" or _is_there(where)]
    print("| " + " | ".join(HEADERS) + " |\n|" + "---|" * len(HEADERS), flush=True)
    began, failed = time.perf_counter(), 0
    with tempfile.TemporaryDirectory(prefix="thinflow-exact-") as made:
        folder = args.folder or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        for name, path in programs(folder, args.kind, args.model or ()):
            for line in rows(name, path, args):
                failed += "DIFFER" in line[-1] or "runtime error" in line[-1]
                print("| " + " | ".join(line) + " |", flush=True)
    print(f"\n{failed} lines with a difference; {time.perf_counter() - began:.0f} s")
    return int(failed > 0)


def _is_there(where: str) -> bool:
    why = refusal(PLACES[where])
    if why:
        print(f"{where}: skipped: {why}")
    return not why
