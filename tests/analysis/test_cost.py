"""Operations and parameters."""

from __future__ import annotations

from tests.transforms.golden import parse_graph
from thinflow.analysis.cost import Peak, graph_cost, parameters, peak_activations
from thinflow.analysis.shapes import infer_shapes
from thinflow.interpreter.turns import turns_of
from thinflow.ir.graph import Graph
from thinflow.ir.order import execution_order
from thinflow.ops.registry import Cost

TEXT = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,2]{range}}
k = Const() {dtype=int32, value=int32[3]{1,2,3}}
splat = Const() {dtype=float, value=float[1000]{2.5 x 1000}}
y = MatMul(x, w) {T=float}
z = Relu(y) {T=float}
i = Identity(z) {T=float}
m = Mystery(z)
"""


def test_operations_by_node() -> None:
    graph = parse_graph(TEXT)
    infer_shapes(graph)
    cost = graph_cost(graph)
    assert cost.by_node["y"].flops == 2 * 4 * 2
    assert cost.by_node["y"].macs == 8
    assert cost.by_node["z"].flops == 2
    assert "i" not in cost.by_node
    assert cost.total.flops == 18
    assert cost.unknown == {"m": "unknown op Mystery"}


def test_unknown_ops_and_sizes_are_named() -> None:
    graph = parse_graph(TEXT.replace("shape[1,4]", "shape[?,4]") + "n = Relu(m) {T=float}\n")
    infer_shapes(graph)
    unknown = graph_cost(graph).unknown
    assert unknown["y"] == "its sizes are not known"
    assert unknown["z"] == "its sizes are not known"  # Relu has no rule of its own
    assert unknown["m"] == "unknown op Mystery"
    assert "i" not in unknown  # an Identity costs nothing, whatever its size


def test_only_some_nodes() -> None:
    graph = parse_graph(TEXT)
    infer_shapes(graph)
    assert list(graph_cost(graph, [graph.node("z")]).by_node) == ["z"]


def test_parameters_are_counted_as_stored() -> None:
    found = parameters(parse_graph(TEXT), largest=2)
    assert found.count == 8 + 3 + 1000
    assert found.bytes_by_dtype["int32"] == 12
    assert found.bytes_by_dtype["float"] < 100  # the splat is stored once
    assert found.largest[0][:3] == ("w", "float", "[4,2]")
    assert len(found.largest) == 2


# ---- What functions cost.

LOOP = """
x = Placeholder() {dtype=float, shape=shape[1,4]}
w = Const() {dtype=float, value=float[4,4]{range}}
zero = Const() {dtype=int32, value=int32[]{0}}
end = LIMIT
loop = StatelessWhile(zero, end, x, w) {T=[int32,int32,float,float], body=@turn, cond=@asks}
y = PartitionedCall(loop:2, w) {Tin=[float,float], Tout=[float], f=@layer}
def asks(i: int32, n: int32, a: float, b: float)
more = Less(i, n) {T=int32}
return more
def turn(i: int32, n: int32, a: float, b: float)
one = Const() {dtype=int32, value=int32[]{1}}
next = AddV2(i, one) {T=int32}
c = MatMul(a, b) {T=float}
return next, n, c, b
def layer(a: float, b: float)
bias = Const() {dtype=float, value=float[4]{range}}
m = MatMul(a, b) {T=float}
c = BiasAdd(m, bias) {T=float}
return c
"""


def looping(limit: str) -> Graph:
    graph = parse_graph(LOOP.replace("LIMIT", limit))
    infer_shapes(graph)
    return graph


def test_a_loop_costs_what_its_turns_cost() -> None:
    graph = looping("Const() {dtype=int32, value=int32[]{7}}")
    cost = graph_cost(graph, turns=turns_of)
    # Of each turn the layer, the counter, and the question, which is asked once more.
    assert cost.by_node["loop"] == Cost(7 * (2 * 16 + 1 + 1) + 1, 7 * 16)
    assert cost.by_node["y"] == Cost(2 * 16 + 4, 16)
    assert not cost.unknown
    assert "loop" not in graph_cost(graph).unknown, "only who asks for turns has functions looked into"


def test_a_loop_of_unknown_turns_is_named() -> None:
    cost = graph_cost(looping("Placeholder() {dtype=int32, shape=shape[]}"), turns=turns_of)
    assert "loop" not in cost.by_node
    assert cost.unknown["loop"] == "a loop of 34 operations a turn; how often it turns only a run tells"


def test_what_is_called_has_constants_too() -> None:
    found = parameters(looping("Const() {dtype=int32, value=int32[]{7}}"))
    assert (found.count, found.in_functions) == (16 + 1 + 1, 1 + 4)


# ---- Peak memory of activations.


def peak(text: str, output: str) -> Peak:
    graph = parse_graph(text)
    infer_shapes(graph)
    return peak_activations(execution_order(graph), [graph.value(output)])


X = "x = Placeholder() {dtype=float, shape=shape[100]}\n"


def test_values_die_after_their_last_reader() -> None:
    chain = X + "a = Relu(x) {T=float}\nb = Relu(a) {T=float}\nc = Relu(b) {T=float}\n"
    assert peak(chain, "c").size_bytes == 800


def test_a_long_lived_value_counts_throughout() -> None:
    skip = (
        X + "a = Relu(x) {T=float}\nb = Relu(a) {T=float}\nc = Relu(b) {T=float}\nd = Add(c, x) {T=float}\n"
    )
    assert peak(skip, "d").size_bytes == 1200


def test_identity_shares_memory_and_constants_are_free() -> None:
    text = (
        X + "w = Const() {dtype=float, value=float[100]{range}}\n"
        "i = Identity(x) {T=float}\ny = Add(i, w) {T=float}\n"
    )
    assert peak(text, "y") == Peak(800, "y", True)


def test_unknown_sizes_are_admitted() -> None:
    found = peak("x = Placeholder() {dtype=float, shape=shape[?]}\ny = Relu(x) {T=float}\n", "y")
    assert not found.complete
    assert found.size_bytes == 0
