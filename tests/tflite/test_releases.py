"""The releases that operators need: as files say that the converter wrote, and in step with the versions."""

from __future__ import annotations

from pathlib import Path

import pytest

from thinflow.formats.files import map_file
from thinflow.tflite import schema
from thinflow.tflite.reader import read_program
from thinflow.tflite.releases import _table, first_release, last_known


def test_operators_of_the_table_exist() -> None:
    assert not [code for code in _table() if schema.op_code(code) is None]


def test_later_versions_need_no_earlier_release() -> None:
    for code, releases in _table().items():
        known = [r for r in releases if r is not None]
        assert known == sorted(known), code
        assert all((1, 5) <= r <= last_known() for r in known)


def test_versions_before_and_behind_the_table() -> None:
    assert first_release("CONV_2D", 6) == (2, 9)
    assert first_release("CONV_2D", 0) is None
    assert first_release("CONV_2D", 99) is None
    assert first_release("BROADCAST_TO", 1) is None
    assert first_release("NO_SUCH", 1) is None


@pytest.mark.parametrize("name", ["nmp", "emg_rnn", "hello_world_int8", "mnist_lstm", "movie_review"])
def test_as_the_converter_says(shared: Path, name: str) -> None:
    found = sorted((shared / "zoo").rglob(f"{name}.tflite"))
    if not found:
        pytest.skip(f"no {name}.tflite")
    program = read_program(map_file(found[0]), losses=[])
    said = program.metadata["min_runtime_version"].rstrip(b"\0 ").decode()
    needs = [first_release(o.code, o.version) for block in program.subgraphs for o in block.operators]
    assert max(n for n in needs if n is not None) == tuple(map(int, said.split(".")[:2]))
