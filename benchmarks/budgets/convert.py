"""GraphDef to .tflite, against TFLiteConverter."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.bench import Bench
from benchmarks.lines import Line, against, figure
from benchmarks.processes import in_turns, run

TITLE = "GraphDef to .tflite, ResNet-50 v2"
IN_QUICK = True


def measure(bench: Bench) -> Iterator[Line]:
    model = bench.model("resnet_v2_50")
    output = bench.folder / "convert.tflite"
    ours = [*bench.thinflow, "convert", str(model), str(output), "--no-verify"]
    first, verified = run(ours), run(ours[:-1])
    yield figure(
        f"{TITLE}: whole process",
        f"{first.seconds:.2f} s, peak {first.peak_bytes / 1e6:.0f} MB; verifying {verified.seconds:.2f} s",
    )
    feed, fetch = bench.interface("resnet_v2_50")
    theirs = bench.oracle("convert", model, bench.folder / "convert_tf.tflite", feed, fetch)
    found = in_turns({"ours": ours, "theirs": theirs}, 1 if bench.quick else 5, warmup=0)
    yield from against(TITLE, "TFLiteConverter", found["ours"], found["theirs"], 1 / 4)
