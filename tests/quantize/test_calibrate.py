"""Ranges seen while samples run through LiteRT."""

from __future__ import annotations

import numpy as np
import pytest

from tests.quantize.programs import CONV, Builder, samples
from thinflow.errors import EngineUnavailable, FeedError, ParameterError
from thinflow.quantize import observers
from thinflow.quantize.calibrate import calibrate
from thinflow.quantize.recipe import Recipe
from thinflow.tflite.model import Operator, Program, Signature, Subgraph, Tensor


def two_steps() -> tuple[Program, Tensor, Tensor, Tensor]:
    b = Builder()
    x = b.input(1, 4)
    y = b.op("MUL", x, b.const(np.float32(2)))
    z = b.op("ADD", y, b.const(np.float32(1)))
    return b.program(z), x, y, z


def feed(*values: float) -> dict[str, np.ndarray]:
    return {"in0": np.float32([values])}


def test_every_activation_has_its_range() -> None:
    program, x, y, z = two_steps()
    found = calibrate(program, [feed(0, 1, 2, 3), feed(-1, 0, 0, 0)])
    assert found.samples == 2
    assert {t: r[:2] for t, r in found.ranges.items()} == {x: (-1, 3), y: (-2, 6), z: (-1, 7)}
    assert {r.observer for r in found.ranges.values()} == {"minmax"}


def test_few_samples_warn_and_none_is_an_error() -> None:
    program, *_ = two_steps()
    assert "only 1 calibration sample" in calibrate(program, [feed(0, 1, 2, 3)]).warnings[0]
    assert not calibrate(program, [feed(0, 1, 2, 3)], Recipe(few_samples=1)).warnings
    with pytest.raises(FeedError, match="no calibration samples"):
        calibrate(program, [])


def test_a_sample_with_nan_or_infinity_makes_no_ranges() -> None:
    program, x, y, _ = two_steps()
    good = [feed(0, 1, 2, 3)] * 19
    for odd in (np.nan, np.inf, -np.inf):
        found = calibrate(program, [*good, feed(50, odd, 0, 0)])
        assert found.ranges[x][:2] == (0, 3)
        assert found.ranges[y][:2] == (0, 6)
        assert (found.samples, found.left_out) == (19, {"sample 19": "in0"})
        assert "sample 19 (input 'in0') holds NaN or infinity and was left out" in found.warnings


def test_too_many_samples_with_nan_are_an_error() -> None:
    program, *_ = two_steps()
    problem = "2 of 4 samples hold NaN or infinity; the first is sample 1, in input 'in0'"
    with pytest.raises(FeedError, match=problem):
        calibrate(program, [feed(1, 2, 3, 4), feed(*[np.nan] * 4)] * 2)
    with pytest.raises(FeedError, match="1 of 1 samples hold NaN"):
        calibrate(program, [feed(*[np.nan] * 4)])


def test_observers_of_two_walks_leave_the_same_samples_out() -> None:
    program, x, *_ = two_steps()
    feeds = [*[feed(0, 1, 2, 3)] * 19, feed(np.nan, 90, 0, 0)]
    assert calibrate(program, feeds, Recipe(observer="percentile")).ranges[x][:2] == (0, 3)


def test_values_inside_that_are_not_finite_are_skipped_and_reported() -> None:
    b = Builder()
    x = b.input(1, 4)
    root = b.op("SQRT", x)
    program = b.program(b.op("ADD", root, b.const(np.float32(1))))
    found = calibrate(program, [feed(0, 1, 4, 9), feed(-1, -1, 25, 0)])
    assert found.ranges[root][:2] == (0, 5)
    assert found.not_finite[root.name] == 2
    said = f"'{root.name}' had 2 values that are NaN or infinite, first in sample 1; they were skipped"
    assert said in found.warnings


def test_a_scalar_is_fed_as_one() -> None:
    b = Builder()
    x, scale = b.input(1, 4), b.input()
    y = b.op(
        "MUL",
        x,
        b.op("RESHAPE", b.op("PACK", scale, scale, axis=0, values_count=2), b.const(np.int32([2, 1]))),
    )
    found = calibrate(b.program(y), [{"in0": np.float32([[0, 1, 2, 3]]), "in1": np.float32(2)}])
    assert found.ranges[y][:2] == (0, 6)


def test_progress() -> None:
    program, *_ = two_steps()
    seen: list[tuple[int, int, str]] = []
    calibrate(program, [feed(0, 1, 2, 3)] * 3, progress=lambda *a: seen.append(a))
    assert seen == [(1, 3, "calibrating"), (2, 3, "calibrating"), (3, 3, "calibrating")]
    seen.clear()
    calibrate(program, iter([feed(0, 1, 2, 3)]), progress=lambda *a: seen.append(a))
    assert seen == [(1, 0, "calibrating")]


def test_names_of_inputs() -> None:
    program, x, *_ = two_steps()
    program.signatures["serve"] = Signature({"picture": x}, {})
    for name in ("in0", "in0:0", "picture"):
        assert calibrate(program, [{name: np.float32([[1, 2, 3, 4]])}]).samples == 1
    with pytest.raises(FeedError, match="sample 0: the model has no input 'in'") as error:
        calibrate(program, [{"in": np.zeros((1, 4))}])
    assert "did you mean 'in0'" in error.value.hint
    with pytest.raises(FeedError, match="nothing is given for input 'in0'"):
        calibrate(program, [{}])


def test_wrong_shape_says_both() -> None:
    program, *_ = two_steps()
    with pytest.raises(FeedError, match=r"sample 1: input 'in0' wants shape \[1,4\], found \[1,3\]"):
        calibrate(program, [feed(1, 2, 3, 4), feed(1, 2, 3)])


def test_unknown_batch_size_may_change_between_samples() -> None:
    program, x, *_ = two_steps()
    for tensor in program.subgraphs[0].tensors():
        if not tensor.is_constant:
            tensor.shape = (None, 4)
    arrays = [np.full((n, 4), n, np.float32) for n in (1, 3, 2)]
    assert calibrate(program, [{"in0": a} for a in arrays]).ranges[x][:2] == (1, 3)


def test_model_that_litert_cannot_run() -> None:
    x, y = Tensor("x", (1, 4), Builder().input(1).dtype), Tensor("y", (1, 4), Builder().input(1).dtype)
    program = Program([Subgraph([x], [y], [Operator("CUSTOM", [x], [y], custom_code="Mystery")])])
    problem = r"LiteRT cannot run the float model: .*Mystery.*\nhint: if sizes do not fit"
    with pytest.raises(EngineUnavailable, match=problem):
        calibrate(program, [{"x": np.zeros((1, 4), np.float32)}])


class Twice:
    """Counts its walks."""

    passes = 2

    def __init__(self, margin: float = 0.0) -> None:
        self.walks: list[int] = []
        self.seen = 0
        self.margin = margin

    def begin(self, walk: int) -> None:
        self.walks.append(walk)

    def observe(self, values: np.ndarray, low: float, high: float) -> None:
        assert low == values.min()
        assert high == values.max()
        self.seen += 1

    def range(self) -> tuple[float, float]:
        assert self.walks == [0, 1]
        return -self.seen - self.margin, self.seen


def test_observer_of_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(observers._REGISTRY, "twice", Twice)
    program, x, y, z = two_steps()
    recipe = Recipe(observer="twice", observer_options={"margin": 1.0})
    seen: list[tuple[int, int, str]] = []
    found = calibrate(program, samples(program, 5), recipe, progress=lambda *a: seen.append(a))
    assert found.samples == 5
    assert found.ranges[x] == (-11, 10, "twice")
    assert found.ranges[y].observer == "twice"
    assert found.ranges[z].observer == "minmax"  # the answer is never clipped
    assert seen[-1] == (10, 10, "calibrating")
    with pytest.raises(ParameterError, match="walks the samples 2 times"):
        calibrate(program, iter(samples(program, 5)), recipe)


@pytest.mark.parametrize("size", [(2, 2), (1, 2), (2, 1)])
def test_a_filter_as_large_as_the_image(size: tuple[int, int]) -> None:
    """LiteRT's threaded kernel leaves all but one pixel unwritten; whatever memory held was a range."""
    b = Builder(3)
    w = b.normal(3, *size, 2)
    x = b.input(2, *size, 2)
    program = b.program(b.op("CONV_2D", x, w, b.normal(3), **CONV))
    feeds = samples(program, 5)
    one, two = (calibrate(program, feeds, threads=threads).ranges for threads in (1, 2))
    assert one == two


def test_observers_by_name() -> None:
    assert "minmax" in observers.names()
    with pytest.raises(ParameterError, match="no observer 'minmix'") as error:
        observers.make("minmix")
    assert error.value.hint.startswith("did you mean 'minmax'")
    with pytest.raises(ParameterError, match="observer 'minmax' has no option 'p'"):
        observers.make("minmax", {"p": 1})
    with pytest.raises(ParameterError, match="two observers are called 'minmax'"):
        observers.observer("minmax")(Twice)


def test_recipe_refuses_what_does_not_exist() -> None:
    with pytest.raises(ParameterError, match="no quantization scheme 'int7'"):
        Recipe(scheme="int7")
    with pytest.raises(ParameterError, match="'CONV2D' is no LiteRT op") as error:
        Recipe(skip_ops={"CONV2D"})
    assert "CONV_2D" in error.value.hint
    with pytest.raises(ParameterError, match="skip_nodes is a string"):
        Recipe(skip_nodes="abc")
    with pytest.raises(ParameterError, match="no observer"):
        Recipe(observer="nothing")
