"""What LiteRT computes in a program, value by value."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.c.exact_sums import ExactSums
from thinflow.lower.c.litert import kernel_sets
from thinflow.lower.c.sound import know_rate
from thinflow.tflite.model import Operator, Program, Subgraph, Tensor
from thinflow.tflite.reader import read_program
from thinflow.tflite.runtime import interpreter
from thinflow.tflite.schema import SUBGRAPH_OPTIONS
from thinflow.tflite.writer import to_bytes
from thinflow.typing import Array


def read(path: Path) -> tuple[Program, bytes]:
    """A program whose rate of sound is known, and its file."""
    program = read_program(path.read_bytes())
    know_rate(program)
    for tensor in program.subgraphs[0].tensors():
        # Files of 2019 say that scales of biases are along their fourth dimension, which LiteRT refuses now.
        if tensor.quantization is not None and len(tensor.shape or ()) == 1:
            tensor.quantization.axis = 0
    return program, to_bytes(program)


class Stage:
    """Operators that one interpreter runs.

    Args:
        block: of them.
        engine: that runs it, all values kept.
    """

    def __init__(self, block: Subgraph, engine: Any) -> None:
        self.block, self.engine = block, engine
        self.index: dict[Tensor, int] = {}
        for operator, details in zip(block.operators, engine._get_ops_details(), strict=False):
            read = zip(operator.inputs, details["inputs"], strict=True)
            written = zip(operator.outputs, details["outputs"], strict=True)
            ends = [(t, n) for t, n in (*read, *written) if t is not None]
            # After a run states are what it left, and not what it read.
            self.index.update((t, n) for t, n in ends if not t.is_constant and not t.is_variable)

    def run(self, feeds: Sequence[Array]) -> dict[Tensor, Array]:
        """All values of a run, begun anew."""
        self.engine.reset_all_variables()
        for details, value in zip(self.engine.get_input_details(), feeds, strict=True):
            self.engine.set_tensor(details["index"], value.reshape(details["shape"]))
        self.engine.invoke()
        return {t: self._value(n) for t, n in self.index.items()}

    def outputs(self) -> list[Array]:
        """What the last run answered."""
        return [self.engine.get_tensor(d["index"]) for d in self.engine.get_output_details()]

    def _value(self, number: int) -> Array:
        try:
            return np.array(self.engine.get_tensor(number))
        # What a delegate computes on the way lies nowhere.
        except ValueError:
            return np.empty(0)


class Answers:
    """What LiteRT computes of some inputs, value by value.

    Args:
        program: its first subgraph is what runs.
        content: its file.
        rounding: whose kernels. Operators that the reference kernels lack run by themselves with others, and
            the reference judges the rest.

    Attributes:
        runs: whether LiteRT runs it.
        others: operators that other kernels ran.
    """

    def __init__(self, program: Program, content: bytes, rounding: str) -> None:
        self.block = program.subgraphs[0]
        first, *others = kernel_sets(rounding)
        self.others: Counter[str] = Counter()
        whole = opened(content, first)
        self.stages = [Stage(self.block, whole)] if whole is not None else []
        if whole is None and others:
            self.stages = self._apart(first, others[0])
        if not self.stages and others and (whole := opened(content, others[0])) is not None:
            self.stages = [Stage(self.block, whole)]
            self.others.update(o.code for o in self.block.operators)

    @property
    def runs(self) -> bool:
        return bool(self.stages)

    def of(self, feeds: Sequence[Array]) -> dict[Tensor, Array]:
        """All values of a run, begun anew."""
        values = dict(zip(self.block.inputs, feeds, strict=True))
        for stage in self.stages:
            values |= stage.run([values[t] for t in stage.block.inputs])
        self.last = values
        return values

    def outputs(self) -> list[Array]:
        """What the last run answered."""
        if len(self.stages) == 1:
            return self.stages[0].outputs()
        return [t.array() if t.is_constant else self.last[t] for t in self.block.outputs]

    def knows(self, tensor: Tensor) -> bool:
        """Whether a value is one of this subgraph, and not of one that it calls."""
        return tensor in self.block.inputs or any(tensor in stage.index for stage in self.stages)

    def _apart(self, first: Any, second: Any) -> list[Stage]:
        """Operators that the first kernels have, as many in a row as there are, and those between; none if
        neither has some."""
        if any(SUBGRAPH_OPTIONS & o.options.keys() or o.code == "VAR_HANDLE" for o in self.block.operators):
            return []
        stages = []
        for has_kernel, row in groupby(
            self.block.operators, lambda o: _opened(_alone([o]), first) is not None
        ):
            block = _alone(list(row))
            engine = _opened(block, first if has_kernel else second)
            if engine is None:
                self.others.clear()
                return []
            self.others.update(o.code for o in block.operators if not has_kernel)
            stages.append(Stage(block, engine))
        return stages


def _alone(operators: list[Operator]) -> Subgraph:
    """A block of some operators: what they read from elsewhere comes in, and all that they make goes out."""
    made = dict.fromkeys(t for o in operators for t in o.outputs)
    read = dict.fromkeys(t for o in operators for t in o.reads())
    inputs = [t for t in read if t not in made and not t.is_constant and not t.is_variable]
    return Subgraph(inputs, list(made), operators)


def _opened(block: Subgraph, kernels: Any) -> Any:
    return opened(to_bytes(Program([block])), kernels)


def opened(content: bytes, kernels: Any) -> Any:
    """LiteRT with a set of kernels, all values kept; None if it refuses the program."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            engine = interpreter(
                model_content=content,
                experimental_op_resolver_type=kernels,
                experimental_preserve_all_tensors=True,
                num_threads=1,
            )
            engine.allocate_tensors()
            return engine
    except (ValueError, RuntimeError):
        return None


# --- kept from processor to processor -----------------------------------------------------------------------


class Known(NamedTuple):
    """A value of a run.

    Attributes:
        sum: of its bytes, see `sum_of`.
        size_bytes: of it.
        value: itself, of an answer.
    """

    sum: int
    size_bytes: int
    value: Array | None


class Runs:
    """What LiteRT computes of the inputs of a program, each of which it runs once.

    Values are told by their place among the tensors: whoever makes a network changes the program.
    """

    def __init__(self, path: Path, rounding: str) -> None:
        program, content = read(path)
        self.answers = Answers(program, content, rounding)
        self.places = {t: n for n, t in enumerate(program.subgraphs[0].tensors())}
        self.ends = {*program.subgraphs[0].outputs}
        self._outputs = [self.places[t] for t in program.subgraphs[0].outputs if t in self.places]
        self._sums = ExactSums.of_program(program, content)
        self._found: dict[int, dict[int, Known]] = {}
        self._exact: dict[int, dict[int, Array]] = {}

    def of(self, number: int, feeds: Sequence[Array]) -> dict[int, Known]:
        """Place of a tensor -> its value in the run of an input.

        Args:
            number: of the input.
            feeds: it.
        """
        if number not in self._found:
            self._found[number] = dict(self._run(feeds))
        return self._found[number]

    def exact(self, number: int, feeds: Sequence[Array]) -> dict[int, Array]:
        """Place of an output -> its value by sums of 64 bits; nothing of what is not of reals alone."""
        if number not in self._exact:
            sums = None if self._sums is None else self._sums.of(feeds)
            self._exact[number] = dict(zip(self._outputs, sums or (), strict=sums is not None))
        return self._exact[number]

    def _run(self, feeds: Sequence[Array]) -> Iterator[tuple[int, Known]]:
        for tensor, value in self.answers.of(feeds).items():
            if tensor in self.places:
                kept = value.copy() if tensor in self.ends else None
                yield self.places[tensor], Known(sum_of(value), value.nbytes, kept)


@lru_cache(maxsize=1)
def runs(path: Path, rounding: str) -> Runs:
    """What LiteRT computes in a program; kept until another one is asked for."""
    return Runs(path, rounding)


def sum_of(value: Array) -> int:
    """The sum of the bytes, each by a factor of its place, as the probe has it."""
    raw = np.ascontiguousarray(value).view(np.uint8).reshape(-1).astype(np.uint32)
    factors = np.arange(raw.size, dtype=np.uint32) * np.uint32(2654435761) + np.uint32(1)
    return int(((raw + np.uint32(1)) * factors).sum(dtype=np.uint32))
