"""Words that stand for values in help, and what they may be: for help and completion.

The lists are said again here, as importing what has them takes longer than most commands; tests compare.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

ENGINES = ("auto", "litert", "onnxruntime", "openvino", "c", "reference")
ROUNDINGS = ("litert", "xnnpack")
SOUNDS = ("float", "int16", "fixed")
CPUS = (
    "generic",
    "cortex-m0",
    "cortex-m3",
    "cortex-m4",
    "cortex-m7",
    "cortex-m33",
    "cortex-m55",
    "cortex-m85",
    "cortex-a53",
    "cortex-a55",
    "cortex-a72",
    "cortex-a76",
    "x86-64",
    "x86-64-v3",
    "x86-64-v4",
    "riscv32imc",
)
C_LAYOUTS = ("files", "one-file", "c++17", "arduino", "zephyr", "esp-idf", "cmsis-pack")
PRECISIONS = ("float32", "float16")
COREML_WEIGHTS = ("float", "int8")
COREML_TARGETS = ("iOS15", "iOS16", "iOS17", "iOS18")
SCHEMES = ("int8", "int16x8", "dynamic", "float16", "int8_weights", "int4_weights")
EFFORTS = ("none", "fast", "default", "best")
PIPELINES = ("eight_bit", "float", "for_runtime", "smallest")
OBSERVERS = ("minmax", "percentile", "mse", "kl", "moving", "sigma")
LAYOUTS = ("nhwc", "nchw", "auto")
BORDER_TYPES = ("float32", "int8", "uint8", "int16")


def _transforms() -> list[str]:
    from thinflow.rewrite.discovery import shipped_transforms

    return list(shipped_transforms())


def _samples() -> list[str]:
    from thinflow.zoo import names

    return names()


def _commands() -> list[str]:
    from thinflow.cli._commands import COMMANDS

    return list(COMMANDS)


def _rules() -> list[str]:
    from thinflow.lint.codes import shipped_codes

    return shipped_codes()


def _platforms() -> list[str]:
    from thinflow.deploy.targets import target_names

    return target_names()


VALUES: Mapping[str, Callable[[], list[str]]] = {
    "ENGINE": lambda: list(ENGINES),
    "SCHEME": lambda: list(SCHEMES),
    "ROUNDING": lambda: list(ROUNDINGS),
    "SOUND": lambda: list(SOUNDS),
    "CPU": lambda: list(CPUS),
    "C_LAYOUT": lambda: list(C_LAYOUTS),
    "PRECISION": lambda: list(PRECISIONS),
    "WEIGHTS": lambda: list(COREML_WEIGHTS),
    "SYSTEM": lambda: list(COREML_TARGETS),
    "EFFORT": lambda: list(EFFORTS),
    "PIPELINE": lambda: list(PIPELINES),
    "OBSERVER": lambda: list(OBSERVERS),
    "LAYOUT": lambda: list(LAYOUTS),
    "TYPE": lambda: list(BORDER_TYPES),
    "TRANSFORM": _transforms,
    "TRANSFORMS": _transforms,
    "SAMPLE": _samples,
    "CODE": _rules,
    "COMMAND": _commands,
    "PLATFORM": _platforms,
    "BOOL": lambda: ["true", "false"],
}
"""What a word may be, by what help calls it, up to a bracket as in `OBSERVER[(OPTION=N)]`."""

PATHS = frozenset(
    ("MODEL", "FILE", "FOLDER", "FOLDER|FILE", "PREFIX", "A", "B", "OUTPUT", "OUT_DIR", "PACKAGE", "DATA")
)
"""What is a path, besides what has a suffix, as `FILE.npz`, and what stands behind `NAME=`."""


def values_of(metavar: str) -> list[str]:
    """What a word in help stands for, as far as that can be listed."""
    known = VALUES.get(metavar.partition("[")[0].upper())
    return known() if known is not None else []


def is_path(metavar: str) -> bool:
    """Whether a word in help stands for a file or folder."""
    word = metavar.partition("[")[0].upper().removeprefix("NAME=").partition(":")[0]
    return word in PATHS or word.partition(".")[0] in ("FILE", "OUT")
