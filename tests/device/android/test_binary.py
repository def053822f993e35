from __future__ import annotations

from pathlib import Path

import pytest

from tests.device.android.phones import elf
from thinflow.device.android.binary import abi_of
from thinflow.errors import FormatError


@pytest.mark.parametrize(
    ("machine", "abi"),
    [(183, "arm64-v8a"), (40, "armeabi-v7a"), (62, "x86_64"), (3, "x86"), (99, "processor 99")],
)
def test_the_header_says_for_whom_it_is(tmp_path: Path, machine: int, abi: str) -> None:
    (tmp_path / "tool").write_bytes(elf(machine))
    assert abi_of(tmp_path / "tool") == abi


@pytest.mark.parametrize("content", [b"", b"\x7fELF", b"PK\x03\x04" + bytes(40), b"#!/bin/sh\necho\n" * 3])
def test_what_is_no_program(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tool").write_bytes(content)
    with pytest.raises(FormatError, match="no ELF header") as error:
        abi_of(tmp_path / "tool")
    assert "unpacked" in error.value.hint
