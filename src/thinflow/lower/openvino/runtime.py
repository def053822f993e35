"""OpenVINO opened quietly: the package, its readers, and what they say."""

from __future__ import annotations

import io
import os
import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

from thinflow.errors import EngineUnavailable
from thinflow.errors.plain_text import shown
from thinflow.formats.openvino import WEIGHTS_SUFFIX, begins_ir, weights_beside

OPSET = 20
"""Of the ONNX that its reader gets."""


def missing() -> str | None:
    """The reason why OpenVINO cannot be used; None if it can."""
    # Looked up here, since tests take packages away.
    from importlib.util import find_spec

    found = find_spec("openvino")
    return None if found else "the package openvino is missing (pip install 'thinflow[openvino]')"


@cache
def library() -> Any:
    """The package openvino, imported without reporting home.

    It would send statistics as soon as it is imported, unless it is told not to in a file in the user's
    folder; a thread that is left of that would keep this process from forking, too. Without the package that
    sends them it does nothing of it.

    Raises:
        EngineUnavailable: it is not installed.
    """
    sender = "openvino_telemetry"
    blocked = sender not in sys.modules
    if blocked:
        sys.modules[sender] = None  # type: ignore[assignment] # what makes an import fail
    try:
        import openvino
        import openvino.frontend
    except ImportError as error:
        raise EngineUnavailable(
            "the package openvino is missing", hint="pip install 'thinflow[openvino]'"
        ) from error
    finally:
        if blocked:
            del sys.modules[sender]
    return openvino


@cache
def core() -> Any:
    """OpenVINO's devices; to find them takes a tenth of a second, and all models can share it."""
    return library().Core()


@cache
def _reader() -> Any:
    """Its reader of ONNX. Left to choose, it asks others first, which complain on stderr."""
    return library().frontend.FrontEndManager().load_by_framework("onnx")


def read(content: bytes | str) -> Any:
    """OpenVINO's model of an .onnx file, by its bytes or path, or of an .xml file, by its path.

    Raises:
        EngineUnavailable: OpenVINO is missing, or refuses it.
    """
    is_own = isinstance(content, str) and is_ir(content)
    try:
        if is_own:
            return core().read_model(content, _weights_of(str(content)))
        reader = _reader()
        return reader.convert(reader.load(content if isinstance(content, str) else io.BytesIO(content)))
    except EngineUnavailable:
        raise
    except Exception as error:  # its exceptions have no common base but this
        raise refusal(error, is_own=is_own) from error


def is_ir(path: str | os.PathLike[str]) -> bool:
    """Whether a file is one of OpenVINO's, by its beginning."""
    try:
        with open(path, "rb") as file:
            return begins_ir(file.read(_HEAD_BYTES))
    except OSError:
        return False


_HEAD_BYTES = 256


def _weights_of(path: str) -> str:
    """The file of weights beside a model.

    Raises:
        EngineUnavailable: it is missing. OpenVINO would say only that a constant cannot be read.
    """
    found = weights_beside(path)
    if not found:
        wanted = Path(path).with_suffix(WEIGHTS_SUFFIX).name
        raise EngineUnavailable(
            f"its weights are in the file '{wanted}', which is missing", path, hint="put it beside the model"
        )
    return str(found[0])


def refusal(error: Exception, *, is_own: bool = False) -> EngineUnavailable:
    """The error for a model that OpenVINO refuses."""
    hint = (
        "the file may be damaged; convert the model again" if is_own else "engine='onnxruntime' may take it"
    )
    return EngineUnavailable(f"OpenVINO refuses the model: {said(error)}", hint=hint)


_PLACE = re.compile(
    r"(Exception from|Check '.*' failed at|FrontEnd API failed|Details:|Not Implemented:|.*\.cpp:\d+:?$)"
)
_INSIDE = re.compile(r"^(While validating .*?: )?Check '.*?' failed at \S+: ?")
_EMPTY = ("Model wasn't fully converted", "Failed operations", "Summary:", "To facilitate the conversion")
_MOST_CHARACTERS = 200


def said(error: Exception) -> str:
    """What OpenVINO says in one line, without the places of its sources that it says it from."""
    lines = [line.strip() for line in str(error).splitlines()]
    told = [_INSIDE.sub(r"\1", line) for line in lines if line and not _PLACE.match(line)]
    kept = [line.removeprefix("-- ") for line in told if line and not line.startswith(_EMPTY)]
    if kept and kept[0].startswith("Unable to read the model"):
        return "it cannot be read"
    return shown(" ".join(kept)[:_MOST_CHARACTERS]) or "no reason given"
