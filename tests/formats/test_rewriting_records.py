"""What is written over what was read: nothing of an old value is left in a new one, and no file is half."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import thinflow
from thinflow.formats import files
from thinflow.formats.files import write_file
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.types import FLOAT, INT32
from thinflow.wire import protos


@pytest.mark.parametrize(
    "values",
    [
        (b"text", 3),
        ((1, 2, 3), (4,)),
        ((b"a", b"b"), (1.5,)),
        (ShapeAttr((1, 2)), ShapeAttr(None)),
        (ShapeAttr((1, 2, 3)), ShapeAttr((4,))),
        (1.5, True),
        ((FLOAT, INT32), (INT32,)),
        (np.arange(3, dtype=np.float32), b"no tensor"),
    ],
    ids=repr,
)
def test_a_changed_attribute_keeps_nothing_of_the_old_one(
    values: tuple[object, object], tmp_path: Path
) -> None:
    old, new = (thinflow.Tensor.from_array(v) if isinstance(v, np.ndarray) else v for v in values)
    graph = thinflow.Graph()
    graph.add("Custom", name="n", attrs={"a": old, "other": 1})  # type: ignore[dict-item]
    thinflow.save(graph, tmp_path / "old.pb")
    read = thinflow.load(tmp_path / "old.pb", inputs=[], outputs=[])
    read.node("n").attrs["a"] = new  # type: ignore[assignment]
    thinflow.save(read, tmp_path / "new.pb")

    fresh = thinflow.Graph()
    fresh.add("Custom", name="n", attrs={"a": new, "other": 1})  # type: ignore[dict-item]
    thinflow.save(fresh, tmp_path / "fresh.pb")
    written, expected = (
        protos.parse("GraphDef", (tmp_path / f"{name}.pb").read_bytes()).node[0].attr["a"]
        for name in ("new", "fresh")
    )
    assert written == expected


def test_a_file_is_on_the_disk_before_it_takes_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a crash of the machine could leave an empty file under the name of a good one."""
    told: list[str] = []
    target = tmp_path / "m.pb"
    target.write_bytes(b"old")
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        size = os.fstat(descriptor).st_size
        told.append(f"synced {size} bytes")
        sync(descriptor)

    def replaced(source: str, to: str) -> None:
        told.append("named")
        assert target.read_bytes() == b"old"
        replace(source, to)

    monkeypatch.setattr(files.os, "fsync", synced)
    monkeypatch.setattr(files.os, "replace", replaced)
    checked: list[bytes] = []
    size = write_file(target, [b"new ", b"bytes"], check=lambda p: checked.append(Path(p).read_bytes()))
    assert (size, target.read_bytes(), checked) == (9, b"new bytes", [b"new bytes"])
    assert told == ["synced 9 bytes", "named"]  # all of it, also what waited in Python's buffer
