"""What MFCCs of sound take in floats and in fixed point, and how far apart they are.

    python -m benchmarks c_sound [--cpu NAME ...] [--samples 20]

The features of a keyword network of ../shared, of samples as a microphone gives them: instructions of a
frame, counted in QEMU, and the largest difference to what is computed in floats here, a part of the largest.
"""

from __future__ import annotations

import argparse
import tempfile
import wave
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.c.boards import BOARDS, missing, run_on
from benchmarks.ptq import cases
from thinflow.engines._c_library import Library, compiler
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.optimize.c_source import c_source
from thinflow.typing import Array

MODEL = "kws_DS_CNN_S"
KINDS = ("int16", "fixed")
_SAMPLES = 16_000


def front(kind: str, cpu: str = "generic") -> Network:
    """The features of the network alone, of one kind of sound."""
    graph = thinflow.load(cases.shared() / "models" / f"{MODEL}.pb")
    graph.outputs = [next(node for node in graph if node.op == "Mfcc").output()]
    options = Options(cpu=cpu, sound=kind)
    return c_source(graph, None, {}, None, lambda it: network(it.program(), options))[1]


def clips(count: int) -> Array:
    """int16 [count, samples] the first clips."""
    found = []
    for path in sorted((cases.shared() / "data" / "kws").glob("*.wav"))[:count]:
        with wave.open(str(path)) as file:
            samples = np.frombuffer(file.readframes(_SAMPLES), np.int16)
        found.append(np.pad(samples, (0, _SAMPLES - len(samples))))
    return np.array(found)


def apart(heard: Array) -> float:
    """The largest difference of coefficients in fixed point to those in floats, a part of the largest."""
    floats, fixed = (Library(made, Writer(made, "net").files(), "net") for made in map(front, KINDS))
    shape = floats.network.block.inputs[0].shape or ()
    found = [(floats.run([x.reshape(shape)])[0], fixed.run([x.reshape(shape)])[0]) for x in heard]
    return max(float(np.abs(a - b).max() / np.abs(a).max()) for a, b in found)


def instructions(kind: str, cpu: str, heard: Array) -> int:
    """Of a frame on a board."""
    made = front(kind, cpu)
    y = made.block.outputs[0]
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        files = Writer(made, "net").files()
        run = run_on(BOARDS[cpu], files, "net", heard[:1].view(np.uint8), y.size_bytes or 0, Path(folder))
    return run.instructions // (y.shape or (1, 1))[1]


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks c_sound", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--cpu", nargs="*", choices=BOARDS, default=["cortex-m0", "cortex-m4"])
    parser.add_argument("--samples", type=int, default=20, metavar="N", help="clips (default 20)")
    args = parser.parse_args(argv)
    folder = cases.shared() / "data" / "kws"
    why = missing() or (None if compiler() else "there is no C compiler")
    if why := why or (None if folder.is_dir() else f"{folder} not found"):
        print(f"skipped: {why}")
        return 0
    heard = clips(args.samples)
    print("| cpu | floats, instructions of a frame | fixed point | of floats' |\n|---|---|---|---|")
    for cpu in args.cpu:
        floats, fixed = (instructions(kind, cpu, heard) for kind in KINDS)
        print(f"| {cpu} | {floats:,} | {fixed:,} | {fixed / floats:.2f}x |", flush=True)
    print(f"\nfixed point within {apart(heard):.1g} of the largest coefficient, {len(heard)} clips")
    return 0
