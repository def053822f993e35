"""Files that register something are found by being there, and imported when they are needed."""

from __future__ import annotations

import importlib
import py_compile
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from thinflow.decompose import complex as by_parts
from thinflow.decompose import rules as decomposing
from thinflow.ir.discovery import Index, Registered
from thinflow.keras import registry as keras
from thinflow.lower import rules as lowering
from thinflow.ops import traits

SHIPPED: dict[str, Registered[Any]] = {
    "ops": traits.classes,
    "decompositions": decomposing._rules,
    "complex forms": by_parts._forms,
    "rules for LiteRT": lowering._rules("tflite"),
    "rules for ONNX": lowering._rules("onnx"),
    "Keras layers": keras.registry().layers,
    "Keras operations": keras.registry().operations,
}


@pytest.mark.parametrize("table", SHIPPED.values(), ids=SHIPPED)
def test_sources_tell_what_is_registered(table: Registered[Any]) -> None:
    """Else an answer would depend on what was imported before."""
    index = Index(table._packages, table._decorators)
    registered = {name: getattr(what, "rule", what).__module__ for name, what in table.items()}
    # Rules for lists are methods of a class that targets share; the modules that register them are asked.
    inside = {name: home for name, home in registered.items() if home.startswith(tuple(table._packages))}
    untold = {name: home for name, home in inside.items() if index.names.get(name) != home}
    assert not {name for name, home in untold.items() if home not in index.computed}
    assert not set(index.names) - set(registered)
    assert registered


REGISTRY = """
from thinflow.ir.discovery import Registered

things: Registered[type] = Registered("{package}", "thing")


def thing(*names, **options):
    def register(cls):
        for name in names:
            things.add(name, cls, cls.__module__)
        return cls

    return register
"""
FILES = {
    "one": '@thing("A", "B", weight=("x", 1))\nclass One: ...\n',
    "many": '@thing(\n    *("C", "D"),\n    *("E",),\n    "F.g",\n)\nclass Many: ...\n',
    "later": '"""As in\n\n    @thing("Q")\n"""\n@thing("G")\nclass Later: ...\n',
    "computed": '@thing(*(f"H{n}" for n in range(3)))\nclass Computed: ...\n',
    "looped": 'class Looped: ...\nfor name in ("I", "J"):\n    thing(name)(Looped)\n',
    "idle": "something(1)\n",
}


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Mapping[str, str]], Any]]:
    """Makes a package of files beside a registry, and gives the registry's module."""
    name = f"found_{tmp_path.name}".replace("-", "_")
    folder = tmp_path / name
    folder.mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def made(files: Mapping[str, str]) -> Any:
        (folder / "__init__.py").touch()
        (folder / "registry.py").write_text(REGISTRY.format(package=name))
        for stem, text in files.items():
            inner = f"from {name}.registry import thing\nsomething = print\n"
            (folder / f"{stem}.py").write_text(inner + text)
        return importlib.import_module(f"{name}.registry")

    yield made
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        del sys.modules[module]


def loaded(registry: Any) -> set[str]:
    package = registry.__name__.rpartition(".")[0]
    return {m.rpartition(".")[2] for m in sys.modules if m.startswith(f"{package}.")} - {"registry"}


@pytest.mark.parametrize(
    ("name", "home"),
    [("A", "one"), ("B", "one"), ("C", "many"), ("E", "many"), ("F.g", "many"), ("G", "later")],
)
def test_a_name_imports_its_file_alone(package: Any, name: str, home: str) -> None:
    registry = package(FILES)
    assert registry.things.find(name).__name__ == home.capitalize()
    assert loaded(registry) == {home}


def test_files_with_computed_names_are_asked_one_by_one(package: Any) -> None:
    registry = package(FILES)
    assert registry.things["H2"].__name__ == "Computed"
    assert loaded(registry) == {"computed"}
    assert registry.things["I"].__name__ == "Looped"
    assert registry.things.find("Z") is None
    assert "Q" not in registry.things
    assert loaded(registry) == {"computed", "later", "looped"}


def test_whoever_lists_names_gets_all_of_them(package: Any) -> None:
    registry = package(FILES)
    assert sorted(registry.things) == [*"ABCDE", "F.g", "G", "H0", "H1", "H2", "I", "J"]
    assert len(registry.things) == 12
    assert "idle" not in loaded(registry)


def test_without_sources_all_is_found(package: Any, tmp_path: Path) -> None:
    registry = package({name: FILES[name] for name in ("one", "many")})
    (folder,) = tmp_path.iterdir()
    for file in (folder / "one.py", folder / "many.py"):
        py_compile.compile(str(file), cfile=str(file.with_suffix(".pyc")))
        file.unlink()
    importlib.invalidate_caches()
    assert registry.things["C"].__name__ == "Many"
    assert sorted(registry.things) == [*"ABCDE", "F.g"]


def test_in_an_archive_all_is_found(
    package: Any, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = package({}).__name__.partition(".")[0]
    for stem in ("one", "many"):
        text = f"from {name}.registry import thing\n{FILES[stem]}"
        (tmp_path / name / f"{stem}.py").write_text(text)
    archive = shutil.make_archive(str(tmp_path_factory.mktemp("zip") / "found"), "zip", tmp_path)
    shutil.rmtree(tmp_path / name)
    for module in [m for m in sys.modules if m.partition(".")[0] == name]:
        del sys.modules[module]
    monkeypatch.syspath_prepend(archive)
    registry = importlib.import_module(f"{name}.registry")
    assert archive in registry.__file__
    assert registry.things["C"].__name__ == "Many"
    assert sorted(registry.things) == [*"ABCDE", "F.g"]


def test_what_ships_comes_before_what_a_plug_in_registers(
    package: Any,
) -> None:
    registry = package(FILES)
    own, other = type("Own", (), {}), type("Other", (), {})
    assert registry.things.add("X", own, "plug_in") is own
    assert registry.things.add("A", other, "plug_in").__name__ == "One"
    assert registry.things["X"] is own


def test_names_with_a_trait_are_asked_without_importing_all() -> None:
    names = traits.ops_with(traits.Trait.MATMUL)
    assert "MatMul" in names
    assert "Relu" not in names
    assert names & {"MatMul", "Relu"} == {"MatMul"}
    assert {"MatMul", "BatchMatMulV2"} <= set(names)
