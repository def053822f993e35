"""The guides' eight-bit recipe on ResNet-50 v2, against TensorFlow's own Graph Transform Tool."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.lines import Line, figure, judged, ratio_line
from benchmarks.processes import in_turns, run

TITLE = "eight-bit recipe, ResNet-50 v2"
IN_QUICK = True
LARGEST = 26.5e6  # bytes
TRANSFORMS = (
    'add_default_attributes strip_unused_nodes(type=float, shape="1,224,224,3") '
    "remove_nodes(op=Identity, op=CheckNumerics) fold_constants(ignore_errors=true) fold_batch_norms "
    "fold_old_batch_norms quantize_weights quantize_nodes strip_unused_nodes sort_by_execution_order"
)


def measure(bench: Bench) -> Iterator[Line]:
    model = bench.model("resnet_v2_50")
    feed, fetch = bench.interface("resnet_v2_50")
    output = bench.folder / "eight_bit_recipe.pb"
    files = [f"--in_graph={model}", f"--out_graph={output}", f"--inputs={feed}", f"--outputs={fetch}"]
    ours = [*bench.thinflow, "transform_graph", *files, f"--transforms={TRANSFORMS}"]
    first = run(ours)
    size = output.stat().st_size
    yield judged(
        f"{TITLE}: size of the output", f"≤ {LARGEST / 1e6:.1f} MB", f"{size / 1e6:.1f} MB", size <= LARGEST
    )
    yield figure(f"{TITLE}: whole process", f"{first.seconds:.2f} s (first run)")
    theirs = bench.oracle("transform", model, bench.folder / "eight_bit_tf.pb", feed, fetch, TRANSFORMS)
    commands = {"ours": ours, "unverified": [*ours, "--verify=false"], "theirs": theirs}
    found = in_turns(commands, 1 if bench.quick else 7, warmup=0 if bench.quick else 1)
    seconds = {who: [r.seconds for r in runs] for who, runs in found.items()}
    for who, what in (("unverified", "--verify=false"), ("ours", "verified")):
        label = f"{TITLE}, {what}: time : TensorFlow's tool"
        yield ratio_line(label, seconds[who], seconds["theirs"], 1 / 2, "s")
