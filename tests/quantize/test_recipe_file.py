"""Recipes are written to files, read again, and refused by the name of what is wrong."""

from __future__ import annotations

import contextlib
import random
from pathlib import Path

import pytest

from thinflow.errors import FormatError, ParameterError
from thinflow.quantize.recipe import Recipe
from thinflow.quantize.recipe_file import RecipeFile, read_recipe, recipe_text, write_recipe

CHOSEN = Recipe(
    scheme="int8",
    observer="percentile",
    observer_options={"percent": 99.99},
    per_channel=False,
    skip_ops=frozenset(("SOFTMAX", "ADD")),
    skip_nodes=('a "name"\\*', "ü\x7f\t?"),
    rescale="all",
    correct_bias=True,
    float_parts=frozenset(),
    looked_at=7,
)


@pytest.mark.parametrize("recipe", [Recipe(), Recipe(scheme="float16"), CHOSEN])
def test_a_recipe_comes_back(recipe: Recipe, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    size = write_recipe(path, RecipeFile(recipe, "a\nb.pb", "0f"), samples="3 of x", tried=["kept: it  3 dB"])
    assert size == path.stat().st_size
    assert read_recipe(path) == RecipeFile(recipe, "a\nb.pb", "0f", str(path))


def test_only_what_differs_is_written() -> None:
    text = recipe_text(RecipeFile(Recipe(rescale="all")), samples="3 of x", tried=["kept: it"])
    assert text.split("[recipe]")[1].split() == ["scheme", "=", '"int8"', "rescale", "=", '"all"']
    assert "# samples: 3 of x\n" in text
    assert "#   kept: it\n" in text


def test_python_reads_the_same() -> None:
    tomllib = pytest.importorskip("tomllib", reason="Python has it from 3.11 on")
    found = tomllib.loads(recipe_text(RecipeFile(CHOSEN, "m.pb")))
    assert Recipe(**found["recipe"]) == CHOSEN


BAD = {
    "": "no line says its version",
    'version = "1"\n': "no line says its version",
    "version = true\n": "no line says its version",
    "version = 2\n": "this recipe has version 2.*\nhint: update thinflow",
    "version = 1\n[recpie]\n": "nothing called 'recpie'\nhint: did you mean 'recipe'",
    "version = 1\nrecipe = 3\n": r"'recipe' is no table\nhint: write \[recipe\]",
    "version = 1\n[model]\nfiel = 'x'\n": "nothing called 'fiel'\nhint: did you mean 'file'",
    "version = 1\n[recipe]\nshceme = 'int8'\n": "nothing called 'shceme'\nhint: did you mean 'scheme'",
    "version = 1\n[recipe]\nscheme = 'int7'\n": "no quantization scheme 'int7'\nhint: did you mean 'int8'",
    "version = 1\n[recipe]\nscheme = int8\n": "line 3 has 'int8', which is no number",
    "version = 1\n[recipe]\nscheme = 8\n": "'scheme' cannot be 8\nhint: give a text in quotes",
    "version = 1\n[recipe]\nper_channel = 1\n": "'per_channel' cannot be 1\nhint: give true or false",
    "version = 1\n[recipe]\nlooked_at = true\n": "'looked_at' cannot be true\nhint: give a whole number",
    "version = 1\n[recipe]\nlooked_at = 0\n": "looked_at cannot be 0",
    "version = 1\n[recipe]\nskip_nodes = 'a'\n": "'skip_nodes' cannot be \"a\"\nhint: give a list",
    "version = 1\n[recipe]\nskip_nodes = [1]\n": "'skip_nodes' cannot be 1\nhint: give a text",
    "version = 1\n[recipe]\nobserver_options = 1\n": "'observer_options' cannot be 1\nhint: give a table",
    "version = 1\nversion = 1\n": "line 2 has 'version' for the second time",
    "version = \n": "line 1 has nothing where a value should be",
    "version = 1 2\n": "line 1 has '2' where the line's end should be",
    "version = 1e999\n": "line 1 has '1e999'",
    "version = 99999999999999999999\n": "line 1 has '99999",
    "version": "line 1 has nothing where '=' should be",
    "a.b = 1\n": "line 1 has 'a.b' where a name should be",
    "a = '''x'''\n": "line 1 has ",
    'a = "\\q"\n': "line 1 has '.*q', which stands for no character",
    'a = "\\ud800"\n': "which stands for no character",
    "a = [1,\n": "line 2 ends too early",
    "a = " + 20 * "[": "line 1 has lists or tables in too many others",
    "a = {b = 1\n": "line 1 has nothing where '}' should be",
    "\x00": "line 1 cannot be read from",
}


@pytest.mark.parametrize("text", BAD)
def test_what_is_wrong_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.toml"
    path.write_text(text, "utf-8")
    with pytest.raises((FormatError, ParameterError), match=BAD[text]) as caught:
        read_recipe(path)
    assert caught.value.where.startswith(str(path))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "large").write_bytes(b"#" * (1 << 20) + b"#")
    for name, why in {
        "model": "no text",
        "large": "too large",
        "none": "cannot be read",
        "": "cannot",
    }.items():
        with pytest.raises(FormatError, match=why):
            read_recipe(tmp_path / name)


def test_any_damage_is_refused_or_is_a_recipe(tmp_path: Path) -> None:
    draw = random.Random(0)
    whole = recipe_text(RecipeFile(CHOSEN, "m.pb", "ab")).encode()
    path = tmp_path / "r.toml"
    for _ in range(1500):
        damaged = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            start = draw.randrange(len(damaged))
            damaged[start : start + draw.randrange(4)] = bytes(
                draw.choices(b"[]{}=\"\\,#\n'a1.\x00\xff", k=draw.randrange(4))
            )
        path.write_bytes(damaged)
        # Anything else than these errors fails the test.
        with contextlib.suppress(FormatError, ParameterError):
            assert isinstance(read_recipe(path).recipe, Recipe)
