"""Batch norms of frozen Keras models that our 32-bit pipeline folds away."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from benchmarks.bench import Bench
from benchmarks.lines import Line, judged
from benchmarks.processes import run

if TYPE_CHECKING:
    from thinflow import Graph

TITLE = "batch norms folded in frozen Keras models"
IN_QUICK = False
TRANSFORMS = (
    'strip_unused_nodes(type=float, shape="1,224,224,3") fold_constants(ignore_errors=true) '
    "fold_batch_norms fold_old_batch_norms"
)
WANTED = {"MobileNet": (27, 27), "ResNet50V2": (32, 49)}


def measure(bench: Bench) -> Iterator[Line]:
    import thinflow

    for name, (wanted, of) in WANTED.items():
        source, target = bench.folder / f"{name}.pb", bench.folder / f"{name}_folded.pb"
        feed, fetch = run(bench.oracle("freeze_keras", name, source)).output.split()[-2:]
        names = [f"--inputs={feed}", f"--outputs={fetch}", f"--transforms={TRANSFORMS}"]
        run([*bench.thinflow, "transform_graph", f"--in_graph={source}", f"--out_graph={target}", *names])
        before, after = (batch_norms(thinflow.load(path, inputs=[], outputs=[])) for path in (source, target))
        sizes = [path.stat().st_size for path in (source, target)]
        folded = before - after
        yield judged(f"{TITLE}: {name}", f"≥ {wanted} of {of}", f"{folded} of {before}", folded >= wanted)
        megabytes = f"{sizes[1] / 1e6:.2f} : {sizes[0] / 1e6:.2f} MB"
        yield judged(f"{TITLE}: {name}, size", "≤ input", megabytes, sizes[1] <= sizes[0])


def batch_norms(graph: Graph) -> int:
    """Batch norms in a graph: as one node, or as Keras 3 writes them, of which the multiplication counts."""
    return sum(
        node.op.startswith("FusedBatchNorm") or (node.op == "Mul" and node.name.endswith("batchnorm/mul_1"))
        for node in graph
    )
