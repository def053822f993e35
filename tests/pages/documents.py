"""Documents for tests of the report's page: every kind of block, with names that are no names."""

from __future__ import annotations

from thinflow.pages import report as r

HOSTILE = "</script><b onclick=alert(1)>\u202ename\x1b[2J \"' & \ud800"

WAVE = [(-0.5, 0.25), (-1.0, 1.0), (0.0, 0.0)]
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGNgAAAAAgAB"
    "SK+kcQAAAABJRU5ErkJggg=="
)

SIZES = [r.Bar("file", [100.0, 25.0]), r.Bar(HOSTILE, [1.0, None])]
SPANS = [r.Span("int8", 0, 98.0, 96.5, 99.0), r.Span("x", 1, 90.0, None, None)]
WHY = [r.Reason("two readers", 2, HOSTILE)]


FRAMES = [r.Frame((0.1, 0.2, 0.5, 0.6), 0, f"car {HOSTILE}"), r.Frame((0.1, 0.2, 0.6, 0.6), 1, "car 0.9")]


def every_block() -> list[r.Block]:
    """One of each kind."""
    axes = [r.Axis("size", "bytes", 90_000.0), r.Axis("time", "ms", down=False)]
    gains = [r.Axis("loss", "points", 1.5, down=True), r.Axis("SQNR", "dB")]
    point = [
        r.Point("int8 fast", [50_000.0, 0.5], [0.5, 40.0], "chosen", ["50 kB"]),
        r.Point("float16", [80_000.0, 1.0], [0.0, 70.0], "front"),
        r.Point("float32", [160_000.0, 1.0], [0.0, None], "fits"),
        r.Point(HOSTILE, [40_000.0, None], [9.0, 10.0], "misfit"),
    ]
    return [
        r.Text("a paragraph", "warn"),
        r.notes(["one", HOSTILE], "bad"),
        r.Facts([r.Fact("size", "54 kB", "3.3x smaller", "good"), r.Fact("time", "2 ms")]),
        r.Table([r.Column("node", code=True), r.Column("size", "bytes")], [[HOSTILE, 1000.0], ["b", None]]),
        r.Table([r.Column("a")], [["hidden"]], "behind a click", folded=True),
        r.Commands([r.Command("thinflow run 'my model.tflite'", "see what it answers")]),
        r.Bars("sizes", "bytes", ["float32", "int8"], SIZES),
        r.Distribution(
            "times",
            "ms",
            ["float32", "int8"],
            [
                r.Runs("float32", 0, [1.0, 1.1, 1.2, 30.0], 400, 1.1, 1.0, 1.2, 1.3),
                r.Runs(HOSTILE, 1, [0.5, 0.6], 2, 0.55, None, None, 0.6),
            ],
            "each dot is a run",
        ),
        r.Intervals("accuracy", "%", [], SPANS, 97.0),
        r.Scatter("trade-off", axes, gains, point),
        r.Layers(
            "noise",
            "dB",
            20.0,
            [r.Layer("conv1", "CONV_2D", None, 42.0), r.Layer(HOSTILE, "CONV_2D", 42.0, 12.0, True)],
            1,
            "they part ways",
        ),
        r.Ledger(
            [
                r.Step("fold_constants", 0, 0, (9, 9), (10, 10)),
                r.Step("fold_batch_norms", 4, 2, (9, 5), (10, 5), 1e-7, WHY),
                r.Step("remove_nodes", 0, 0, (5, 5), (5, 5)),
            ]
        ),
        r.Samples(
            ["float", "int8"],
            [
                r.Sample("bell.wav", "bell", [r.Answer("bell", "good"), r.Answer("dog", "bad")], wave=WAVE),
                r.Sample(HOSTILE, "", [r.Answer("2"), r.Answer("3", "warn")], PIXEL),
                r.Sample("street.png", "", [r.Answer("1 box")] * 2, PIXEL, boxes=FRAMES),
            ],
            "the wrong ones first",
        ),
        r.Listing(
            [r.Column("model", code=True), r.Column("kind"), r.Column("size", "bytes")],
            [1],
            [
                r.Listed(["b.pb", "model", 2000.0], ["two nodes", HOSTILE]),
                r.Listed([HOSTILE, "copy", None]),
                r.Listed(["a.pb", "model", 30_000.0], ["one node"]),
            ],
        ),
    ]


def every_document() -> r.ReportDocument:
    """A document with a section for each kind of block, and one without anything in it."""
    blocks = every_block()
    sections = [r.Section(f"s{n}", f"{block.kind} {n}", [block]) for n, block in enumerate(blocks)]
    return r.ReportDocument(
        HOSTILE,
        f"verdict {HOSTILE}",
        [*sections, r.section("Nothing", r.Text(""))],
        {"n": 1},
        "good",
        "interrupted",
    )
