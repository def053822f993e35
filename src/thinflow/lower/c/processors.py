"""Processors that C is written for, and what each has that kernels can use."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Processor:
    """A processor, or a family of them.

    Attributes:
        features: what forms may need: "dsp" (two products of 16 bits in one instruction), "mve", "neon",
            "dotprod", "avx2", "vnni".
        word_bytes: the size of a pointer.
        flags: what GCC and Clang have to be told for such kernels.
    """

    features: frozenset[str] = frozenset()
    word_bytes: int = 4
    flags: tuple[str, ...] = ()

    @property
    def is_portable(self) -> bool:
        """Whether its kernels are C that the compiler of any processor takes."""
        return not self.features & {"dsp", "mve", "avx2", "neon"}


def _with(features: str = "", word_bytes: int = 4, flags: str = "") -> Processor:
    return Processor(frozenset(features.split()), word_bytes, tuple(flags.split()))


_DOTPROD = "-march=armv8.2-a+dotprod"
_V3 = "-mavx2 -mfma"
_V4 = "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni"


PROCESSORS = {
    "generic": _with(word_bytes=8),
    "cortex-m0": _with(),
    "cortex-m4": _with("dsp"),
    "cortex-m7": _with("dsp"),
    "cortex-m33": _with("dsp"),
    "cortex-m55": _with("dsp mve"),
    "cortex-m85": _with("dsp mve"),
    "cortex-a53": _with("neon", 8),
    "cortex-a55": _with("neon dotprod", 8, _DOTPROD),
    "cortex-a72": _with("neon", 8),
    "cortex-a76": _with("neon dotprod", 8, _DOTPROD),
    "x86-64": _with("sse2", 8),
    "x86-64-v3": _with("sse2 avx2", 8, _V3),
    "x86-64-v4": _with("sse2 avx2 avx512 vnni", 8, f"{_V3} {_V4}"),
    "riscv32imc": _with(),
}
