"""Which budgets a model has, and what cannot stand in a file of them."""

from __future__ import annotations

from pathlib import Path

import pytest

import thinflow
from thinflow.budgets.file import BudgetFile, budget_file
from thinflow.budgets.kinds import kinds
from thinflow.errors import ParameterError
from thinflow.settings.project import read_project

TEXT = """
[budget]
size = "400KB"
nodes = 12
baseline = "times/stored.json"

[budget."*_int8.tflite"]
size = 1000
nodes = false

[budget."deep/**/*.tflite"]
lint = ["error"]
"""


def settled(folder: Path, text: str) -> Path:
    path = folder / "thinflow.toml"
    path.write_text(text, "utf-8")
    return path


def of(file: BudgetFile, model: Path | str) -> dict[str, object]:
    return {key: limit for key, (_, limit) in file.limits(str(model)).limits.items()}


def test_tables_of_models_count_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep" / "er").mkdir(parents=True)
    for name in ("a.tflite", "a_int8.tflite", "deep/er/b.tflite"):
        (tmp_path / name).touch()
    file = BudgetFile(read_project(settled(tmp_path, TEXT)))
    plain = {"size": 400_000, "nodes": 12}
    assert of(file, tmp_path / "a.tflite") == plain
    assert of(file, tmp_path / "a_int8.tflite") == {"size": 1000}
    assert of(file, tmp_path / "deep" / "er" / "b.tflite").keys() == {"size", "nodes", "lint"}
    assert of(file, "") == plain
    monkeypatch.chdir(tmp_path / "deep")
    assert of(file, "../a_int8.tflite") == {"size": 1000}
    assert file.models() == ["../a_int8.tflite", "er/b.tflite"]
    assert Path(file.baseline) == tmp_path / "times" / "stored.json"


def test_a_name_with_brackets_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "m[1].tflite").touch()
    file = BudgetFile(read_project(settled(tmp_path, '[budget."m[1].tflite"]\nnodes = 3\n')))
    assert of(file, tmp_path / "m[1].tflite") == {"nodes": 3}


def test_a_mapping_is_a_table() -> None:
    file = budget_file(
        {"size": "1.5MB", "ops": ("CONV_2D", "ADD"), "flops": "50MFLOP", "parameters": "1_500k"}
    )
    assert of(file, "m.pb") == {
        "size": 1.5e6,
        "ops": ("CONV_2D", "ADD"),
        "flops": 5e7,
        "parameters": 1.5e6,
    }


def test_file_names_are_keys() -> None:
    assert all(kind.judge.__module__ == f"thinflow.budgets.kinds.{key}" for key, kind in kinds().items())
    assert all(kind.title for kind in kinds().values())


WRONG = {
    "x = 1\n": ("there is no table [budget]", "write [budget]"),
    "[budgt]\n": ("there is no table [budget]", "did you mean 'budgt'"),
    "budget = 1\n": ("'budget' is no table", "write [budget]"),
    "[budget]\n": ("[budget] has no budgets", "accuracy, activations"),
    "[budget]\nsiz = 1\n": ("[budget] has nothing called 'siz'", "'size'"),
    "[budget]\nbasline = 'a'\nsize = 1\n": ("nothing called 'basline'", "'baseline'"),
    "[budget]\nbaseline = 1\nsize = 1\n": ("'baseline' is no text", "baseline ="),
    "[budget.'*.tflite']\nnods = 1\n": ("[budget.*.tflite] has nothing called 'nods'", "'nodes'"),
    "[budget]\n'a.pb' = 1\n": ("'budget.a.pb' is no table", ""),
    "[budget]\nsize = '3 lightyears'\n": ("'size': '3 lightyears' is no size", "size = 400KB"),
    "[budget]\nsize = true\n": ("'size': True is no size", "size = 400KB"),
    "[budget]\nsize = []\n": ("'size' is no size", "size = 400KB"),
    "[budget]\nsize = 0\n": ("'size' cannot be 0", "give more than 0"),
    "[budget.'*.pb']\nnodes = -1\n": ("'nodes' cannot be -1", "give more than 0"),
    "[budget]\nflops = '5 MB'\n": ("'flops': '5 MB' is no number of operations", "50MFLOP"),
    "[budget]\nops = 'ADD'\n": ("'ops' is no list", 'ops = ["CONV_2D"]'),
    "[budget]\nforbidden_ops = []\n": ("'forbidden_ops' is an empty list", "CONV_2D"),
    "[budget]\nlitert = 2.9\n": ("'litert' is no text", 'litert = "2.9"'),
    "[budget]\nlitert = 'new'\n": ("'litert' is no release", 'litert = "2.9"'),
    "[budget]\nopset = 17.5\n": ("'opset' is no whole number above 0", "opset = 17"),
    "[budget]\nop_versions = 3\n": ("'budget.op_versions' is no table", ""),
    "[budget]\nop_versions = {}\n": ("'op_versions' names no operator", "CONV_2D = 3"),
    "[budget]\nop_versions = { ADD = 0 }\n": ("'ADD' is no whole number above 0", "ADD = 3"),
    "[budget]\nlint = ['eror']\n": ("'lint': 'eror' selects no rule", "'error'"),
    "[budget]\nlint = ['TF999']\n": ("'lint': 'TF999' selects no rule", "lint --list"),
    "[budget]\nc = 1\n": ("'budget.c' is no table", ""),
    "[budget]\nc = { cp = 'cortex-m4' }\n": ("[budget.c] has nothing called 'cp'", "'cpu'"),
    "[budget]\nc = { cpu = 'cortex-m9' }\n": ("'c': ", "cortex-m4"),
    "[budget]\nc = { chip = 'nRF5284' }\n": ("'c': ", "nRF52840"),
    "[budget]\nlatency = 'slow'\n": ("'ratio' is no number", "ratio = 1.1"),
    "[budget]\nlatency = 0\n": ("'latency' has no ratio above 0", "latency = 1.1"),
    "[budget]\nlatency = { threads = 2 }\n": ("'latency' has no ratio above 0", "ratio = 1.1"),
    "[budget]\nlatency = { ratio = 1.1, thread = 2 }\n": (
        "[budget.latency] has nothing called 'thread'",
        "'threads'",
    ),
    "[budget]\nlatency = { ratio = 1.1, threads = 0 }\n": (
        "'threads' is no whole number above 0",
        "threads = 1",
    ),
    "[budget]\nlatency = { ratio = 1.1, seconds = 0 }\n": ("'seconds' is not above 0", "seconds = 10"),
    "[budget]\nlatency = { ratio = 1.1, keep_model = 1 }\n": (
        "'keep_model' is neither true nor false",
        "true",
    ),
    "[budget]\naccuracy = 90\n": ("'budget.accuracy' is no table", ""),
    "[budget]\naccuracy = { min = 90 }\n": ("'accuracy' names no samples", 'data = "samples/"'),
    "[budget]\naccuracy = { data = 'a' }\n": ("'accuracy' has no limit", "min = 92.5"),
    "[budget]\naccuracy = { data = 'a', max_drop = 1 }\n": (
        "has one of max_drop and reference",
        "write both",
    ),
    "[budget]\naccuracy = { data = 'a', min = 101 }\n": ("'min' cannot be 101", "0 to 100"),
    "[budget]\naccuracy = { data = 'a', min = 1, dat = 2 }\n": (
        "[budget.accuracy] has nothing called 'dat'",
        "'data'",
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_is_named_with_the_file(tmp_path: Path, text: str) -> None:
    problem, hint = WRONG[text]
    path = settled(tmp_path, text)
    with pytest.raises(ParameterError) as caught:
        thinflow.check("nowhere.pb", budget=path)
    assert caught.value.message.startswith(f"{path}: ")
    assert problem in caught.value.message
    assert hint in caught.value.hint


def test_every_kind_refuses_something() -> None:
    """What is not limited by a wrong value would be limited by nothing."""
    assert not [key for key in kinds() if not any(key in text for text in WRONG) and key not in SAME]


SAME = {"activations", "peak_memory", "parameters"}
"""Read as `size` and `nodes` are."""


def test_no_file_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "thinflow.budgets.file.nearest_project", lambda model: read_project(settled(tmp_path, ""))
    )
    with pytest.raises(ParameterError, match=r"there is no table \[budget\]"):
        budget_file(None, "m.pb")
    monkeypatch.undo()
    if not any((folder / "thinflow.toml").exists() for folder in tmp_path.parents):
        (tmp_path / "thinflow.toml").unlink()
        with pytest.raises(ParameterError, match=r"no thinflow.toml in the folder of the model or above"):
            budget_file(None, str(tmp_path / "m.pb"))


def test_no_models(tmp_path: Path) -> None:
    with pytest.raises(ParameterError, match="no models to check") as caught:
        thinflow.check([], budget=settled(tmp_path, "[budget]\nsize = 1\n"))
    assert "models/*.tflite" in caught.value.hint
