"""What is known of a model's use, written into its .tflite file: task libraries look there, not at flags."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from thinflow.deploy.contract import BOX_CLASSES, PICTURE, SCORES, WHOLE, AppInput, AppOutput, Contract
from thinflow.deploy.opened import Asked
from thinflow.errors import FormatError
from thinflow.ir.usage import (
    AUDIO,
    AXIS,
    GREY,
    IMAGE,
    RGB,
    VALUES,
    InputUsage,
    OutputUsage,
    Usage,
    Words,
)
from thinflow.tflite.described import described
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

T = TypeVar("T")

_COLOURS = {"rgb": RGB, "grey": GREY}
"""Blue first has no word in LiteRT's metadata: whoever read the rest of it would feed red first."""
_LABELS = "labels.txt"
CHANGED = "the metadata in it says what was said of it here, for task libraries"
COPIED_NETWORK = "the network of the file as it was; only its metadata was written anew"


def with_usage(content: bytes, contract: Contract, usage: Usage, asked: Asked) -> bytes:
    """The file with metadata of what the contract knows; the same bytes where it says all of that already.

    Args:
        content: of a .tflite file.
        contract: of it.
        usage: that it has.
        asked: what a user said of it.

    Raises:
        FormatError: the file has parts that could not be written back.
    """
    wanted = _merged(contract, usage, asked)
    if wanted == usage:
        return content
    program = read_program(content)
    main = program.subgraphs[0]
    # By their places: signatures call ends otherwise.
    named = replace(
        wanted,
        inputs=_renamed(wanted.inputs, [i.name for i in contract.inputs], [t.name for t in main.inputs]),
        outputs=_renamed(wanted.outputs, [o.name for o in contract.outputs], [t.name for t in main.outputs]),
    )
    made = described(program, named)
    return to_bytes(replace(made, files={**_files_of(content), **made.files}))


def _renamed(held: Mapping[str, T], names: Sequence[str], tensors: Sequence[str]) -> dict[str, T]:
    places = dict(zip(names, tensors, strict=True))
    return {places.get(name, name): one for name, one in held.items()}


def _files_of(content: bytes) -> dict[str, bytes]:
    """The files behind a model."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: archive.read(name) for name in archive.namelist()}
    # A model without files is no ZIP; RuntimeError: they are encrypted, NotImplementedError: packed in a way
    # that Python does not know.
    except (zipfile.BadZipFile, OSError, NotImplementedError, RuntimeError, ValueError):
        return {}


def _merged(contract: Contract, usage: Usage, asked: Asked) -> Usage:
    inputs, outputs = dict(usage.inputs), dict(usage.outputs)
    for one in contract.inputs:
        held = usage.input(one.name) or InputUsage()
        stated = _picture(one, held, asked) if one.kind == PICTURE else _sound(one, held, asked)
        if stated != held:
            inputs[one.name] = stated
    for given in contract.outputs:
        before = usage.outputs.get(given.name) or OutputUsage()
        after = _labelled(given, before, contract.labels)
        if after != before:
            outputs[given.name] = after
    return replace(usage, inputs=inputs, outputs=outputs)


def _picture(one: AppInput, held: InputUsage, asked: Asked) -> InputUsage:
    """What was said of a picture; what is not known stays unknown."""
    steps = one.picture
    assert steps is not None
    if asked.scaling is None or one.said != "flags" or steps.order not in _COLOURS:
        return held
    stated = replace(held, kind=IMAGE, colours=_COLOURS[steps.order], assumed="")
    # Codes that are the pixels themselves are not scaled.
    if steps.store == WHOLE:
        return stated
    # MediaPipe takes one number for all channels, and refuses several.
    mean, std = (values[:1] if len({*values}) == 1 else values for values in (steps.mean, steps.std))
    return replace(stated, mean=mean, std=std)


def _sound(one: AppInput, held: InputUsage, asked: Asked) -> InputUsage:
    if one.sound is None or asked.sample_rate is None:
        return held
    return replace(held, kind=AUDIO, sample_rate=asked.sample_rate)


def _labelled(one: AppOutput, held: OutputUsage, labels: Sequence[str]) -> OutputUsage:
    """An output with the names of its classes."""
    if not labels or one.kind not in (SCORES, BOX_CLASSES):
        return held
    if held.labels is not None and held.labels.words == tuple(labels):
        return held
    return replace(held, labels=Words(_LABELS, tuple(labels), of=AXIS if one.kind == SCORES else VALUES))


def usage_note(content: bytes, contract: Contract, usage: Usage, asked: Asked) -> tuple[bytes, str]:
    """As `with_usage`, and what to tell of it: a file that cannot be written back stays as it is."""
    try:
        made = with_usage(content, contract, usage, asked)
    except FormatError as error:
        return content, f"its metadata stays as it was: {error.problem}"
    return made, "" if made == content else CHANGED
