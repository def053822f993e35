"""Calibrated ranges as a JSON file, so that a model can be quantized again without its samples."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import Any

from thinflow.errors import FormatError, WriteError
from thinflow.lower.tflite.program import Program, Tensor, write_program
from thinflow.quantize.calibrate import Calibration
from thinflow.quantize.ranges import Range

FORMAT = "thinflow ranges 1"


def save_ranges(calibration: Calibration, program: Program, path: Path) -> None:
    """Write the ranges of a float program, by tensor name; replaces the file in one step.

    Raises:
        WriteError: the file cannot be written.
    """
    keys = {tensor: key for key, tensor in _by_key(program).items()}
    content = {
        "format": FORMAT,
        "model_sha256": _fingerprint(program),
        "samples": calibration.samples,
        "ranges": {
            keys[t]: {"min": r.low, "max": r.high, "observer": r.observer}
            for t, r in calibration.ranges.items()
        },
    }
    part = path.with_name(f"{path.name}.part")
    try:
        part.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
        os.replace(part, path)
    except OSError as e:
        raise WriteError(f"the file cannot be written: {e.strerror}", str(path)) from e


def load_ranges(path: Path, program: Program, *, force: bool = False) -> Calibration:
    """The ranges saved for a program.

    Args:
        force: take them even if they were made with another model; names that it does not have are left out.

    Raises:
        FormatError: the file is damaged, or belongs to another model.
    """
    where = str(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"its format is {content['format']!r}")
        saved = {str(key): _range(entry) for key, entry in content["ranges"].items()}
        fingerprint, samples = content["model_sha256"], int(content["samples"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as e:
        raise FormatError(f"this holds no saved ranges: {e}", where) from e
    if fingerprint != _fingerprint(program) and not force:
        raise FormatError(
            "these ranges were made with another model", where, hint="calibrate again, or force their use"
        )
    tensors = _by_key(program)
    return Calibration({tensors[k]: r for k, r in saved.items() if k in tensors}, samples)


def _range(entry: dict[str, Any]) -> Range:
    low, high = float(entry["min"]), float(entry["max"])
    if not (math.isfinite(low) and math.isfinite(high) and low <= high):
        raise ValueError(f"a range goes from {low} to {high}")
    return Range(low, high, str(entry["observer"]))


def _by_key(program: Program) -> dict[str, Tensor]:
    """Tensors by name; a name that comes again gets a number."""
    keys: dict[str, Tensor] = {}
    for tensor in program.subgraphs[0].tensors():
        key, count = tensor.name, 1
        while key in keys:
            count += 1
            key = f"{tensor.name}#{count}"
        keys[key] = tensor
    return keys


def _fingerprint(program: Program) -> str:
    digest = hashlib.sha256()
    for chunk in write_program(program)[1]:
        digest.update(chunk)
    return digest.hexdigest()
