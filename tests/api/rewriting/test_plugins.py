"""Transforms from files of others: what is loaded, and what is refused with which words."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import thinflow
from tests.transforms.golden import parse_graph
from thinflow.cli import main
from thinflow.errors import GraphError, ParameterError, ThinflowError, TransformError
from thinflow.ir.graph import Graph, Node, Value
from thinflow.ir.text import graph_text
from thinflow.ir.types import FLOAT
from thinflow.rewrite.edits import Site
from thinflow.rewrite.rule import Trace
from thinflow.rewriting import (
    BoolParam,
    Context,
    Editor,
    IntParam,
    Match,
    Rewrite,
    StrParam,
    any_value,
    load_plugin,
    match,
    node,
    register,
    register_raw,
    transform,
)

pytestmark = pytest.mark.usefixtures("forgotten")

TEXT = """
    x = Placeholder() {dtype=float, shape=shape[2]}
    w = Const() {value=float[2]{1,2}}
    y = Mul(x, w) {T=float, _note="a"}
    z = Relu(y) {T=float}
    inputs: x
    outputs: z
"""
PLUGIN = """
from thinflow.rewriting import IntParam, register

@register("count_relus", params=[IntParam("most", default=3, meaning="how many may be there.")])
def count(graph, ctx):
    '''Count what is there.'''
    ctx.report.notes.append(f"{sum(n.op == 'Relu' for n in graph.nodes)} of {ctx.params.most}")
"""


def write(tmp_path: Path, code: str, name: str = "my.py") -> Path:
    path = tmp_path / name
    path.write_text(code, "utf-8")
    return path


def test_a_file_is_loaded_and_loaded_again(tmp_path: Path) -> None:
    path = write(tmp_path, PLUGIN)
    assert thinflow.load_plugin(path) == ["count_relus"]
    assert load_plugin(str(path)) == ["count_relus"]
    assert graph_text(thinflow.transform(parse_graph(TEXT), "count_relus(most=1)")) == graph_text(
        parse_graph(TEXT)
    )


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("def broken(:\n", "the plug-in is no Python"),
        ("\n\n1 / 0\n", "line 3: the plug-in failed: ZeroDivisionError: division by zero"),
        ("raise SystemExit('no')\n", "the plug-in failed: SystemExit: no"),
        ("x = 1\n", "registers no transform"),
        (PLUGIN.replace("count_relus", "fold_constants"), "there is a transform 'fold_constants' already"),
        (PLUGIN.replace("count_relus", "obsfucate_names"), "there is a transform 'obsfucate_names' already"),
        (PLUGIN.replace("count_relus", "float"), "there is a transform 'float' already"),
        (
            PLUGIN.replace('[IntParam("most"', '[IntParam("most"), IntParam("most"'),
            "declares the parameter 'most' twice",
        ),
    ],
)
def test_bad_files(tmp_path: Path, code: str, words: str) -> None:
    with pytest.raises(ThinflowError) as caught:
        load_plugin(write(tmp_path, code))
    assert words in caught.value.message
    assert "my.py" in caught.value.message
    assert caught.value.hint
    assert thinflow.transform(parse_graph(TEXT), "fold_constants").node("z").op == "Relu"


def test_a_syntax_error_names_the_line(tmp_path: Path) -> None:
    with pytest.raises(TransformError, match=r"my\.py, line 2: the plug-in is no Python"):
        load_plugin(write(tmp_path, "x = 1\ny = = 2\n"))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="there is no plug-in"):
        load_plugin(tmp_path / "none.py")


def test_two_files_with_one_name(tmp_path: Path) -> None:
    load_plugin(write(tmp_path, PLUGIN, "a.py"))
    with pytest.raises(ParameterError, match="there is a transform 'count_relus' already"):
        load_plugin(write(tmp_path, PLUGIN, "b.py"))


def test_a_plugin_that_raises_is_undone_and_named() -> None:
    @register("raises")
    def raises(graph: Editor, ctx: Context) -> None:
        graph.node("y").op = "Add"
        raise KeyError("lost")

    with pytest.raises(TransformError, match="transform 'raises': it raised KeyError: 'lost'"):
        thinflow.transform(parse_graph(TEXT), "raises")
    assert thinflow.transform(parse_graph(TEXT), "raises(ignore_errors=true)").node("y").op == "Mul"
    assert thinflow.transform(parse_graph(TEXT), "raises", keep_going=True).node("y").op == "Mul"


def test_a_class_that_raises_is_undone_and_named() -> None:
    @transform("raises_too")
    class RaisesToo(Rewrite):
        pattern = node("Relu", any_value("x"))

        def build(self, m: Match, site: Site) -> Value:
            return m.nothing  # type: ignore[no-any-return]

    with pytest.raises(
        TransformError, match="'raises_too': it raised AttributeError: the pattern binds no 'nothing'"
    ):
        thinflow.transform(parse_graph(TEXT), "raises_too")


def test_a_broken_graph_is_undone_and_named() -> None:
    @register("breaks")
    def breaks(graph: Editor, ctx: Context) -> None:
        graph.node("z").set_inputs([graph.node("y").output(7)])

    with pytest.raises(TransformError, match="transform 'breaks': it left an invalid graph"):
        thinflow.transform(parse_graph(TEXT), "breaks")


def test_what_a_function_returns() -> None:
    @register("another")
    def another(graph: Editor, ctx: Context) -> Graph:
        copy = graph.graph.clone()
        copy.rename(copy.node("y"), "renamed")
        return copy

    @register("nonsense")
    def nonsense(graph: Editor, ctx: Context) -> int:
        return 3

    @register_raw("raw_nonsense")
    def raw_nonsense(graph_def: object, ctx: Context) -> None:
        return None

    result = thinflow.transform(parse_graph(TEXT), "another")
    assert [n.name for n in result] == ["x", "w", "renamed", "z"]
    assert all(n.graph is result for n in result)
    with pytest.raises(TransformError, match="it returned int"):
        thinflow.transform(parse_graph(TEXT), "nonsense")
    with pytest.raises(TransformError, match="it returned NoneType"):
        thinflow.transform(parse_graph(TEXT), "raw_nonsense")


def test_parameters_are_typed() -> None:
    seen = []

    @register("typed", [IntParam("size"), BoolParam("loud", default=False), StrParam("op", repeated=True)])
    def typed(graph: Editor, ctx: Context) -> None:
        seen.append(
            (ctx.params.size, ctx.params.loud, ctx.params.op, ctx.inputs[0].name, ctx.outputs[0].name)
        )

    thinflow.transform(parse_graph(TEXT), "typed(size=4, loud=true, op=A, op=B)")
    assert seen == [(4, True, ("A", "B"), "x", "z")]
    with pytest.raises(ParameterError, match="'typed' needs the parameter 'size'"):
        thinflow.transform(parse_graph(TEXT), "typed")
    with pytest.raises(ParameterError, match="has no parameter 'sise'") as caught:
        thinflow.transform(parse_graph(TEXT), "typed(sise=3)")
    assert "'size'" in caught.value.hint


def editor() -> Editor:
    return Editor(parse_graph(TEXT), Trace(), "test")


def test_editor() -> None:
    graph = editor()
    assert [n.name for n in graph.consumers("y")] == ["z"]
    np.testing.assert_array_equal(graph.const("w"), [1, 2])
    assert graph.const("x") is None
    assert graph.static_shape("z") == (2,)
    assert graph.in_out_types(graph.node("y")) == ([FLOAT, FLOAT], [FLOAT])
    assert [n.name for n in graph.toposort()][-1] == "z"
    assert graph.remove_attributes(["_note"]) == 1
    assert graph.add_const("w", [3.0], like=graph.node("y")).name == "w_1"
    assert graph.unique_name("z") == "z_1"
    assert (
        graph.replace(
            node("Relu", any_value("v")), lambda m, site: site.add("Relu6", m.v, attrs={"T": FLOAT})
        )
        == 1
    )
    assert graph.node("z").op == "Relu6"
    assert graph.filter(lambda n: n.name != "w_1") == 1


def test_editor_renames_what_is_read() -> None:
    graph = editor()
    assert graph.rename_inputs({"y": "w", "w": "x"}) == 2
    assert [v.name for v in graph.node("z").inputs] == ["x"]
    with pytest.raises(GraphError, match="leads in a circle"):
        graph.rename_inputs({"y": "w", "w": "y"})


@pytest.mark.parametrize(
    ("pattern", "head", "matches"),
    [
        (node("*", node("Mul")), "z", True),
        (node("Relu", "Mul"), "z", True),
        (node("Mul", "*", "Const"), "y", True),
        (node("Mul", "Const", "*"), "y", False),
        (node("Placeholder", no_inputs=True), "x", True),
        (node("Relu", no_inputs=True), "z", False),
        (node("Relu", node("Mul", port=1)), "z", False),
        (node("Relu", node("Mul", port=None)), "z", True),
    ],
)
def test_patterns(pattern: object, head: str, matches: bool) -> None:
    assert isinstance(match(pattern, parse_graph(TEXT).node(head)), Match) == matches  # type: ignore[arg-type]


def test_what_a_pattern_looks_through() -> None:
    text = TEXT.replace("y = Mul(x, w)", "a = Abs(x) {T=float}\n    y = Mul(a, w)")
    head = parse_graph(text).node("z")
    found = match(node("Relu", node("Abs", through={"Mul"})), head)
    assert isinstance(found, Match)
    assert [n.name for n in found.claimed] == ["z", "y", "a"]
    assert not isinstance(match(node("Relu", node("Abs")), head), Match)


def test_one_pass() -> None:
    @transform("wrap_once")
    class WrapOnce(Rewrite):
        until_fixpoint = False
        repeatable = False
        pattern = node("Relu", any_value("x"))

        def build(self, m: Match, site: Site) -> Value:
            return site.add("Relu", site.add("Abs", m.x, attrs={"T": FLOAT}), attrs={"T": FLOAT})

    result = thinflow.transform(parse_graph(TEXT), "wrap_once", verify=False)
    assert [n.op for n in result].count("Abs") == 1


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, PLUGIN)
    thinflow.save(parse_graph(TEXT), "m.pb")
    return "m.pb"


def test_commands(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["transform", model, "o.pb", "-t", "count_relus", "--plugin", "my.py", "--report", "r.json"])
        == 0
    )
    assert json.loads(Path("r.json").read_text())["steps"][0]["transform"] == "count_relus"
    old = [
        f"--in_graph={model}",
        "--out_graph=p.pb",
        "--outputs=z",
        "--transforms=count_relus",
        "--plugin=my.py",
    ]
    assert main(["transform_graph", *old]) == 0
    assert Path("p.pb").exists()
    assert main(["transform_graph", *old[:1], "--out_graph=q.pb", *old[2:], "--dry_run"]) == 0
    assert not Path("q.pb").exists()
    assert main(["transform", model, "o.pb", "-t", "count_relus", "--plugin", "none.py"]) == 1
    assert "there is no plug-in none.py" in capsys.readouterr().err


def test_keep_going(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("bad.py").write_text(
        "from thinflow.rewriting import register\n"
        "@register('always_fails')\ndef f(graph, ctx):\n    raise ValueError('no')\n"
    )
    command = ["transform", model, "o.pb", "-t", "always_fails remove_device", "--plugin", "bad.py"]
    assert main(command) == 1
    captured = capsys.readouterr()
    assert "transform 'always_fails': it raised ValueError: no" in captured.err
    assert not Path("o.pb").exists()
    assert main([*command, "--keep-going"]) == 0
    assert "it raised ValueError: no" in capsys.readouterr().out


def test_transforms_command(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["transforms", "count_relus", "--plugin", "my.py"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("count_relus: Count what is there.\n")
    assert "most  int, default 3\n      how many may be there." in out
    assert main(["transforms", "--plugin", "my.py"]) == 0
    out = capsys.readouterr().out
    assert "count_relus" in out
    assert "(plug-in)" in out


def test_helpers_are_importable() -> None:
    assert issubclass(thinflow.Rewrite, Rewrite)
    assert thinflow.register is register
    assert isinstance(parse_graph(TEXT).node("x"), Node)
