"""The driver of `make mutants`: which changes it makes, which it does not, and which tests it tries."""

from __future__ import annotations

from pathlib import Path

import pytest

from scripts import mutants

CODE = '''"""A module."""
from __future__ import annotations


def total(xs: list[int] | None, limit: int = 3) -> int | None:
    """The sum."""
    file = open_file()
    file.flush()
    if xs is None or len(xs) > limit:
        return None
    return sum(xs) + 1
'''


def test_calls_are_left_out() -> None:
    (left_out,) = mutants._without_calls(CODE)
    assert "    pass\n    if xs" in left_out.code
    assert "flush" not in left_out.code
    assert "open_file()" in left_out.code


def test_annotations_and_docstrings_mean_nothing() -> None:
    same = CODE.replace("| None", "& None").replace("The sum.", "The difference.")
    assert mutants._meaning(same) == mutants._meaning(CODE)
    assert mutants._meaning(CODE.replace("+ 1", "- 1")) != mutants._meaning(CODE)
    assert mutants._meaning(CODE.replace("= 3", "= 4")) != mutants._meaning(CODE)


def test_changes_of_cosmic_ray_matter() -> None:
    pytest.importorskip("cosmic_ray", reason="needs the extra `mutants`")
    found = mutants.mutants(CODE)
    assert len({m.code for m in found}) == len(found)
    assert any("sum(xs) - 1" in m.code for m in found)
    assert any("len(xs) >= limit" in m.code for m in found)
    assert all("list[int] | None" in m.code for m in found)


@pytest.mark.parametrize(
    ("source", "test"),
    [
        ("src/thinflow/ops/identity.py", "tests/ops/test_identity.py"),
        ("src/thinflow/errors/plain_text.py", "tests/errors/test_plain_text.py"),
        ("src/thinflow/formats/sealing.py", "tests/formats/test_pack_damage.py"),
        ("src/thinflow/compare/same_structure.py", "tests/compare/test_same_structure.py"),
        ("src/thinflow/lower/onnx/strings.py", "tests/lower/onnx/test_strings.py"),
    ],
)
def test_the_tests_of_a_file_are_found(source: str, test: str) -> None:
    found = mutants.tests_of(Path(source))
    assert test in found
    assert len(found) <= mutants.MOST_TEST_FILES
