"""The guides' 32-bit recipe on ResNet-50 v2, against TensorFlow's own Graph Transform Tool."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench import Bench
from benchmarks.lines import Line, against, figure, judged
from benchmarks.processes import in_turns, run

TITLE = "32-bit recipe, ResNet-50 v2"
IN_QUICK = True
TRANSFORMS = (
    'strip_unused_nodes(type=float, shape="1,224,224,3") fold_constants(ignore_errors=true) '
    "fold_batch_norms fold_old_batch_norms"
)


def measure(bench: Bench) -> Iterator[Line]:
    model = bench.model("resnet_v2_50")
    feed, fetch = bench.interface("resnet_v2_50")
    output = bench.folder / "recipe.pb"
    ours = command(bench, model, output, feed, fetch)
    first = run(ours)
    before, after = model.stat().st_size, output.stat().st_size
    yield judged(
        f"{TITLE}: size of the output",
        "≤ input",
        f"{after / 1e6:.1f} : {before / 1e6:.1f} MB",
        after <= before,
    )
    yield figure(
        f"{TITLE}: whole process", f"{first.seconds:.2f} s, peak {first.peak_bytes / 1e6:.0f} MB (first run)"
    )
    theirs = bench.oracle("transform", model, bench.folder / "recipe_tf.pb", feed, fetch, TRANSFORMS)
    commands = {"ours": ours, "unverified": [*ours, "--verify=false"], "theirs": theirs}
    found = in_turns(commands, 1 if bench.quick else 7, warmup=0 if bench.quick else 1)
    inner = [json.loads(r.output.splitlines()[-1])["seconds"] for r in found["theirs"]]
    yield from against(TITLE, "TensorFlow's tool", found["ours"], found["theirs"], 1 / 4)
    yield from against(
        f"{TITLE}, --verify=false", "TensorFlow's tool", found["unverified"], found["theirs"], 1 / 4
    )
    size = (bench.folder / "recipe_tf.pb").stat().st_size / 1e6
    yield figure(
        "TensorFlow's tool without its start-up",
        f"{sorted(inner)[len(inner) // 2]:.2f} s; its output has {size:.1f} MB",
    )


def command(bench: Bench, model: Path, output: Path, feed: str, fetch: str) -> list[str]:
    """The recipe as the guides spell it."""
    return [
        *bench.thinflow,
        "transform_graph",
        f"--in_graph={model}",
        f"--out_graph={output}",
        f"--inputs={feed}",
        f"--outputs={fetch}",
        f"--transforms={TRANSFORMS}",
    ]
