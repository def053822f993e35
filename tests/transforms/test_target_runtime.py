"""The tables behind `target_runtime`, and what it makes of whole networks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, assert_same_numbers, reasons, step
from thinflow.analysis.releases import graph_version, history, knows, read_release, too_new
from thinflow.errors import ParameterError, TransformError
from thinflow.interpreter import Plan
from thinflow.ir.graph import Graph, Versions
from thinflow.ops import registry
from thinflow.ops._defaults import defaults_of, read_default
from thinflow.transforms.downgrade.rules import downgrade_rules
from thinflow.transforms.downgrade.target_runtime import Target, mobile_ops
from thinflow.zoo import digits, mobilenet_v2


@pytest.mark.parametrize(
    ("item", "since"),
    [
        ("Const", (1, 0)),
        ("AddV2", (1, 5)),
        ("FusedBatchNormV2", (1, 4)),
        ("FusedBatchNormV3", (1, 14)),
        ("GatherV2", (1, 3)),
        ("LeakyRelu", (1, 13)),
        ("Conv2D.dilations", (1, 5)),
        ("Conv2D.padding=EXPLICIT", (1, 14)),
        ("ResizeBilinear.half_pixel_centers", (1, 14)),
        ("BatchMatMulV3", (2, 8)),
    ],
)
def test_when_things_came(item: str, since: tuple[int, int]) -> None:
    assert history().since[item] == since
    assert not too_new(item, since)
    assert too_new(item, (since[0], since[1] - 1)) == (since != (1, 0)) or since == (1, 0)


def test_graph_versions() -> None:
    assert graph_version((1, 4)) == 24
    assert graph_version((1, 15)) == 134
    assert graph_version((2, 2)) == graph_version((2, 1)) == 175
    assert graph_version((99, 0)) >= 2474
    with pytest.raises(ParameterError, match="nothing is known about TensorFlow 0"):
        graph_version((0, 12))


@pytest.mark.parametrize("text", ["", "1", "new", "1.x", "-1.4", "1.4.0.0", "1.10000"])
def test_what_is_no_release(text: str) -> None:
    with pytest.raises(ParameterError, match="is not a release of TensorFlow"):
        read_release(text)
    assert read_release(" 1.13.1 ") == (1, 13)


def test_rules_are_for_things_that_exist() -> None:
    assert "AddV2" in downgrade_rules()
    for item in downgrade_rules():
        assert item in history().since, f"no release brought {item}"


def test_the_library_for_phones_has_ops_of_its_time() -> None:
    unknown = {op for op in mobile_ops() if not knows(op)}
    late = {op for op in mobile_ops() if too_new(op, (1, 13))}
    assert not unknown
    assert not late


def test_defaults_agree_with_the_signatures_of_ops() -> None:
    """A rule reads an absent attribute as TensorFlow's registry says."""
    wrong = []
    for name, definition in registry.all_ops():
        if not knows(name):
            continue
        for function in filter(None, (definition.infer, definition.kernel)):
            for attr, mine in registry.signature(function).attrs.items():
                theirs = (defaults_of(name) or {}).get(attr)
                simple = isinstance(mine, (bool, int, float, str)) and isinstance(
                    theirs, (bool, int, float, bytes)
                )
                mine = mine.encode() if isinstance(mine, str) else mine
                if simple and mine != (
                    theirs if isinstance(theirs, bytes) else pytest.approx(theirs, rel=1e-6)
                ):
                    wrong.append(f"{name}.{attr}: {mine!r}, not {theirs!r}")
    assert not wrong


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("int", "-1", -1),
        ("bool", "false", False),
        ("float", "0.01", 0.01),
        ("string", "'NHWC'", b"NHWC"),
        ("list(int)", "[1,1]", (1, 1)),
        ("list(string)", "[]", ()),
        ("list(string)", "['a','b']", (b"a", b"b")),
    ],
)
def test_spelling_of_defaults(kind: str, text: str, value: object) -> None:
    assert read_default(kind, text) == value
    assert type(read_default(kind, text)) is type(value)


@pytest.mark.parametrize("options", ["version=1.0", "version=1.4", "version=1.15", "mobile=true"])
@pytest.mark.parametrize("build", [digits.build, pytest.param(mobilenet_v2.build, marks=pytest.mark.slow)])
def test_networks(build: Callable[[int], Graph], options: str) -> None:
    graph = build(0)
    result = apply(graph, f"target_runtime({options})").graph
    release = read_release(options.removeprefix("version=")) if "version" in options else (1, 13)
    target = Target(release, "mobile" in options)
    assert not [item for node in result for item in target.demands(node)]
    again = apply(result, f"target_runtime({options})")
    assert again.changes == 0
    if build is digits.build:
        assert_same_numbers(graph, result, 1e-5)


TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    y = AddV2(x, x) {T=float}
    inputs: x
    outputs: y
"""


def test_the_version_of_the_graph() -> None:
    graph = parse_graph(TEXT)
    graph.versions = Versions(producer=1395, min_consumer=300, bad_consumers=(7,))
    result, _ = step(graph, "target_runtime(version=1.4)")
    assert result.versions == Versions(24, 24, (7,))
    graph.versions = Versions(producer=21, min_consumer=12)
    assert step(graph, "target_runtime(version=1.4)")[0].versions == Versions(21, 12)


def test_nothing_is_changed_when_something_cannot_be_said() -> None:
    graph = parse_graph(
        TEXT.replace("outputs: y", "outputs: z").replace(
            "inputs: x", "z = Erfinv(y) {T=float}\n    inputs: x"
        )
    )
    with pytest.raises(
        TransformError, match=r"cannot run one node: 'z' \(Erfinv\): TensorFlow 1.4 has no Erfinv"
    ) as caught:
        apply(graph, "target_runtime(version=1.4)")
    assert "partial=true" in caught.value.hint
    kept = apply(graph, "target_runtime(version=1.4, ignore_errors=true)")
    assert kept.graph.node("y").op == "AddV2"
    partial = apply(graph, "target_runtime(version=1.4, partial=true)")
    assert [partial.graph.node(n).op for n in "yz"] == ["Add", "Erfinv"]


def test_constants_in_a_loop_stay_in_it() -> None:
    graph = parse_graph("""
        x = Placeholder() {dtype=float, shape=shape[2]}
        e = Enter(x) {T=float, frame_name="f"}
        m = Merge(e, n) {N=2, T=float}
        l = Less(m, m) {T=float}
        r = ReduceAll(l)
        y = LeakyRelu(m) {T=float}
        n = NextIteration(y) {T=float}
        inputs: x
        outputs: n
    """)
    result, _ = step(graph, "target_runtime(version=1.4)")
    assert [n.name for n in result.node("y/alpha").control_inputs] == ["m"]


@pytest.mark.parametrize(("x", "w"), [((1, 3, 4), (5, 4, 2)), ((5, 3, 4), (1, 4, 2)), ((2, 3, 4), (2, 4, 2))])
def test_batches_of_unknown_sizes_broadcast_as_they_come(x: tuple[int, ...], w: tuple[int, ...]) -> None:
    graph = parse_graph("""
        x = Placeholder() {dtype=float, shape=shape[?,3,4]}
        w = Placeholder() {dtype=float, shape=shape[?,4,2]}
        y = BatchMatMulV2(x, w) {T=float}
        inputs: x, w
        outputs: y
    """)
    result, _ = step(graph, "target_runtime(version=1.4)")
    assert result.node("y").op == "BatchMatMul"
    feeds = [np.random.default_rng(size[0]).normal(size=size).astype(np.float32) for size in (x, w)]
    plan = Plan(result, [*result.outputs, *result.node("y").inputs], result.inputs)
    product, left, right = plan.run(dict(zip(result.inputs, feeds, strict=True)))
    np.testing.assert_allclose(product, feeds[0] @ feeds[1], rtol=1e-5)
    # BatchMatMul fails where the sizes of its batches differ.
    assert left.shape[0] == right.shape[0] == product.shape[0]


def test_padded_suppression_whose_scores_are_read_stays_as_it_is() -> None:
    graph = parse_graph("""
        b = Placeholder() {dtype=float, shape=shape[4,4]}
        s = Placeholder() {dtype=float, shape=shape[4]}
        n = Const() {value=int32[]{2}}
        o = Const() {value=float[]{0.5}}
        z = Const() {value=float[]{0}}
        k = NonMaxSuppressionV5(b, s, n, o, z, z) {T=float, pad_to_max_output_size=true}
        y = Neg(k:1) {T=float}
        inputs: b, s
        outputs: y
    """)
    result, report = step(graph, "target_runtime(version=1.10, partial=true)")
    assert result.node("k").op == "NonMaxSuppressionV5"
    assert reasons(report) == {"k": "its scores are padded, and those of older ops are not"}
    assert len(list(result)) == len(list(graph))
