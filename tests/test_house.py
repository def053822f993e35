"""The figures of the plan for the sources get no worse: see `scripts/house.py`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from scripts import house
from scripts.house import Figure, House


@pytest.mark.slow
def test_no_figure_gets_worse() -> None:
    """Better ones become the limits with `python scripts/house.py --tighten`."""
    found, limits = house.figures(House()), house.read_limits()
    assert list(limits) == [figure.key for figure in found]
    assert not house.worse(found, limits)


def sources(folder: Path) -> House:
    """A package of a few files."""
    package = folder / "pack"
    files = {
        "__init__": "",
        "errors": "# why\nx = 1\n",
        "ops/__init__": "",
        "ops/math": "@op('Add', 'Mul')\nclass A: ...\nBOTH = {'Add', 'Mul'}\n",
        "lower/__init__": "from pack import errors\nfrom pack.ops import math\n",
        "lower/rules": "FIRST: frozenset[str] = frozenset({'Add', 'Mul'})\nONE = ('Add', 'CONV_2D')\n",
        "transforms/fuse": "class Fuse(Rewrite): ...\ndef f():\n import pack.lower.rules\nX = ['Add|Mul']\n",
        "transforms/_help": "if TYPE_CHECKING:\n    from pack.transforms.fuse import Fuse\n",
        "transforms/__init__": "from pack.transforms import _help\n",
    }
    for name, text in files.items():
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / f"{name}.py").write_text(text)
    return House(package)


def test_arrows_and_circles(tmp_path: Path) -> None:
    found = sources(tmp_path)
    assert found.arrows == {
        "errors": set(),
        "lower": {"errors", "ops"},
        "ops": set(),
        "pack": set(),
        "transforms": {"lower"},
    }
    assert found.imports["pack.transforms._help"] == {"pack.transforms.fuse"}
    assert house.circles(found.imports) == []
    assert house.circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}) == [["b", "c"]]


def test_tables_and_their_copies(tmp_path: Path) -> None:
    found = sources(tmp_path)
    assert list(found.tables) == ["pack.lower.rules.FIRST", "pack.transforms.fuse.X"]
    assert found.copies() == ["Add, Mul: pack.lower.rules.FIRST pack.transforms.fuse.X"]
    assert found.declarative() == ["pack.transforms.fuse.Fuse"]
    assert found.comment_share() == 100 / 16


def test_tables_in_classes_and_in_lists_of_words_count() -> None:
    tree = ast.parse(
        'A = "Add Mul".split()\nclass B:\n    ops = {"Sub", "Div"}\n    pattern = node("Add", node("Mul"))\n'
    )
    constants = {name: house._strings(value) for name, value in house._constants(tree)}
    assert constants == {"A": {"Add", "Mul"}, "ops": {"Sub", "Div"}}


def test_an_arrow_against_the_order_leads_up() -> None:
    assert house.upward({"errors": set(), "ir": {"errors"}, "ops": {"ir", "errors"}}) == []
    assert house.upward({"ir": {"ops"}, "ops": {"ir"}, "api": {"ir", "ops"}, "cli": {"api"}}) == [
        ("ir", "ops")
    ]


def test_limits_are_only_ever_tightened() -> None:
    fewer, more = Figure("lines", "lines", 90, 50), Figure("share", "share", 3, 5, (), True)
    assert house.worse([fewer, more], {"lines": 80, "share": 4}) == [
        "lines: 90, allowed at most 80",
        "share: 3, allowed at least 4",
    ]
    assert house.worse([fewer, more], {"lines": 90, "share": 3}) == []
    assert house.tightened([fewer, more], {"lines": 100, "share": 2}) == {"lines": 90, "share": 3}
    assert house.tightened([fewer, more], {"lines": 80, "share": 4}) == {"lines": 80, "share": 4}
