"""Every case of the catalogue, and every known defect of the original tool, has a test that exists.

`catalogue.list` says which; what fits nowhere else is tested here.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from tests.transforms.support import apply, assert_same_numbers, step
from thinflow.analysis.shapes import infer_shapes
from thinflow.cli import main
from thinflow.errors import GraphError, TransformError
from thinflow.ir.attrs import attr_key
from thinflow.ir.graph import Graph
from thinflow.ir.tensor import Tensor
from thinflow.ir.text import graph_text
from thinflow.rewrite.pattern import Match, NodePattern, any_value, const, match, node
from thinflow.rewrite.rule import Trace, Transform, transform
from thinflow.transforms import names

HERE = Path(__file__).parent
TESTS = HERE.parent
LINE = re.compile(r"(?P<id>[a-z_0-9]+ [UR]\d*|[GKSUFM]\d+) \| (?P<what>[^|]+) \| (?P<where>[^|]+)")

DEFECTS = {"G": 17, "K": 9, "S": 15, "U": 8, "F": 7, "M": 6}
"""How many defects there are: of the framework, on TF2 graphs, silent, unloadable, spurious, missing."""
SECTIONS = {"driver": (7, 7), "helpers": (13, 6)}
"""How many U and R cases the sections have that are about no single transform."""
WITH_CASES = {
    *("add_default_attributes", "backport_concatv2", "backport_tensor_array_v3", "flatten_atrous_conv"),
    *("fold_batch_norms", "fold_constants", "fold_old_batch_norms", "freeze_requantization_ranges", "fuse"),
    *(
        "inline_partitionedcall",
        "insert_logging",
        "merge_duplicate_nodes",
        "obfuscate_names",
        "quantize_nodes",
    ),
    *("quantize_weights", "remove_attribute", "remove_control_dependencies", "remove_device", "remove_nodes"),
    *("rename_attribute", "rename_node", "rename_op", "round_weights", "set_device"),
    *("sort_by_execution_order", "sparsify_gather", "strip_unused_nodes"),
}
ONLY_ONE_KIND = {
    **dict.fromkeys(("remove_attribute", "remove_device", "rename_op", "set_device"), "U"),
    "sort_by_execution_order": "U",
    "backport_tensor_array_v3": "U",
    "remove_control_dependencies": "R",
}


def entries() -> dict[str, list[str]]:
    """Id -> the places where it is tested."""
    found: dict[str, list[str]] = {}
    for line in (HERE / "catalogue.list").read_text("utf-8").splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = LINE.fullmatch(line)
        assert match, f"not a line of the catalogue: {line}"
        assert match["id"] not in found, f"{match['id']} is listed twice"
        found[match["id"]] = [place.strip() for place in match["where"].split(" ; ")]
    return found


ENTRIES = entries()


@pytest.mark.parametrize("case", ENTRIES)
def test_every_line_has_its_tests(case: str) -> None:
    for place in ENTRIES[case]:
        file, separator, name = re.split(r" (#|::) ", place)
        if separator == "#":
            cases = re.findall(r"^## (.*)$", (HERE / file).read_text("utf-8"), re.MULTILINE)
            assert name in cases, f"{case}: {file} has no case '{name}'"
        else:
            path = TESTS / file if "/" in file or not (HERE / file).exists() else HERE / file
            functions = functions_of(path)
            assert functions if name == "*" else name in functions, f"{case}: {file} has no {name}"


@cache
def functions_of(path: Path) -> frozenset[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return frozenset(n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef))


def test_the_catalogue_is_complete() -> None:
    wanted = {f"{kind}{i}" for kind, count in DEFECTS.items() for i in range(1, count + 1)}
    for section, counts in SECTIONS.items():
        wanted |= {f"{section} {k}{i}" for k, n in zip("UR", counts, strict=True) for i in range(1, n + 1)}
    assert wanted <= set(ENTRIES), f"missing: {sorted(wanted - set(ENTRIES))}"
    kinds = {(i.split()[0], i.split()[1][0]) for i in ENTRIES if " " in i}
    for name in WITH_CASES:
        for kind in ONLY_ONE_KIND.get(name, "UR"):
            assert (name, kind) in kinds, f"no {kind} case of {name}"


def test_what_is_listed_exists() -> None:
    historic = {"fuse", "driver", "helpers", "models"}
    assert {i.split()[0] for i in ENTRIES if " " in i} - historic <= set(names())


# --- what fits nowhere else -------------------------------------------------------------------------------

CONV = """
x = Placeholder() {dtype=float, shape=shape[1,4,4,2]}
w = Const() {dtype=float, value=float[1,1,2,3]{1,2,3,4,5,6}}
s = Const() {dtype=float, value=float[3]{1,2,3}}
c = Conv2D(x, w) {T=float, padding="SAME", strides=[1,1,1,1]}
y = Mul(c, s) {T=float}
z = Relu(y) {T=float}
inputs: x
"""
SUM = """
a = Const() {dtype=float, value=float[2]{1,2}}
b = Const() {dtype=float, value=float[2]{3,4}}
sum = Add(a, b) {T=float}
x = Placeholder() {dtype=float, shape=shape[2]}
y = Mul(sum, x) {T=float}
z = Relu(y) {T=float}
inputs: x
outputs: y
"""


@transform("_empty_it")
@dataclass(frozen=True)
class EmptyIt(Transform):
    """Removes everything nobody asked for."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        nodes = [n for n in graph if not n.is_protected]
        for n in nodes:
            trace.changed(n, "gone")
        graph.remove(*nodes)


@transform("_break_it")
@dataclass(frozen=True)
class BreakIt(Transform):
    """Leaves a reference to a node that does not exist."""

    def apply(self, graph: Graph, trace: Trace) -> None:
        first = next(iter(graph))
        trace.changed(first, "broken")
        graph.add("Neg", [graph.stand_in("nowhere").output()], "broken")


def test_a_transform_of_ones_own() -> None:
    graph = parse_graph("a = NoOp()\nb = NoOp()\n")
    assert len(apply(graph, "_empty_it").graph) == 0


def test_an_invalid_result_rolls_back() -> None:
    with pytest.raises(TransformError, match="left an invalid graph: node 'broken'"):
        apply(SUM, "_break_it")
    after = apply(SUM, "_break_it(ignore_errors=true)")
    assert graph_text(after.graph) == graph_text(parse_graph(SUM))
    assert "invalid graph" in after.steps[0].error


def test_through_files(tmp_path: Path) -> None:
    source, target = tmp_path / "in.pb", tmp_path / "out.pb"
    thinflow.save(parse_graph(SUM), source)
    flags = [f"--in_graph={source}", f"--out_graph={target}", "--inputs=x", "--outputs=y"]
    assert main(["transform_graph", *flags, "--transforms=fold_constants"]) == 0
    graph = thinflow.load(target)
    assert {"x", "y"} <= {n.name for n in graph}
    assert not {"a", "b"} & {n.name for n in graph}
    assert graph.node("sum").op == "Const"


def test_the_python_wrapper(tmp_path: Path) -> None:
    thinflow.save(parse_graph(SUM), tmp_path / "m.pb")
    content = thinflow.TransformGraph((tmp_path / "m.pb").read_bytes(), [], ["sum"], ["strip_unused_nodes"])
    (tmp_path / "o.pb").write_bytes(content)
    assert {n.op for n in thinflow.load(tmp_path / "o.pb", inputs=[], outputs=["sum"])} == {"Const", "Add"}


def test_blanks_and_commas_in_names(tmp_path: Path) -> None:
    source, target = tmp_path / "in.pb", tmp_path / "out.pb"
    thinflow.save(parse_graph(SUM), source)
    flags = [f"--in_graph={source}", f"--out_graph={target}", "--inputs= x ,", "--outputs=y , ,sum"]
    assert main(["transform_graph", *flags, "--transforms=strip_unused_nodes"]) == 0
    assert {n.name for n in thinflow.load(target)} == {"a", "b", "sum", "x", "y"}


def test_duplicate_names_are_told() -> None:
    twice = Graph()
    for _ in range(2):
        twice.restore(Graph().add("NoOp", name="n"))
    with pytest.raises(GraphError, match="node 'n': another node has the same name"):
        apply(twice, "remove_device")


def test_no_output_on_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "in.pb", tmp_path / "out.pb"
    thinflow.save(parse_graph(SUM), source)
    assert (
        main(["transform", str(source), str(target), "--outputs", "y", "-t", "fold_constants _break_it"]) == 1
    )
    assert "invalid graph" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["in.pb"]


def test_patterns_of_the_original() -> None:
    graph = parse_graph(SUM)

    def count(pattern: NodePattern) -> int:
        return sum(isinstance(match(pattern, n), Match) for n in graph)

    assert count(node("Add", const("a"), const("b"))) == 1
    assert count(node("Add|Mul")) == 2
    assert count(node("Mul", node("Add", const("a"), const("b")), any_value("x"))) == 1
    assert count(node("Sub")) == 0


def test_one_node_for_both_inputs() -> None:
    graph = parse_graph("a = Const() {dtype=float, value=float[]{1}}\ny = Add(a, a) {T=float}")
    assert isinstance(match(node("Add", const("p"), const("q")), graph.node("y")), Match)


def test_every_node_gets_an_identity() -> None:
    graph = parse_graph(
        "a = Const() {dtype=float, value=float[]{1}}\nb = Neg(a) {T=float}\nc = Add(a, b) {T=float}"
    )
    for old in list(graph):
        twin = graph.add(old.op, list(old.inputs), f"{old.name}_new", attrs=dict(old.attrs))
        graph.replace(old, graph.add("Identity", [twin], attrs={"T": old.get("T", old.get("dtype"))}))
    assert len(graph) == 6
    assert [v.name for v in graph.node("c_new").inputs] == ["a", "b"]
    assert [v.name for v in graph.node("c").inputs] == ["c_new"]


def test_types_of_values() -> None:
    graph = parse_graph(
        "f = Const() {dtype=float, value=float[2]{1,2}}\ni = Const() {dtype=int32, value=int32[]{1}}\n"
        "rf = Relu(f) {T=float}\nri = Relu(i) {T=int32}"
    )
    infer_shapes(graph)
    assert [str(graph.value(n).dtype) for n in ("f", "i", "rf", "ri")] == ["float", "int32", "float", "int32"]
    assert graph.value("rf").shape == (2,)


def test_what_makes_nodes_equal() -> None:
    one = Tensor.from_array(np.float32([1, 2]))
    assert attr_key(one) == attr_key(Tensor.from_array(np.float32([1, 2])))
    others = (np.float32([1, 3]), np.float64([1, 2]), np.float32([[1, 2]]))
    assert all(attr_key(one) != attr_key(Tensor.from_array(other)) for other in others)
    for other in ("device", "op", "input"):
        text = SUM + "t = Add(a, b) {T=float}\n"
        changed = {"device": "@/cpu:0", "op": "", "input": ""}[other]
        text = text.replace("t = Add(a, b) {T=float}", f"t = Add(a, b) {{T=float}} {changed}".rstrip())
        text = text.replace("t = Add", "t = Sub") if other == "op" else text
        text = text.replace("t = Add(a, b)", "t = Add(a, a)") if other == "input" else text
        graph = parse_graph(text.replace("outputs: y", "u = Neg(t) {T=float}").strip() + "\noutputs: y, u")
        assert "t" in apply(graph, "merge_duplicate_nodes").graph


def test_duplicate_quantize_chains() -> None:
    text = "x = Placeholder() {dtype=float, shape=shape[4]}\n"
    for i in (1, 2):
        text += (
            f"low{i} = Const() {{dtype=float, value=float[]{{-1}}}}\n"
            f"high{i} = Const() {{dtype=float, value=float[]{{1}}}}\n"
            f'q{i} = QuantizeV2(x, low{i}, high{i}) {{T=quint8, mode="MIN_FIRST"}}\n'
            f'd{i} = Dequantize(q{i}, q{i}:1, q{i}:2) {{T=quint8, mode="MIN_FIRST"}}\n'
        )
    after, _ = step(text + "y = Add(d1, d2) {T=float}\ninputs: x\noutputs: y", "merge_duplicate_nodes")
    assert [n.op for n in after].count("QuantizeV2") == 1
    first, second = after.node("y").inputs
    assert first is second


@pytest.mark.parametrize(
    "call", ["merge_duplicate_nodes", "obfuscate_names", "quantize_weights(minimum_size=1)", "fold_constants"]
)
def test_ports_in_names(call: str, tmp_path: Path) -> None:
    text = SUM.replace("outputs: y", "other = Mul(sum, x) {T=float}\noutputs: y")
    thinflow.save(parse_graph(text), tmp_path / "m.pb")
    plain = thinflow.transform(tmp_path / "m.pb", call, ["x"], ["y", "other"], verify=False)
    ported = thinflow.transform(tmp_path / "m.pb", call, ["x:0"], ["y:0", "other:0"], verify=False)
    assert graph_text(plain) == graph_text(ported)
    assert {"x", "y", "other"} <= {n.name for n in ported}


def test_stripping_after_renaming_an_output() -> None:
    result = apply(SUM, "rename_node(old_node_name=y, new_node_name=new) strip_unused_nodes")
    assert [v.name for v in result.graph.outputs] == ["new"]
    assert "z" not in result.graph


@pytest.mark.parametrize("wanted", ["c", "y", "z", "c, z", "y, z"])
@pytest.mark.parametrize(
    "call",
    [
        "fold_batch_norms",
        "fold_old_batch_norms",
        "fold_constants",
        "merge_duplicate_nodes",
        "remove_nodes(op=Relu)",
    ],
)
def test_outputs_keep_name_and_value(wanted: str, call: str) -> None:
    graph = parse_graph(f"{CONV}outputs: {wanted}")
    result = apply(graph, call)
    assert [v.name for v in result.graph.outputs] == [v.name for v in graph.outputs]
    if not call.startswith("remove_nodes"):
        assert_same_numbers(graph, result.graph, 1e-5)


@pytest.mark.parametrize(
    "call",
    [
        *("fold_batch_norms", "fold_old_batch_norms", "fold_constants", "flatten_atrous_conv"),
        *("fuse_pad_and_conv", "fuse_resize_and_conv", "fuse_resize_pad_and_conv", "merge_duplicate_nodes"),
        *("strip_unused_nodes", "quantize_nodes", "quantize_weights(minimum_size=1)"),
        "round_weights(minimum_size=1)",
    ],
)
def test_absent_attributes_harm_nobody(call: str) -> None:
    bare = re.sub(r"\{T=float\}", "", CONV)
    graph = parse_graph(
        f"{bare}m = MatMul(y2, v)\ny2 = Reshape(z, k)\nk = Const() {{dtype=int32, value=int32[2]{{16,3}}}}\n"
        "v = Const() {dtype=float, value=float[3,3]{normal 1}}\nq = Mul(m, s)\n"
        "r = ResizeBilinear(z, o)\no = Const() {dtype=int32, value=int32[2]{8,8}}\n"
        "n = FusedBatchNorm(z, s, s, s, s)\np = Conv2D(z, x2)\nx2 = Const() {dtype=float}\n"
        "outputs: q, r, n, p"
    )
    assert apply(graph, call).graph.outputs


def test_control_inputs_of_rounded_weights() -> None:
    text = "g = NoOp()\nw = Const(^g) {dtype=float, value=float[2000]{normal 1}}\n"
    text += "y = Neg(w) {T=float}\noutputs: y"
    after, report = step(text, "round_weights")
    assert report.changes
    assert [n.name for n in after.node("w").control_inputs] == ["g"]


@pytest.mark.parametrize("call", [n for n in names() if n not in {"fake_quantize_training"}])
def test_a_custom_op_stops_nothing(call: str) -> None:
    from thinflow.errors import ParameterError

    text = CONV.replace("z = Relu(y)", "u = Mystery(y) {T=float, secret=7}\nz = Relu(u)") + "outputs: z\n"
    problem = ""
    try:
        after = apply(text, call).graph
    except (ParameterError, TransformError) as error:  # about options or files
        problem = str(error)
    assert "Mystery" not in problem
    assert problem or any(n.op == "Mystery" for n in after)


@pytest.mark.parametrize(
    "call", ["fold_constants", "merge_duplicate_nodes", "strip_unused_nodes", "fold_batch_norms"]
)
def test_no_attribute_creeps_in(call: str) -> None:
    graph = parse_graph(f"{CONV}outputs: z")
    after = apply(graph, call).graph
    for kept in after:
        before = graph.find(kept.name)
        if before is not None and before.op == kept.op:
            assert set(kept.attrs) <= set(before.attrs)
