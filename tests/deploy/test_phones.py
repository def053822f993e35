"""Apps for phones: all of their Kotlin, Swift, XML and TOML is parsed; nothing here compiles Swift."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import thinflow
from tests.deploy.app_models import detector, numbers, sound
from thinflow.errors import EngineUnavailable
from thinflow.zoo import digits

_TASKS = {"numbers": "any", "detector": "detection"} | dict.fromkeys(("picture", "sound"), "classification")
_LANGUAGES = {".kt": "kotlin", ".kts": "kotlin", ".swift": "swift"}


@pytest.fixture(scope="module", params=["picture", "sound", "numbers", "detector"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of a model of each kind of template."""
    path: Path = tmp_path_factory.mktemp(request.param) / f"{request.param}.tflite"
    made = {"picture": lambda: digits.build(0), "sound": sound, "numbers": numbers, "detector": detector}
    content = made[request.param]()
    if isinstance(content, bytes):
        path.write_bytes(content)
        return path
    thinflow.save(content, path.with_suffix(".pb"))
    return path.with_suffix(".pb")


def errors_in(file: Path) -> Iterator[str]:
    """Where a parser of the file's language stumbles."""
    import tree_sitter

    language = __import__(f"tree_sitter_{_LANGUAGES[file.suffix]}")
    tree = tree_sitter.Parser(tree_sitter.Language(language.language())).parse(file.read_bytes())
    pending: list[Any] = [tree.root_node]
    while pending:
        node = pending.pop()
        if node.type == "ERROR" or node.is_missing:
            yield f"{file.name}:{node.start_point[0] + 1}: {node.text[:60]!r}"
        pending.extend(node.children)


@pytest.mark.parametrize("target", ["android", "ios"])
def test_what_is_made_can_be_parsed(model: Path, target: str, tmp_path: Path) -> None:
    for name in ("tree_sitter", "tree_sitter_kotlin", "tree_sitter_swift"):
        pytest.importorskip(name)
    made = thinflow.deploy(model, tmp_path / "app", target)
    assert made.contract["task"] == _TASKS[model.stem]
    files = [tmp_path / "app" / name for name in made.files]
    sources = [file for file in files if file.suffix in _LANGUAGES]
    assert len(sources) >= 7
    assert [error for file in sources for error in errors_in(file)] == []
    broken = tmp_path / f"broken{sources[0].suffix}"
    broken.write_text(sources[0].read_text().replace("(", "", 1))
    assert list(errors_in(broken)) != []
    for file in files:
        if file.suffix == ".xml":
            ElementTree.parse(file)
        if file.suffix not in (".bin", ".png", ".wav", ".tflite"):
            assert "%{" not in file.read_text(), file
    # What was never tried is told: by the command, and in the folder.
    limit = [note for note in made.notes if "never" in note]
    assert len(limit) == 1
    assert limit[0][1:] in (tmp_path / "app" / "README.md").read_text()


def test_versions_stand_in_a_catalog(tmp_path: Path) -> None:
    tomllib = pytest.importorskip("tomllib")
    (tmp_path / "m.tflite").write_bytes(numbers())
    thinflow.deploy(tmp_path / "m.tflite", tmp_path / "app", "android")
    catalog = tomllib.loads((tmp_path / "app" / "gradle" / "libs.versions.toml").read_text())
    assert catalog["libraries"]["litert"]["module"] == "com.google.ai.edge.litert:litert"
    used = {
        entry["version"]["ref"] for group in ("libraries", "plugins") for entry in catalog[group].values()
    }
    assert used == set(catalog["versions"])


def test_a_self_test_that_cannot_run_here_says_what_it_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m.tflite").write_bytes(numbers())
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("ANDROID_HOME", raising=False)
    for target, tool in (("android", "gradle"), ("ios", "a Mac with Xcode")):
        made = thinflow.deploy(tmp_path / "m.tflite", tmp_path / target, target)
        with pytest.raises(EngineUnavailable, match=tool):
            made.test()


def test_names_that_languages_keep_for_themselves(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(numbers())
    thinflow.deploy(tmp_path / "m.tflite", tmp_path / "app", "android", name="when")
    assert 'namespace = "com.example.when_app"' in (tmp_path / "app" / "app" / "build.gradle.kts").read_text()
