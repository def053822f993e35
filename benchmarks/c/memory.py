"""What less memory costs: networks in C with whole layers, and with layers that run a few rows at a time.

    python -m benchmarks c_ram [--cpu NAME ...] [--model NAME ...] [--part 0.7 0.5 0] [--samples 3]

Arenas are to be so large a part of that with whole layers; 0 asks for the least there is. Instructions are
counted in QEMU, answers compared with LiteRT's reference kernels, on samples of random bytes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.c.boards import BOARDS, Run, missing, run_on
from benchmarks.c.table import references, samples
from benchmarks.ptq.cases import shared
from thinflow.lower.c.convert import Network, TooLittleMemory, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program
from thinflow.typing import Array

MODELS = {
    "kws": "mlperf_kws_ref",
    "resnet": "mlperf_resnet_quant",
    "vww": "mlperf_vww_96_int8",
    "person": "person_detect",
    "mobilenet 224": "mobilenet_v1_025_224_quant",
}
HEADERS = (
    "model",
    "cpu",
    "arena",
    "of whole layers'",
    "instructions",
    "of whole layers'",
    "flash",
    "bands",
    "exact",
)


def networks(content: bytes, cpu: str, parts: list[float]) -> Iterator[Network]:
    """A network with whole layers, then in less and less memory."""
    whole = network(read_program(content), Options(cpu=cpu))
    yield whole
    for part in parts:
        ram = whole.outside_bytes + round(part * whole.plan.arena_bytes)
        try:
            yield network(read_program(content), Options(cpu=cpu, ram=ram))
        except TooLittleMemory as error:
            if not part:
                yield error.least


def measured(made: Network, cpu: str, feeds: Array) -> Run:
    """A network on its board."""
    size = made.block.outputs[0].size_bytes or 0
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        flat = feeds.reshape(len(feeds), -1)
        return run_on(BOARDS[cpu], Writer(made, "net").files(), "net", flat.view("u1"), size, Path(folder))


def rows(model: str, cpu: str, content: bytes, parts: list[float], count: int) -> Iterator[tuple[str, ...]]:
    """Lines of the table."""
    first: tuple[int, int] | None = None
    x = read_program(content).subgraphs[0].inputs[0]
    feeds = samples(x.shape or (), count).view(x.dtype.numpy())
    wanted = references(content, feeds) if model != "person" else None
    for made in networks(content, cpu, parts):
        run = measured(made, cpu, feeds)
        arena = made.plan.arena_bytes
        first = first or (arena, run.instructions)
        if wanted is None:
            # LiteRT refuses the file: whole layers say what is right.
            wanted = run.answers.view("i1")
        wrong = int((run.answers.view(wanted.dtype) != wanted).any(1).sum())
        yield (
            model,
            cpu,
            f"{arena:,}",
            f"{arena / first[0]:.2f}x",
            f"{run.instructions:,}",
            f"{run.instructions / first[1]:.3f}x",
            f"{run.flash_bytes:,}",
            ", ".join(f"{b.start + 1}-{b.end} by {b.rows}" for b in made.bands) or "-",
            f"{count} of {count}" if not wrong else f"{wrong} of {count} DIFFER",
        )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks c_ram", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--cpu", nargs="*", choices=BOARDS, default=["cortex-m4", "cortex-m55"])
    parser.add_argument("--model", nargs="*", choices=MODELS, default=["resnet", "vww", "person"])
    parser.add_argument(
        "--part", nargs="*", type=float, default=[0.7, 0.5, 0.0], metavar="P", help="of the arena"
    )
    parser.add_argument("--samples", type=int, default=3, metavar="N", help="inputs of each (default 3)")
    args = parser.parse_args(argv)
    folder = shared() / "zoo" / "tflite"
    if why := missing() or (None if folder.is_dir() else f"{folder} not found"):
        print(f"skipped: {why}")
        return 0
    print("| " + " | ".join(HEADERS) + " |\n|" + "---|" * len(HEADERS))
    for cpu in args.cpu:
        for model in args.model:
            content = (folder / f"{MODELS[model]}.tflite").read_bytes()
            for line in rows(model, cpu, content, args.part, args.samples):
                print("| " + " | ".join(line) + " |", flush=True)
    return 0
