"""The flags of LiteRT's label_image, in C++ and as a script, which share the name with TensorFlow's."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.cli._oldflags import Setting

ALIASES = {"tflite_model": "graph", "model_file": "graph", "label_file": "labels"}
ALIASES |= {"num_results": "top_k", "threads": "num_threads"}
ALIASES |= {"m": "graph", "i": "image", "l": "labels", "b": "input_mean", "s": "input_std", "c": "count"}
ALIASES |= {"r": "top_k", "t": "num_threads", "v": "verbose", "e": "max_profiling_buffer_entries"}
ALIASES |= {"a": "accelerated", "d": "old_accelerated", "f": "allow_fp16", "g": "gl_backend"}
ALIASES |= {"j": "hexagon_delegate", "x": "xnnpack_delegate", "p": "profiling", "w": "warmup_runs"}
# Flags of delegates, profilers and the like: command lines of guides must not fail for them.
_WITHOUT_EFFECT = (
    *("accelerated", "old_accelerated", "allow_fp16", "gl_backend", "hexagon_delegate", "xnnpack_delegate"),
    *("profiling", "max_profiling_buffer_entries", "warmup_runs"),
)
WITHOUT_EFFECT: dict[str, tuple[Setting, str]] = {
    **dict.fromkeys(_WITHOUT_EFFECT, ("", "no effect: the CPU runs the model as it is")),
    "verbose": ("", "no effect: thinflow inspect tells about the model"),
}
MEAN_AND_STD = 127.5
"""Of both programs, unless told otherwise."""

_LAYOUTS = {"tflite_model": "lite", "m": "lite", "model_file": "lite_python", "label_file": "lite_python"}


def layout(argv: Sequence[str]) -> str:
    """The layout of the program whose flags these are: "lite", "lite_python", or "" for TensorFlow's."""
    spelt = {a.lstrip("-").partition("=")[0] for a in argv if a.startswith("-")}
    found = {layout for flag, layout in _LAYOUTS.items() if flag in spelt}
    return max(found, default="")  # -m goes with either; the words only with the script
