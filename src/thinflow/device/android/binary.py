"""For which phones a program is."""

from __future__ import annotations

from pathlib import Path

from thinflow.errors import FormatError

# Of an ELF file's header: the number of the processor, at byte 18.
_ABIS = {183: "arm64-v8a", 40: "armeabi-v7a", 62: "x86_64", 3: "x86", 243: "riscv64"}
_BEGIN, _AT = b"\x7fELF", 18


def abi_of(path: Path) -> str:
    """The ABI, as Android calls it.

    Raises:
        FormatError: it is no program for Linux.
    """
    with path.open("rb") as file:
        head = file.read(_AT + 2)
    if len(head) < _AT + 2 or not head.startswith(_BEGIN):
        raise FormatError(
            "it is no program for Android: it has no ELF header",
            str(path),
            hint="take LiteRT's benchmark_model as it is, unpacked",
        )
    number = int.from_bytes(head[_AT : _AT + 2], "little" if head[5] == 1 else "big")
    return _ABIS.get(number, f"processor {number}")
