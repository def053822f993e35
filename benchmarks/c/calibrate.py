"""What kernels of the C take, counted and fitted; and how far the estimate of `thinflow fit` is off.

    python -m benchmarks fit_costs [--cpu NAME ...] [--networks 60]     # count, fit, write the package's data
    python -m benchmarks fit_costs --kernel " wide"                     # only those of such a name
    python -m benchmarks fit_costs --check [--cpu NAME ...]             # estimate beside counts, no fitting

Counted are made-up networks of random layers (`made_layers`), layer by layer, in QEMU; what is fitted is a
weighted sum of what a layer does (`thinflow.fit.work`), with weights that are not negative and errors taken
relative to the count. The networks it is judged by are of others, and none of them is fitted to.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.c.boards import missing
from benchmarks.c.layer_counts import Counted, counted
from benchmarks.c.made_layers import made_front_ends, made_networks
from benchmarks.ptq.cases import shared
from thinflow.errors import ThinflowError
from thinflow.fit.cross import Compiled, compiled
from thinflow.fit.instructions import Costs, estimated
from thinflow.fit.work import Work, work_of
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program
from thinflow.typing import Array

DATA = Path(__file__).parents[2] / "src" / "thinflow" / "fit" / "data" / "instructions.json"
CPUS = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55")
"""Each with kernels of its own; others have those of one of them."""
JUDGES = (
    *("mlperf_kws_ref", "mlperf_ad01_int8", "mlperf_resnet_quant", "mlperf_vww_96_int8", "mlperf_str_ww"),
    *("micro_speech_quantized", "person_detect", "hello_world_int8", "face_detection_short_range"),
)
_TICK = 40
"""Instructions that a count may be off by: an error below them is none."""


def fitted(works: Sequence[Array], counts: Sequence[float]) -> Array:
    """Weights, none negative, of the sum that is closest to the counts, errors being relative."""
    x, y = np.array(works), np.array(counts, float)
    weight = 1 / (y + 10 * _TICK)
    a, b = x * weight[:, None], y * weight
    scale = np.maximum(np.sqrt((a * a).sum(0)), 1e-12)
    gram, target = (a / scale).T @ (a / scale), (a / scale).T @ b
    found = np.zeros(x.shape[1])
    # By coordinates: seven of them, and no package is needed.
    for _ in range(1_500):
        for n in range(len(found)):
            found[n] = max(0.0, found[n] + (target[n] - gram[n] @ found) / max(gram[n, n], 1e-12))
    weights: Array = found / scale * (scale > 1e-12)
    return weights


def costs_of(runs: Iterable[Counted], cpu: str) -> Costs:
    """What kernels take on a processor, by counted networks."""
    layers: dict[str, list[tuple[Work, float]]] = defaultdict(list)
    sizes: list[tuple[set[str], int, Compiled]] = []
    for run in runs:
        for layer, count in zip(run.network.layers, run.layers, strict=True):
            if layer.calls:
                work = work_of(layer)
                layers[work.kernels].append((work, count))
                # By kind as well: for kernels that come later.
                layers[work.kind].append((work, count))
        writer = Writer(run.network, "net")
        size = compiled(writer.files(), "net", cpu)
        if size is not None:
            functions = {work_of(one).kernels for one in run.network.layers if one.calls}
            calls = sum(len(one.calls) for one in run.network.layers)
            code = Compiled(size.flash_bytes - run.network.weights_bytes, size.stack_bytes)
            sizes.append((functions, calls, code))
    found = {
        key: [
            float(f"{w:.4g}") for w in fitted([np.array(w.quantities) for w, _ in rows], [c for _, c in rows])
        ]
        for key, rows in sorted(layers.items())
    }
    return Costs(found, *_code(sizes))


def _code(sizes: Sequence[tuple[set[str], int, Compiled]]) -> tuple[dict[str, int], int, int]:
    """Bytes of code of each kernel, of a call, and of the stack."""
    names = sorted({name for kernels, _, _ in sizes for name in kernels})
    rows = [[*(float(n in kernels) for n in names), float(calls)] for kernels, calls, _ in sizes]
    found = fitted([np.array(r) for r in rows], [s.flash_bytes for _, _, s in sizes])
    code = {name: round(size) for name, size in zip(names, found, strict=False)}
    return code, round(found[-1]), max(s.stack_bytes for _, _, s in sizes)


def judged(cpu: str) -> list[tuple[str, int, float]]:
    """Networks of others: name, instructions counted, and estimated over counted."""
    rows = []
    for name in JUDGES:
        path = shared() / "zoo" / "tflite" / f"{name}.tflite"
        try:
            run = counted(path.read_bytes(), cpu)
        # Some are too large for a board, or hold what has no form yet.
        except (ThinflowError, RuntimeError, OSError) as error:
            print(f"{name} on {cpu}: {str(error).splitlines()[0][:80]}")
            continue
        total = sum(estimated(work_of(layer), cpu).instructions for layer in run.network.layers)
        rows.append((name, run.run.instructions, total / run.run.instructions))
    return rows


def _with_kernel(networks: Iterable[bytes], text: str, cpu: str) -> Iterator[bytes]:
    """Networks with a layer whose kernels have that in their name."""
    for content in networks:
        layers = network(read_program(content), Options(cpu=cpu)).layers
        if any(text in work_of(layer).kernels for layer in layers):
            yield content


def _counted(networks: Iterable[bytes], kind: str, cpu: str) -> Iterator[Counted]:
    """Counts of networks; what does not run is named and left out."""
    for number, content in enumerate(networks):
        try:
            yield counted(content, cpu)
        except (ThinflowError, RuntimeError) as error:
            print(f"{kind} network {number} on {cpu}: {str(error).splitlines()[0][:80]}", flush=True)


def _store(cpu: str, figures: Mapping[str, Any]) -> None:
    """Keep figures of a processor in the package's data."""
    stored = json.loads(DATA.read_text()) if DATA.exists() else {}
    stored[cpu] = {**stored.get(cpu, {}), **figures}
    DATA.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")
    Costs.of.cache_clear()


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks fit_costs", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--cpu", nargs="*", choices=CPUS, default=list(CPUS))
    parser.add_argument("--networks", type=int, default=60, help="of each element type (default 60)")
    parser.add_argument("--kernel", metavar="TEXT", help="only kernels whose names hold it; others stay")
    parser.add_argument("--check", action="store_true", help="judge what the package holds")
    args = parser.parse_args(argv)
    if why := missing():
        print(f"skipped: {why}")
        return 0
    for cpu in args.cpu:
        if not args.check:
            networks = {kind: made_networks(kind, args.networks) for kind in ("int8", "float")}
            # There is little in these that differs.
            networks["sound"] = made_front_ends(-(-args.networks // 6))
            if args.kernel:
                networks = {k: _with_kernel(found, args.kernel, cpu) for k, found in networks.items()}
            runs = [run for kind, found in networks.items() for run in _counted(found, kind, cpu)]
            figures = costs_of(runs, cpu).data()
            if args.kernel and (known := Costs.of(cpu)) is not None:
                found = {k: w for k, w in figures["instructions"].items() if args.kernel in k}
                figures = {"instructions": {**known.weights, **found}}
            _store(cpu, figures)
    print("| network | cpu | instructions | estimated |\n|---|---|---|---|")
    for cpu in args.cpu:
        rows = judged(cpu)
        for name, count, ratio in rows:
            print(f"| {name} | {cpu} | {count:,} | {ratio:.2f}x |")
        errors = [abs(ratio - 1) for _, count, ratio in rows if count > 10_000] or [0.0]
        usual, worst = float(np.quantile(errors, 0.75)), max(errors)
        if not args.check:
            _store(cpu, {"error": round(usual, 2), "worst": round(worst, 2)})
        told = f"three of four within {usual:.0%}, the worst {worst:.0%}"
        print(f"\n{cpu}, runs above 10,000 instructions: {told}\n")
    return 0
