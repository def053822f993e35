"""The engines that the main job makes files for, and how their files are called."""

from __future__ import annotations

from collections.abc import Sequence

from thinflow.errors import ParameterError, closest

LITERT, ONNX, OPENVINO = "litert", "onnxruntime", "openvino"
RACED = (LITERT, ONNX, OPENVINO)
"""Engines that a job can make files for."""
_SPELLINGS = {"onnx": ONNX}
PREFIXES = {LITERT: "", ONNX: "onnx_", OPENVINO: "openvino_"}
"""Engine -> how the roles of its files begin, which end in fp32 and int8."""


def raced_engines(names: Sequence[str] | str | None) -> tuple[str, ...]:
    """The engines that are asked for, once each; none for None.

    Raises:
        ParameterError: there is no such engine, or nothing makes files for it.
    """
    if names is None:
        return ()
    given = [n.strip() for n in (names.split(",") if isinstance(names, str) else names)]
    found = [_SPELLINGS.get(name, name) for name in given if name]
    wrong = next((name for name in found if name not in RACED), None)
    if wrong is not None or not found:
        shown = "litert, onnx, openvino"
        raise ParameterError(
            f"no files are made for an engine '{wrong}'" if found else "no engine is named",
            hint=(closest(wrong, [*RACED, *_SPELLINGS]) if wrong else "") or f"choose among {shown}",
        )
    return tuple(dict.fromkeys(found))
