"""What MFCCs of sound take in floats and in fixed point, and how far apart they are.

    python -m benchmarks c_sound [--cpu NAME ...] [--samples 20] [--file FRONT.tflite]

The features of a keyword network of ../shared, of samples as a microphone gives them: instructions of a
frame, counted in QEMU, and the largest difference to what is computed in floats here, a part of the largest.

`--file` takes a front end of TFLite Micro's signal ops instead, such as its audio_preprocessor_int8.tflite:
instructions of each layer for a frame of noise, and of how many frames of speech the features are those of
the interpreter, to the last bit and one after the other.
"""

from __future__ import annotations

import argparse
import tempfile
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import thinflow
from benchmarks.c.boards import BOARDS, missing, run_on
from benchmarks.c.layer_counts import counted
from benchmarks.ptq import cases
from thinflow.engines._c_library import Library, compiler
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.optimize.c_source import c_source
from thinflow.tflite.reader import read_program
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


def frames(path: Path, heard: Array) -> tuple[int, int]:
    """How many frames of speech there were, and of how many the C of a front end makes the same features as
    the interpreter."""
    made = network(read_program(path.read_bytes()), Options())
    library = Library(made, Writer(made, "net").files(), "net")
    graph = thinflow.load(path, state="keep")
    session = thinflow.Session(graph, engine="reference")
    shape = tuple(n or 1 for n in made.block.inputs[0].shape or ())
    size, outputs = int(np.prod(shape)), [v.name for v in graph.outputs[: len(made.outputs)]]
    whole = heard[:, : heard.shape[1] // size * size].reshape(-1, *shape)
    equal = 0
    for frame in whole:
        wanted = session.run(outputs, {graph.inputs[0].name: frame})
        pairs = zip(library.run([frame]), wanted, strict=True)
        equal += all(np.array_equal(got, right) for got, right in pairs)
    return len(whole), equal


def front_end(path: Path, cpus: Sequence[str], heard: Array) -> int:
    """The table of a front end; 1 if its features are others."""
    found = {cpu: counted(path.read_bytes(), cpu) for cpu in cpus}
    print("| layer | " + " | ".join(found) + " |\n" + "|---" * (len(found) + 1) + "|")
    first = next(iter(found.values()))
    for number, layer in enumerate(first.network.layers):
        counts = " | ".join(f"{one.layers[number]:,}" for one in found.values())
        print(f"| {layer.operator.custom_code or layer.operator.code} | {counts} |")
    print("| all | " + " | ".join(f"{one.run.instructions:,}" for one in found.values()) + " |")
    flash = " | ".join(f"{one.run.flash_bytes:,} and {one.run.ram_bytes:,}" for one in found.values())
    print(f"| bytes of flash, of memory | {flash} |")
    count, equal = frames(path, heard)
    print(f"\n{equal} of {count} frames of speech have the interpreter's features, to the last bit")
    return int(equal < count)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks c_sound", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--cpu", nargs="*", choices=BOARDS, default=["cortex-m0", "cortex-m4"])
    parser.add_argument("--samples", type=int, default=20, metavar="N", help="clips (default 20)")
    parser.add_argument("--file", type=Path, metavar="FRONT.tflite", help="a front end of signal ops")
    args = parser.parse_args(argv)
    folder = cases.shared() / "data" / "kws"
    why = missing() or (None if compiler() else "there is no C compiler")
    if why := why or (None if folder.is_dir() else f"{folder} not found"):
        print(f"skipped: {why}")
        return 0
    heard = clips(args.samples)
    if args.file is not None:
        return front_end(args.file, args.cpu, heard)
    print("| cpu | floats, instructions of a frame | fixed point | of floats' |\n|---|---|---|---|")
    for cpu in args.cpu:
        floats, fixed = (instructions(kind, cpu, heard) for kind in KINDS)
        print(f"| {cpu} | {floats:,} | {fixed:,} | {fixed / floats:.2f}x |", flush=True)
    print(f"\nfixed point within {apart(heard):.1g} of the largest coefficient, {len(heard)} clips")
    return 0
