"""Processors that C is written for, and what each has that kernels can use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tile:
    """Sums that have room in registers, where a register holds one; what is best was counted in QEMU.

    Attributes:
        filters, rows: of a product.
        filters_of_one: where there is one row alone.
        outputs: of a depthwise convolution, side by side.
    """

    filters: int
    rows: int
    filters_of_one: int
    outputs: int


THUMB = Tile(3, 2, 8, 2)
"""For the fourteen registers of Cortex-M3 and later ones."""


@dataclass(frozen=True)
class Processor:
    """A processor, or a family of them.

    Attributes:
        features: what forms may need: "scalar" (a register holds one number), "dsp" (two products of 16 bits
            in one instruction), "mve", "neon", "dotprod", "avx2", "vnni".
        word_bytes: the size of a pointer.
        flags: what GCC and Clang have to be told for such kernels.
        tile: of "scalar" kernels.
    """

    features: frozenset[str] = frozenset()
    word_bytes: int = 4
    flags: tuple[str, ...] = ()
    tile: Tile = THUMB

    @property
    def is_portable(self) -> bool:
        """Whether its kernels are C that the compiler of any processor takes."""
        return not self.features & {"dsp", "mve", "avx2", "neon"}


def _with(features: str = "", word_bytes: int = 4, flags: str = "", tile: Tile = THUMB) -> Processor:
    return Processor(frozenset(features.split()), word_bytes, tuple(flags.split()), tile)


_DOTPROD = "-march=armv8.2-a+dotprod"
_V3 = "-mavx2 -mfma"
_V4 = "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni"


PROCESSORS = {
    "generic": _with(word_bytes=8),
    "cortex-m0": _with("scalar", tile=Tile(4, 1, 4, 1)),
    "cortex-m3": _with("scalar"),
    "cortex-m4": _with("scalar dsp"),
    "cortex-m7": _with("scalar dsp"),
    "cortex-m33": _with("scalar dsp"),
    "cortex-m55": _with("scalar dsp mve"),
    "cortex-m85": _with("scalar dsp mve"),
    "cortex-a53": _with("neon", 8),
    "cortex-a55": _with("neon dotprod", 8, _DOTPROD),
    "cortex-a72": _with("neon", 8),
    "cortex-a76": _with("neon dotprod", 8, _DOTPROD),
    "x86-64": _with("sse2", 8),
    "x86-64-v3": _with("sse2 avx2", 8, _V3),
    "x86-64-v4": _with("sse2 avx2 avx512 vnni", 8, f"{_V3} {_V4}"),
    "riscv32imc": _with("scalar", tile=Tile(4, 3, 8, 6)),
}
