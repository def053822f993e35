"""The documentation says what the program does: commands and examples run, generated parts are current."""

from __future__ import annotations

import difflib
import doctest
import re
import shutil
from pathlib import Path

import pytest

from tests.night import AT_NIGHT
from tests.scripts import ROOT, script
from thinflow.cli import COMMANDS, main
from thinflow.transforms import names

_make_outputs, _make_transforms = script("_make_outputs"), script("_make_transforms")
_make_cli, _board = script("_make_cli"), script("_board")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_OUTPUT = _make_outputs.pages()
AT_NIGHT_ONLY = {
    *("docs/optimize.md", "docs/quantization.md", "docs/benchmark.md", "docs/verification.md"),
    *("docs/engines.md", "docs/any-model.md", "docs/coming-from-converters.md", "docs/device.md"),
    *("docs/guides/microcontroller.md", "docs/guides/audio.md", "docs/guides/onnx-and-pytorch.md"),
    *("docs/guides/raspberry-pi.md", "docs/guides/apps.md", "docs/guides/detection.md"),
    *("docs/guides/mobile.md", "docs/how-to/size-and-precision.md"),
    *("docs/why/int8-slower.md", "docs/why/accuracy-dropped.md", "docs/check.md", "docs/view.md"),
    *("docs/how-to/ship.md", "docs/how-to/check.md", "docs/coreml.md", "docs/deploy-boards.md"),
    *("docs/guides/keras.md", "docs/guides/savedmodel.md", "docs/guides/frozen-graph.md"),
    *("docs/files.md", "docs/report.md"),
}
"""Pages whose commands, to quantize, measure and optimize, take a processor 5 to 40 s each."""
_PYTHON = re.compile(r"^```pycon\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.mark.slow
@pytest.mark.skipif(
    not shutil.which("make") or not shutil.which("sed"), reason="the commands need a Unix shell and make"
)
@pytest.mark.parametrize("page", [p for p in WITH_OUTPUT if not _make_outputs.is_long(p)], ids=name_of)
def test_outputs_are_current(page: Path) -> None:
    """Numbers may differ from run to run and from machine to machine; everything else must not."""
    if name_of(page) in AT_NIGHT_ONLY and not AT_NIGHT:
        pytest.skip("its commands take long: at night")
    written = page.read_text("utf-8")
    if _board.MARK in written and (why := _board.missing()):
        pytest.skip(why)
    printed = _make_outputs.renewed(written)
    changed = difflib.unified_diff(
        _make_outputs.skeleton(written), _make_outputs.skeleton(printed), lineterm="", n=0
    )
    found = "\n".join(changed)
    assert not found, f"run `python docs/_make_outputs.py` and read the difference:\n{found}"


def test_pages_of_the_night_exist() -> None:
    assert {name_of(p) for p in WITH_OUTPUT} >= AT_NIGHT_ONLY


@pytest.mark.parametrize("page", WITH_OUTPUT, ids=name_of)
def test_output_blocks_are_well_formed(page: Path) -> None:
    text = page.read_text("utf-8")
    blocks = list(_make_outputs.BLOCK.finditer(text))
    titles = [b["name"] for b in blocks]
    assert len(titles) == len(set(titles)) == text.count("<!-- output:")
    assert all(_make_outputs.commands(b["body"]) for b in blocks), "a block without a command"
    outside = _make_outputs.BLOCK.sub("", text)
    assert "\n$ " not in outside, "a command whose output nobody makes anew"


@pytest.mark.parametrize("page", WITH_OUTPUT, ids=name_of)
def test_files_of_a_page_are_made_in_sight(page: Path) -> None:
    """Whoever pastes the commands of a page into an empty folder has the files that they name."""
    hidden = [command for _, command in _make_outputs.PREPARED.findall(page.read_text("utf-8")) if command]
    assert not [command for command in hidden if "expected.npz" not in command]  # which Keras writes


@pytest.mark.parametrize("page", [p for p in WITH_OUTPUT if p.parent != ROOT], ids=name_of)
def test_figures_of_a_machine_are_called_so(page: Path) -> None:
    for block in _make_outputs.BLOCK.finditer(page.read_text("utf-8")):
        assert block["end"] == _make_outputs.end_of(block["body"]), block["name"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_commands_exist(page: Path) -> None:
    text = page.read_text("utf-8")
    used = set(re.findall(r"(?:`|^\$ )thinflow ([a-z_]+)", text, re.MULTILINE)) - {
        "census"
    }  # CONTRIBUTING adds that one
    shown_as_mistake = {"optimise"}
    assert used - shown_as_mistake <= set(COMMANDS)


def test_every_page_is_in_the_nav_of_the_site() -> None:
    """A page that is not would be built and never found; the site itself needs mkdocs, this does not."""
    nav = (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2]
    named = re.findall(r"(?<=[- ])([\w./*-]+\.md)$", re.sub(r" +#.*", "", nav), re.MULTILINE)
    assert len(named) == len(set(named)), "a page twice"
    pages = {p.relative_to(ROOT / "docs").as_posix() for p in (ROOT / "docs").rglob("*.md")}
    folders = {pattern.removesuffix("*.md") for pattern in named if pattern.endswith("/*.md")}
    missing = {p for p in pages - set(named) if p[: p.rfind("/") + 1] not in folders}
    assert not missing, f"put them into the nav of mkdocs.yml: {sorted(missing)}"
    made = {"tutorial.md", "changelog.md", "contributing.md", "api.md"}
    assert {n for n in named if "*" not in n} - pages == made


def test_reference_has_every_public_name_once() -> None:
    import thinflow

    groups = script("_api_groups")
    listed = [name for names in groups.GROUPS.values() for name in names.split()]
    assert len(listed) == len(set(listed)), "a name in two groups"
    assert not set(listed) - set(thinflow.__all__), "take what is gone out of docs/_api_groups.py"
    shown = [name for names in groups.grouped(list(thinflow.__all__)).values() for name in names]
    assert sorted(shown) == sorted(thinflow.__all__)
    assert groups.grouped(["load", "new"])["More"] == ["new"]


def test_pictures_are_small_and_shown() -> None:
    taken = {path.stem: path for path in (ROOT / "docs" / "pictures").glob("*.png")}
    # What npm builds first has a script of its own, _make_web_picture.py.
    assert set(taken) == {*script("_make_pictures").ALL, "web"}, "run `python docs/_make_pictures.py`"
    assert len(taken) <= 6
    assert all(path.stat().st_size <= 80_000 for path in taken.values())
    prose = "".join(page.read_text("utf-8") for page in PAGES)
    assert not [name for name in taken if f"pictures/{name}.png)" not in prose], "a picture on no page"


def test_transforms_page_is_current() -> None:
    for page in (_make_transforms.PAGE, _make_transforms.OLD_TOOL):
        text = page.read_text("utf-8")
        assert _make_transforms.renewed(text) == text, "run `python docs/_make_transforms.py`"


def test_page_of_the_command_line_is_current() -> None:
    text = _make_cli.PAGE.read_text("utf-8")
    assert _make_cli.renewed(text) == text, "run `python docs/_make_cli.py`"
    assert all(f"### {verb}\n" in text for verb in COMMANDS)


def test_every_parameter_is_explained() -> None:
    text = _make_transforms.PAGE.read_text("utf-8")
    assert all(f"### {name}\n" in text for name in names())
    assert not re.findall(r"^\| `\w+` \| .*\|  \|$", text, re.MULTILINE), "a parameter without a meaning"


@pytest.mark.slow
@pytest.mark.parametrize("page", [p for p in PAGES if _PYTHON.search(p.read_text("utf-8"))], ids=name_of)
def test_python_examples(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert (
        main(["sample", "digits", "digits.pb", "--calibration", "calibration.npz", "--test", "test.npz"]) == 0
    )
    source = "\n".join(_PYTHON.findall(page.read_text("utf-8")))
    examples = doctest.DocTestParser().get_doctest(source, {}, page.name, str(page), 0)
    report: list[str] = []
    result = doctest.DocTestRunner(optionflags=_FLAGS).run(examples, out=report.append)
    assert result.attempted
    assert not result.failed, "".join(report)


def test_what_is_called_missing_is_missing() -> None:
    """Nobody remembers to take a sentence out when the thing arrives; this does."""
    old_tool = _make_transforms.OLD_TOOL.read_text("utf-8")
    missing = set(re.findall(r"^\| `(\w+)` \| not yet", old_tool, re.MULTILINE))
    assert not missing & set(COMMANDS), (
        "these exist: take `not yet` out of docs/" + _make_transforms.OLD_TOOL.name
    )
    readme = (
        (ROOT / "README.md").read_text("utf-8").partition("## What is not there yet")[2].partition("\n## ")[0]
    )
    assert not set(re.findall(r"`(\w+)`", readme)) & set(names()), (
        "README.md calls a transform missing that exists"
    )


def test_skeleton_ignores_numbers_only() -> None:
    line = "fp32  a.tflite  177.4 kB  7.6 ± 0.1 µs"
    assert _make_outputs.skeleton(line) == _make_outputs.skeleton("fp32  a.tflite   9 MB     1.25 ± 0.03 ms")
    assert _make_outputs.skeleton(line) != _make_outputs.skeleton(line.replace("fp32", "int8"))
    faster = "int8 is 2.0x faster and 3.4x smaller: ship a"
    assert _make_outputs.skeleton(faster) == _make_outputs.skeleton(
        "int8 is 1.1x SLOWER here because of b: ship c"
    )
    assert _make_outputs.skeleton(faster) == _make_outputs.skeleton(
        "int8 is as fast as float within what was measured (0.9x to 1.2x) and 3.4x smaller: ship a"
    )
    assert _make_outputs.skeleton(faster) == _make_outputs.skeleton("int8 is 2.6x (1.9x to 3.3x) faster")
    assert "1.26 ± 0.04" in (told := f"$ a\n1.26 ± 0.04\n{_make_outputs.end_of('1.26 ± 0.04')}")
    assert _make_outputs.VARYING in told
    assert _make_outputs.VARYING not in _make_outputs.end_of("$ a\n3 nodes\n")
