"""Layers that are slower in integers where a model runs become float, if the clock says that it helps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.bench import rows
from tests.quantize.programs import Builder, quantize
from thinflow import zoo
from thinflow.bench.profile_model import Profile, collect
from thinflow.bench.profile_text import RowProfile
from thinflow.bench.report import BenchmarkReport
from thinflow.load.graphs import load_for_inference
from thinflow.optimize import float_islands
from thinflow.optimize.advice import slower_note
from thinflow.optimize.float_graph import float_graph
from thinflow.optimize.float_islands import _Times, quicker
from thinflow.optimize.job_inputs import JobOptions
from thinflow.optimize.ladder.ground import Ground
from thinflow.optimize.litert import LiteRTMaker
from thinflow.optimize.rungs import with_floats
from thinflow.optimize.samples import rebind, samples_for
from thinflow.quantize.recipe import Recipe
from thinflow.zoo import digits


def profile(micros: Mapping[str, int]) -> Profile:
    """Of three runs, of which one was disturbed."""
    steps = [(name, "OP", time, 0) for name, time in micros.items()]
    disturbed = [(name, op, 90 * time, size) for name, op, time, size in steps]
    return Profile(collect([disturbed, steps, steps]), "litert", 1, "by hand")


@pytest.mark.parametrize(
    ("floats", "integers", "expected"),
    [
        # Faster in integers, all of them.
        ((20, 10, 20), (10, 5, 10), []),
        # A first layer of few channels, and a depthwise one, as with AMX.
        ((5, 6, 20), (24, 18, 10), ["CONV_2D", "DEPTHWISE_CONV_2D"]),
        # In the middle the way there and back costs more than a microsecond brings.
        ((20, 10, 20), (10, 11, 10), []),
        ((20, 10, 20), (10, 40, 10), ["DEPTHWISE_CONV_2D"]),
    ],
)
def test_layers_that_are_slower_are_found(
    floats: Sequence[int], integers: Sequence[int], expected: list[str]
) -> None:
    b = Builder()
    x = b.conv(b.depthwise(b.conv(b.input(1, 32, 32, 3), 16)), 16)
    program = b.program(b.op("SOFTMAX", b.op("MEAN", x, b.const([1, 2]), keep_dims=False)))
    made = quantize(program)
    layers = program.subgraphs[0].operators[:3]
    before, after = (
        profile({o.outputs[0].name: micros for o, micros in zip(of, taken, strict=True)})
        for of, taken in ((layers, floats), ([made.made[o] for o in layers], integers))
    )
    found = _Times(program, made, before, after).faster(1.5)
    assert [o.code for o in found if o in layers] == expected


def test_layers_with_ranges_of_each_run_are_found() -> None:
    b = Builder()
    x = b.conv(b.depthwise(b.input(1, 16, 16, 16)), 96, 1)
    program = b.program(b.conv(x, 96, 1))
    deep, *layers = program.subgraphs[0].operators
    recipe = {"dynamic_nodes": ("node1", "node2"), "skip_nodes": ("node0",)}
    made = quantize(program, **recipe)
    floats = profile({o.outputs[0].name: 50 for o in (deep, *layers)})
    integers = profile({o.outputs[0].name: micros for o, micros in zip(layers, (60, 20), strict=True)})
    times = _Times(program, made, floats, integers)
    # What is float already is none of them.
    assert times.faster(1.5) == [layers[0]]
    changed = with_floats(Recipe(**recipe), program, [layers[0]])
    assert changed is not None
    assert changed.dynamic_nodes == ("node2",)
    assert "node1" in (*changed.skip_nodes, *changed.weights_only)


def test_a_clamp_goes_with_its_layer() -> None:
    b = Builder()
    x = b.conv(b.input(1, 32, 32, 3), 16, act="NONE")
    y = b.op("RELU", x)
    b.channels[y] = 16
    program = b.program(b.conv(y, 4))
    first, clamp, last = program.subgraphs[0].operators
    made = quantize(program)
    names = [made.made[o].outputs[0].name for o in (first, last)]
    # The runtime's kernel for both has the clamp's name.
    times = _Times(
        program,
        made,
        profile({clamp.outputs[0].name: 9, last.outputs[0].name: 9}),
        profile(dict.fromkeys(names, 90)),
    )
    assert times.faster(1.5) == [first, clamp, last]
    made_of = profile({names[0]: 4, names[1]: 4})
    assert _Times(program, made, profile({clamp.outputs[0].name: 9}), made_of).faster(1.5) == [last]


@dataclass
class Clock:
    """Made-up times by the stems of files, in ms."""

    ms: dict[str, float]
    raced: list[list[str]]

    def race(self, devices: Any, paths: list[Path], **options: Any) -> BenchmarkReport:
        assert options["threads"] == (1,)
        self.raced.append([p.stem for p in paths])
        timed = [rows.row(p.stem, self.ms[p.stem.rstrip("01")]) for p in paths]
        return replace(rows.report(*timed), paths={str(p): p.stem for p in paths})

    def profiled(self, job: Any, latency: Any, files: Sequence[Path], feeds: Any) -> list[RowProfile]:
        names = ["conv1/Relu", "conv2/Relu", "conv3/Relu"]
        floats, integers = (
            profile(dict.fromkeys(names, 100)),
            profile({names[0]: 300, names[1]: 50, names[2]: 50}),
        )
        return [RowProfile(rows.row(p.stem, 1.0), f) for p, f in zip(files, (floats, integers), strict=True)]


@pytest.fixture(scope="module")
def ground() -> Ground[Any, Any]:
    graph = load_for_inference(digits.build(0))[0]
    samples = samples_for(graph, zoo.calibration("digits", 16, 0))
    made = float_graph(graph, samples=samples, runtime="litert").graph
    board: Any = SimpleNamespace(name="board")
    options = JobOptions(threads=(1,), effort="default", devices=(board,))
    job: Any = SimpleNamespace(options=options, graph=graph, data=samples)
    bound = rebind(samples, graph, made)
    return Ground(LiteRTMaker, LiteRTMaker().lower(made, bound), job, bound, bound, end_to_end=True)


@pytest.fixture(scope="module")
def pair(ground: Ground[Any, Any]) -> Any:
    maker = ground.make("none")
    return maker.pair(ground.model, ground.original, ground.calibration, ground.evaluation, Recipe())


def raced(ground: Any, pair: Any, monkeypatch: pytest.MonkeyPatch, **ms: float) -> tuple[Any, Clock]:
    clock = Clock(ms, [])
    monkeypatch.setattr(float_islands, "race", clock.race)
    monkeypatch.setattr(float_islands, "profiled", clock.profiled)
    return quicker(ground, pair), clock


def test_what_is_faster_is_kept_and_told(
    ground: Ground[Any, Any], pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, clock = raced(ground, pair, monkeypatch, float=1.0, before=1.5, tried=0.9)
    assert clock.raced[0] == ["before", "float"]
    assert clock.raced[1][:3] == ["float", "before", "tried0"]
    assert "conv1/Conv2D" in made.quantized.way.recipe.skip_nodes
    floats = [o.code for o, _ in made.quantized.quantized.float_operators]
    assert "CONV_2D" in floats
    said = made.quantized.warnings[-1]
    assert said.startswith("on the device int8 took 1.50 ± 0.02 times as long as float; with 1 CONV_2D and ")
    assert "between them in float, which take longer in int8 there, it takes 0.90" in said
    assert said.endswith("Other processors may be faster without")
    assert len(made.quantized.content) > len(pair.quantized.content)


@pytest.mark.parametrize(
    ("ms", "races"),
    [
        # Slower by no more than times differ anyway: nothing is looked for.
        ({"float": 1.0, "before": 1.04}, 1),
        ({"float": 1.0, "before": 0.5}, 1),
        # What was tried gains no more than that, or loses.
        ({"float": 1.0, "before": 1.5, "tried": 1.45}, 2),
        ({"float": 1.0, "before": 1.5, "tried": 1.6}, 2),
    ],
)
def test_nothing_changes_for_a_gain_within_the_noise(
    ground: Ground[Any, Any], pair: Any, monkeypatch: pytest.MonkeyPatch, ms: dict[str, float], races: int
) -> None:
    made, clock = raced(ground, pair, monkeypatch, **ms)
    assert made is pair
    assert len(clock.raced) == races


@pytest.mark.parametrize(
    "change",
    [{"devices": ()}, {"effort": "fast"}, {"target": "cortex-m4", "calibration": ()}],
)
def test_nothing_is_timed_where_times_are_not_wanted(
    ground: Ground[Any, Any], pair: Any, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    ground.job.options.__dict__.pop("opened", None)
    asked = replace(ground, job=SimpleNamespace(options=replace(ground.job.options, **change)))  # type: ignore[arg-type]
    made, clock = raced(asked, pair, monkeypatch, float=1.0, before=9.0)
    assert (made, clock.raced) == (pair, [])


def test_a_model_that_is_slower_here_is_told_of_and_kept() -> None:
    report = rows.report(rows.row("net_fp32", 1.0), rows.row("net_int8", 1.5, eight_bit=True))
    (said,) = slower_note(report, JobOptions())
    assert said.startswith("on this machine net_int8 took 1.50 ± 0.02 times as long as net_fp32; if this is")
    assert "--device local" in said
    assert slower_note(report, JobOptions(max_latency="9ms", calibration=())) == []
    quick = rows.report(rows.row("net_fp32", 1.0), rows.row("net_int8", 1.02, eight_bit=True))
    assert slower_note(quick, JobOptions()) == slower_note(None, JobOptions()) == []
    onnx = {"engine": "onnxruntime"}
    others = rows.report(rows.row("net_fp32", 1.0, **onnx), rows.row("net_int8", 1.5, eight_bit=True, **onnx))
    assert slower_note(others, JobOptions()) == []


def test_a_recipe_may_do_without(
    ground: Ground[Any, Any], pair: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    way = replace(pair.quantized.way, recipe=Recipe(float_parts=frozenset(("scores",))))
    asked = replace(pair, quantized=replace(pair.quantized, way=way))
    made, clock = raced(ground, asked, monkeypatch, float=1.0, before=9.0)
    assert (made, clock.raced) == (asked, [])
