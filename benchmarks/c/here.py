"""What networks take in C on this machine, beside LiteRT with XNNPACK on one thread.

    python -m benchmarks c_here [--model NAME ...] [--file X.tflite ...] [--rounds 400]

Both run in turns, inputs given beforehand; the best of all rounds counts, since a machine with other work
only ever adds to them. The networks are those of MLPerf Tiny, from ../shared/zoo.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.c.table import MODELS
from benchmarks.ptq.cases import shared
from thinflow.engines._c_library import Library, compiler
from thinflow.engines._c_processor import processors_here
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program
from thinflow.tflite.runtime import interpreter
from thinflow.typing import Array

HEADERS = ("model", "rounding", "LiteRT, us", "C, us", "C of LiteRT", "verdict")
RUNS = 2
"""In a row: few, so that those of slow networks too fit between two interruptions of a busy machine."""


def made_up(sizes: tuple[int, ...], dtype: np.dtype[np.generic]) -> Array:
    """Values for an input."""
    rng = np.random.default_rng(0)
    if dtype.kind == "f":
        return rng.standard_normal(sizes).astype(dtype)
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, int(limits.max) + 1, sizes).astype(dtype)


def in_c(content: bytes, rounding: str) -> tuple[Callable[[], None], list[Array]]:
    """A run of the network in C, and its inputs."""
    made = network(read_program(content), Options(rounding, processors_here()[0]))
    library = Library(made, Writer(made, "network").files(), "network")
    inputs = [made_up(tuple(n or 1 for n in t.shape or ()), t.dtype.numpy()) for t in made.block.inputs]
    return library.prepared(inputs), inputs


def in_litert(content: bytes, inputs: list[Array]) -> Callable[[], None]:
    """A run of the same in LiteRT."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = interpreter(model_content=content, num_threads=1)
    engine.allocate_tensors()
    for details, value in zip(engine.get_input_details(), inputs, strict=True):
        engine.set_tensor(details["index"], value)
    return lambda: engine.invoke()


def best(run: Callable[[], None]) -> float:
    """Microseconds of a run, of some in a row."""
    start = time.perf_counter()
    for _ in range(RUNS):
        run()
    return (time.perf_counter() - start) / RUNS * 1e6


def row(name: str, content: bytes, rounding: str, rounds: int) -> tuple[str, ...]:
    """A line of the table."""
    c, inputs = in_c(content, rounding)
    litert = in_litert(content, inputs)
    times = [(best(litert), best(c)) for _ in range(rounds)]
    theirs, ours = (min(side) for side in zip(*times, strict=True))
    budget = 0.7 if name == "kws" else 1.0
    verdict = "pass" if ours <= budget * theirs else "MISS"
    return name, rounding, f"{theirs:.1f}", f"{ours:.1f}", f"{ours / theirs:.2f}x", verdict


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks c_here", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--model", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--file", nargs="*", default=[], metavar="X.tflite", help="more models")
    parser.add_argument("--rounds", type=int, default=400, metavar="N", help="of each (default 400)")
    args = parser.parse_args(argv)
    folder = shared() / "zoo" / "tflite"
    if compiler() is None or not folder.is_dir():
        print(f"skipped: {'there is no C compiler' if compiler() is None else f'{folder} not found'}")
        return 0
    print(f"processor: {processors_here()[0]}\n")
    print("| " + " | ".join(HEADERS) + " |\n|" + "---|" * len(HEADERS))
    files = {name: folder / f"{MODELS[name]}.tflite" for name in args.model}
    files |= {Path(name).stem: Path(name) for name in args.file}
    for name, path in files.items():
        for rounding in ("litert", "xnnpack"):
            print("| " + " | ".join(row(name, path.read_bytes(), rounding, args.rounds)) + " |", flush=True)
    return 0
