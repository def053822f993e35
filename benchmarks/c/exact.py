"""Whether networks in C answer as LiteRT does, layer by layer, on real inputs.

    python -m benchmarks c_exact [--model NAME ...] [--kind zoo made float] [--samples 200]
        [--rounding litert xnnpack] [--on here cortex-m0 ... aarch64 armhf x86-64] [--seconds 60]
        [--sanitize] [--compile] [--folder FOLDER] [--write]

The programs are the .tflite files of ../shared/zoo, and eight bits and floats of everything else there, as
thinflow makes them. `here`, each operator is fed what LiteRT computed before it, those in loops and branches
in every round, and each of its answers has to be equal: integers all of them, reals within 1e-5 of the
largest of what sums of 64 bits are, or not much further from these than LiteRT's own kernel. What was not
compared by itself is named. Then the answers of the network as a whole, which are told apart where reals
become integers on the way.

Elsewhere, a sum of the bytes of every integer value is compared with that of LiteRT's, made as soon as the
layer has run, in memory as it is planned for shipping; of as many of the inputs as QEMU plays in `--seconds`,
and the table tells how many these were. Where reals become integers on the way, operators are fed as here.
What LiteRT has no reference kernel for runs by itself in its other kernels, and is named; the reference
judges the rest.

`--sanitize` runs it all with address and undefined behaviour watched, by GCC and Clang; `--compile` tells how
long a compiler takes at -O2 on one core; `--write` enters what was compared into docs/c-exact.md.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np

from benchmarks.c.elsewhere import PLACES, Played, compile_seconds, played, refusal, watched
from benchmarks.c.exact_page import PAGE, entered
from benchmarks.c.exact_sums import ExactSums, judged
from benchmarks.c.programs import KINDS, inputs_of, programs
from benchmarks.c.reference import Answers, read, runs
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
from thinflow.lower.c.options import ROUNDINGS, Options
from thinflow.lower.c.target import begin_with
from thinflow.lower.c.write import Writer
from thinflow.optimize.c_layer_proof import side_by_side
from thinflow.tflite.model import Operator, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array

HEADERS = ("program", "rounding", "where", "inputs", "values", "verdict")
_FIRST, _SECONDS = 3, 60.0
"""Inputs by which the time of others is estimated, and how long QEMU may play a network somewhere."""
_PARTS = (LOOP_TEST, LOOP_NEXT, BRANCH_ELSE, BRANCH_END)
_FLAGS = ("-std=c99", "-O2", "-fPIC", "-shared", "-ffp-contract=off")


def _sizes(tensor: Tensor) -> tuple[int, ...]:
    return tuple(-1 if n is None else n for n in tensor.shape or ())


def compared(got: Array, wanted: Array, exact: Array | None = None) -> tuple[str, float]:
    """What is wrong with a value, "" if nothing is; and how far reals are off, as a part of the largest.

    Args:
        got: by the C.
        wanted: by LiteRT.
        exact: see `judged`.
    """
    if got.size != wanted.size:
        return f"{got.size} numbers, not {wanted.size}", 0.0
    got = got.reshape(wanted.shape)
    if wanted.dtype.kind != "f":
        count = int((got != wanted).sum())
        return f"{count} of {wanted.size} differ" if count else "", 0.0
    error, is_wrong = judged(got, wanted, exact)
    if math.isinf(error):
        return "not finite where LiteRT is", error
    return f"off by {error:.2g} of the largest" if is_wrong else "", error


class Runner(Protocol):
    """A compiled network."""

    network: Network

    def restart(self) -> None:
        """Begin anew: states are as before the first run."""

    def run(self, feeds: Sequence[Array]) -> list[Array]:
        """What it answers."""


Compiled: TypeAlias = Callable[[Network], Runner]


class Layers:
    """Every operator of a network by itself, compiled.

    Args:
        made: the network; operators of which not all values are known are left out.
        answers: what knows them.
        compiled: compiles a network, and runs it.

    Attributes:
        off: how far reals were off until now, as a part of the largest of a layer.
    """

    def __init__(self, made: Network, answers: Answers, compiled: Compiled) -> None:
        self.parts = []
        self.exact: dict[Tensor, tuple[ExactSums, list[Tensor]]] = {}
        self.off = 0.0
        own = [o for o in made.block.operators if all(answers.knows(t) for t in o.outputs)]
        self.own = [o for o in own if o.code not in (*RENAMES, COPY, *_PARTS)]
        self.compared: set[Tensor] = set()
        known = [o for o in own if all(t.is_constant or t.is_variable or answers.knows(t) for t in o.reads())]
        for program, sources in side_by_side(Subgraph(made.block.inputs, made.block.outputs, known)):
            inputs, outputs = list(program.subgraphs[0].inputs), list(program.subgraphs[0].outputs)
            # Before the network settles sizes, which changes operators.
            self._know_exact(program.subgraphs[0].operators, sources)
            alone = network(program, replace(made.options, keep_all=False))
            self.parts.append((compiled(alone), [sources[t] for t in inputs], [sources[t] for t in outputs]))

    def _know_exact(self, operators: Sequence[Operator], sources: dict[Tensor, Tensor]) -> None:
        for operator in operators:
            fed = [t for t in dict.fromkeys(operator.reads()) if not t.is_constant]
            sums = ExactSums.of_operator(operator) if len(operator.outputs) == 1 else None
            if sums is not None and all(t in sources for t in (*fed, *operator.outputs)):
                self.exact[sources[operator.outputs[0]]] = sums, [sources[t] for t in fed]

    def _exact(self, tensor: Tensor, values: dict[Tensor, Array]) -> Array | None:
        """A value in sums of 64 bits, where it is one of reals alone."""
        sums, fed = self.exact.get(tensor, (None, []))
        found = None if sums is None else sums.of([values[t].reshape(_sizes(t)) for t in fed])
        return None if found is None else found[0]

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
                told, off = compared(got, wanted, self._exact(tensor, values))
                self.off = max(self.off, off)
                if told:
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
        compiled: see `Layers`.
        given: what it is called with, which says its sizes; None for those that the file has.
    """

    def __init__(
        self,
        content: bytes,
        number: int,
        options: Options,
        compiled: Compiled,
        given: Sequence[Array] | None = None,
    ) -> None:
        program = read_program(content)
        begin_with(program, number)
        for tensor, value in zip(program.subgraphs[0].inputs, given or (), strict=given is not None):
            tensor.shape = value.shape
        self.content, self.options, self.compiled = to_bytes(program), options, compiled
        self.answers = Answers(program, self.content, options.rounding)
        self.called: dict[tuple[int, str], Level] = {}
        self.layers: Layers | None = None
        self.flows = [o for o in self.answers.block.operators if o.code in ("WHILE", "IF")]
        self.operators = [*self.answers.block.operators]
        # The weights of a layer in a loop may come from outside of it.
        with suppress(UnsupportedOp):
            if self.answers.runs:
                made = network(program, replace(options, keep_all=True))
                self.layers = Layers(made, self.answers, compiled)

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
        if side.answers.runs:
            yield from side.wrongs(given[1:])

    def _rounds(self, number: int, given: list[Array]) -> Iterator[str]:
        """All rounds of a loop."""
        condition, body = (self._called(number, part, given) for part in ("cond", "body"))
        while condition.answers.runs and body.answers.runs:
            yield from condition.wrongs(given)
            if not condition.answers.outputs()[0].any():
                return
            yield from body.wrongs(given)
            given = [np.array(value) for value in body.answers.outputs()]

    def _called(self, number: int, part: str, given: Sequence[Array]) -> Level:
        """A subgraph that a loop or branch calls."""
        index = int(self.flows[number].options[f"{part}_subgraph_index"])
        if (number, part) not in self.called:
            self.called[number, part] = Level(self.content, index, self.options, self.compiled, given)
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


def compiled_here(made: Network) -> Library:
    """A network in this process."""
    return Library(made, Writer(made, "net").files(), "net", _FLAGS)


def here(path: Path, name: str, rounding: str, count: int) -> tuple[str, ...]:
    """A line of the table: this machine's kernels, layer by layer, and as a whole."""
    options = Options(rounding, processors_here()[0])
    return by_layers(path, name, options, compiled_here, f"here, {options.cpu}", count)


def by_layers(
    path: Path,
    name: str,
    options: Options,
    compiled: Compiled,
    where: str,
    count: int,
    seconds: float = math.inf,
) -> tuple[str, ...]:
    """A line of the table: each layer by itself, fed what LiteRT computed before it, and the answers.

    Args:
        path, name: of the program.
        options: of the C.
        compiled: compiles a network, and runs it.
        where: for the table.
        count: how many inputs.
        seconds: after which no more inputs are run.
    """
    program, content = read(path)
    exact = ExactSums.of_program(program, content)
    whole = network(read_program(content), options)
    level = Level(content, 0, options, compiled)
    if not level.answers.runs:
        return name, options.rounding, where, "0", "", "LiteRT does not run it"
    feeds, what = inputs_of(name, path, whole.block.inputs, count)
    runner = compiled(whole)
    problems: Counter[str] = Counter()
    right = done = 0
    began = time.perf_counter()
    for feed in feeds:
        problems.update(level.wrongs(feed))
        outputs = level.answers.outputs()
        runner.restart()
        right += not _wrong_answers(runner.run(feed), outputs, exact, feed)
        done += 1
        if time.perf_counter() - began > seconds:
            break
    verdict = "exact" if not problems else f"{len(problems)} DIFFER: {'; '.join(list(problems)[:2])}"
    off = max(one.layers.off for one in level.all() if one.layers is not None)
    verdict += f"; reals off by {off:.1g}" if off and not problems else ""
    if right < done:
        told = "reals round midway" if rounds_midway(whole) else "ANSWERS DIFFER"
        verdict += f"; {told}: {done - right} of {done} answers"
    if left := level.left():
        verdict += f"; not by themselves: {', '.join(f'{n} {code}' for code, n in left.items())}"
    verdict += _by_others(level.answers)
    compared = sum(len(one.layers.compared) for one in level.all() if one.layers is not None)
    return name, options.rounding, where, f"{done}, {what}", str(compared), verdict


def _wrong_answers(
    got: Sequence[Array], wanted: Sequence[Array], exact: ExactSums | None, feed: Sequence[Array]
) -> bool:
    """Whether a network's answers are not LiteRT's, or, of reals alone, further from the exact ones."""
    if not any(compared(g, w)[0] for g, w in zip(got, wanted, strict=True)):
        return False
    sums = None if exact is None else exact.of(feed)
    return sums is None or any(compared(*each)[0] for each in zip(got, wanted, sums, strict=True))


def elsewhere(
    path: Path, name: str, rounding: str, where: str, count: int, seconds: float = _SECONDS
) -> tuple[str, ...]:
    """A line of the table: another processor, by sums of all integer values, or layer by layer where reals
    become integers on the way."""
    known, place = runs(path, rounding), PLACES[where]
    program, _ = read(path)
    numbers = {t: n for n, t in enumerate(program.subgraphs[0].tensors())}
    made = network(program, Options(rounding, place.cpu, keep_all=True))
    if not known.answers.runs:
        return name, rounding, where, "0", "", "LiteRT does not run it"
    feeds, what = inputs_of(name, path, made.block.inputs, count)
    first, reals = known.of(0, feeds[0]), _reals(made)
    found_there = [t for t in made.block.tensors() if numbers.get(t) in first and not t.is_constant]
    # What is made of reals is compared layer by layer here; the last bit of one may differ from processor to
    # processor, and the answers tell by how much. Values of floats that come in are the input's own.
    summed = [t for t in found_there if t not in reals and t.dtype.kind != "f"]
    summed = [t for t in summed if first[numbers[t]].size_bytes == t.size_bytes]
    # Of rows that are counted LiteRT has those in use alone.
    ends = [t for t in found_there if t in made.block.outputs and t in reals and t.dtype.kind == "f"]
    told = [t for t in ends if first[numbers[t]].size_bytes == t.size_bytes]
    values = str(len(summed) + len(told))
    try:
        if rounds_midway(made):
            with ExitStack() as stack:
                options = Options(rounding, place.cpu)
                compiled = partial(Played, place=place, stack=stack)
                return by_layers(path, name, options, compiled, where, count, seconds)
        sums, outputs = played(made, place, feeds, summed, told, _FIRST, seconds)
    except (RuntimeError, TimeoutError) as error:
        return name, rounding, where, "0", values, f"not run: {error}"[:300]
    bad, off, is_wrong = dict[str, None](), 0.0, False
    for n, feed in enumerate(feeds[: len(sums)]):
        wanted = known.of(n, feed)
        equal = sums[n] == np.array([wanted[numbers[t]].sum for t in summed])
        bad.update((t.name, None) for t, is_equal in zip(summed, equal, strict=True) if not is_equal)
        exact = known.exact(n, feed) if told else {}
        for rows, t in zip(outputs, told, strict=True):
            value = wanted[numbers[t]].value
            assert value is not None, "answers are kept"
            error, is_too_far = judged(rows[n], value, exact.get(numbers[t]))
            off, is_wrong = max(off, error), is_wrong or is_too_far
    verdict = _verdict(made, list(bad), off, is_wrong) + _by_others(known.answers)
    return name, rounding, where, f"{len(sums)}, {what}", values, verdict


def _by_others(answers: Answers) -> str:
    """What of the answers is not the reference kernels'; "" if all is."""
    others = ", ".join(f"{n} {code}" for code, n in answers.others.items())
    return f"; judged by LiteRT's other kernels, as it has no reference of them: {others}" if others else ""


def _verdict(made: Network, bad: Sequence[str], off: float, is_wrong: bool) -> str:
    """What is told of integer values that differ, and of how far the real answers are off."""
    if bad:
        return f"{len(bad)} DIFFER: {bad[0]}"
    if not is_wrong:
        return f"exact; reals off by {off:.1g}" if off else "exact"
    told = "reals round midway" if rounds_midway(made) else "ANSWERS DIFFER"
    return f"{told}: off by {off:.2g} of the largest"


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
    parser.add_argument("--write", action="store_true", help="into docs/c-exact.md, line by line")
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
                if args.write:
                    PAGE.write_text(entered(PAGE.read_text("utf-8"), line), "utf-8")
    print(f"\n{failed} lines with a difference; {time.perf_counter() - began:.0f} s")
    return int(failed > 0)


def _is_there(where: str) -> bool:
    why = refusal(PLACES[where])
    if why:
        print(f"{where}: skipped: {why}")
    return not why
