"""The work of `thinflow.deploy`: a model is converted, a sample run, and a folder filled."""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from thinflow._version import __version__
from thinflow.deploy.c_network import as_c
from thinflow.deploy.c_target import CTarget, needs_note
from thinflow.deploy.contract import (
    ANY,
    BOX_CLASSES,
    BOX_COUNT,
    BOX_SCORES,
    BOXES,
    CLASSIFICATION,
    DETECTION,
    PICTURE,
    SCORES,
    AppOutput,
    Contract,
    SelfTest,
)
from thinflow.deploy.deployment import Deployment
from thinflow.deploy.filling import common_values, filled, filled_templates
from thinflow.deploy.folder import CONTRACT, MANIFEST, Manifest, digest, made_aside, require_free
from thinflow.deploy.opened import Asked, OpenedModel
from thinflow.deploy.sample import png_bytes, sample_for, wav_bytes
from thinflow.deploy.stated import CHANGED, COPIED_NETWORK, usage_note
from thinflow.deploy.targets import Target, find
from thinflow.errors import ParameterError, PartialModel
from thinflow.load.layouts import LAST
from thinflow.optimize.c_options import COptions
from thinflow.typing import Array

if TYPE_CHECKING:
    from thinflow.optimize.conversion import Conversion

Convert = Callable[..., "Conversion"]
"""Writes the whole model to a path, and tells what it proved; takes more options of `convert_verified`."""
_MOST_TOP = 100
# What no package may be called: words of the languages of apps, modules of Python.
_TAKEN = frozenset(("main", "test", "tests", "model", "src", "app", "class", "switch", "default"))


@dataclass(frozen=True)
class AppOptions:
    """What a user chose.

    Attributes:
        target: name of the platform.
        asked: labels, scaling and sample rate.
        name: of programs and packages; "": after the model's file.
        sample: file of the self-test's sample; None: made up.
        top: how many of the likeliest classes are shown.
        c: what was asked of the model's C.
    """

    target: str
    asked: Asked = field(default_factory=Asked)
    name: str = ""
    sample: str | None = None
    top: int = 5
    c: COptions = field(default_factory=COptions)


_PART = "end the model before that with --outputs, or begin behind it with --inputs: the app does the rest"


def make(source: str, out: str | os.PathLike[str], convert: Convert, options: AppOptions) -> Deployment:
    """The folder of an app.

    Args:
        source: path of the model, for its name; "" for a graph in memory.
        out: the folder.
        convert: writes the model.
        options: see there.

    Raises:
        ParameterError: there is no such target, or a choice makes no sense.
        WriteError: the folder holds something else, or cannot be written.
        PartialModel: the target's runtime can hold only a part of the model.
    """
    target = find(options.target)
    folder = Path(os.path.abspath(out))
    # Before the model is opened: wrong options should not cost a minute.
    name = app_name(options.name, source, folder)
    _check(options)
    c_options = c_options_for(target, options.c)
    require_free(folder, target.built)
    with made_aside(folder) as aside, tempfile.TemporaryDirectory() as scratch:
        try:
            held, conversion, opened = _converted(Path(scratch), target, convert, options)
        except PartialModel as error:
            raise PartialModel(error.problem, error.where, _PART) from error
        contract = contract_of(opened, name, source, options, is_small=target.is_c)
        if c_options is not None:
            contract = in_words(as_c(contract, os.fspath(held), c_options), opened)
        contract = replace(contract, file=_file_of(target, contract))
        target.check(contract)
        files = content_of(target, contract)
        told = ""
        if contract.c is None:
            content, told = usage_note(held.read_bytes(), contract, opened.usage, options.asked)
            files[target.model_file(contract)] = content
        _write(aside, files, target, contract)
    return Deployment(
        os.fspath(out),
        target.name,
        name,
        tuple(sorted(files)),
        sum(map(len, files.values())),
        target.model_file(contract),
        contract.test.answer,
        contract.test.origin,
        _proof(conversion, contract, told),
        (*_notes(conversion, contract, target), *filter(None, [told])),
        contract.data(),
    )


def _proof(conversion: Conversion, contract: Contract, told: str) -> str:
    """What was proved of the model in the folder; `told` is what became of its metadata."""
    from thinflow.optimize.conversion import COPIED

    if contract.c is not None:
        return contract.c.proof
    # Metadata stands behind the network, which it leaves as it was.
    return COPIED_NETWORK if told == CHANGED and conversion.proof == COPIED else conversion.proof


def _converted(
    scratch: Path, target: Target, convert: Convert, options: AppOptions
) -> tuple[Path, Conversion, OpenedModel]:
    """The model's file as a target takes it, what its conversion proved, and the file opened."""
    held = scratch / "model.tflite"
    conversion = convert(os.fspath(held))
    opened = OpenedModel(os.fspath(held), options.asked, has_alpha=target.has_alpha)
    again: dict[str, Any] = {}
    # Cameras and decoders give the channels of a pixel side by side.
    if opened.channels_first:
        again["input_layout"] = dict.fromkeys(opened.channels_first, LAST)
    # LiteRT's CompiledModel compares shapes strictly: a batch of 1 does not fit one of -1.
    if not target.has_open_batch and opened.has_open_batch:
        again["shapes"] = {one.name: one.shape for one in opened.inputs}
    if not again:
        return held, conversion, opened
    held = scratch / "again.tflite"
    conversion = convert(os.fspath(held), **again)
    return held, conversion, OpenedModel(os.fspath(held), options.asked, has_alpha=target.has_alpha)


def c_options_for(target: Target, asked: COptions) -> COptions | None:
    """What is asked of the C of a target; None for one that has a runtime.

    Raises:
        ParameterError: it has one, and something is asked of C; or it has no such processor.
    """
    if isinstance(target, CTarget):
        chosen = replace(asked, cpu=asked.cpu or target.cpu)
        # Refuses what does not exist.
        chosen.chosen()
        target.require_cpu(chosen.cpu or "")
        return chosen
    names = ("cpu", "ram", "rounding", "sound")
    given = [name for name in names if getattr(asked, name) is not None]
    if given:
        raise ParameterError(
            f"--{given[0]} is for targets whose model is plain C",
            hint="give it with --target arduino, cortex-m or zephyr",
        )
    return None


def _notes(conversion: Conversion, contract: Contract, target: Target) -> tuple[str, ...]:
    told = conversion.notes if contract.c is None else (needs_note(contract.c), *contract.c.notes)
    return (*told, *contract.doubts, *filter(None, [target.limit]))


def _file_of(target: Target, contract: Contract) -> str:
    """The model's path from its contract on."""
    if contract.c is None:
        return contract.file
    return Path(os.path.relpath(target.model_file(contract), target.assets or ".")).as_posix()


def app_name(asked: str, source: str, folder: Path) -> str:
    """The name of programs and packages: lower case letters, digits and _.

    Raises:
        ParameterError: what was asked for is none.
    """
    if asked:
        if not re.fullmatch(r"[a-z][a-z0-9_]{0,39}", asked) or asked in _TAKEN:
            raise ParameterError(
                f"an app cannot be called '{asked}'", hint="give a name of lower case letters, digits and _"
            )
        return asked
    stem = Path(source or folder.name).name.split(".")[0]
    name = re.sub(r"[^a-z0-9]+", "_", stem.lower()).strip("_")[:40].strip("_")
    return name if name and name[0].isalpha() and name not in _TAKEN else f"net_{name}".rstrip("_")


def _check(options: AppOptions) -> None:
    if not 1 <= options.top <= _MOST_TOP:
        raise ParameterError(f"{options.top} classes cannot be shown", hint=f"give 1 to {_MOST_TOP}: --top 5")
    if options.sample is not None and not Path(options.sample).is_file():
        raise ParameterError(
            "there is no such sample", options.sample, "name a picture, a .wav, an .npy or an .npz file"
        )


# --------------------------------------------------------------------------------------------- the contract


def contract_of(
    model: OpenedModel, name: str, source: str, options: AppOptions, *, is_small: bool = False
) -> Contract:
    """What an app must know of a model; a sample is run for its answer.

    Args:
        is_small: whether the sample has to fit into the flash of a microcontroller.
    """
    sample = sample_for(model, options.sample, is_small=is_small)
    arrays = tuple(model.run(sample.feed))
    outputs = model.outputs(arrays)
    kinds = {one.kind for one in outputs}
    task = CLASSIFICATION if SCORES in kinds else DETECTION if BOXES in kinds else ANY
    test = SelfTest(
        sample.raw, tuple(sample.feed[one.name] for one in model.inputs), arrays, "", sample.origin
    )
    reals = model.reals(arrays)
    return Contract(
        name=name,
        title=Path(source).name.split(".")[0] or name,
        source=Path(source).name,
        file="model.tflite",
        task=task,
        inputs=model.inputs,
        outputs=outputs,
        labels=model.labels if task != ANY else (),
        test=replace(test, answer=answer_of(outputs, reals, model.labels)),
        top=options.top,
        doubts=tuple(model.doubts),
        made_by=f"thinflow {__version__}",
    )


def in_words(contract: Contract, model: OpenedModel) -> Contract:
    """The same with its sample's answer in words."""
    reals = model.reals(contract.test.outputs)
    answer = answer_of(contract.outputs, reals, model.labels)
    return replace(contract, test=replace(contract.test, answer=answer))


def answer_of(outputs: Sequence[AppOutput], reals: Sequence[Array], labels: Sequence[str]) -> str:
    """An answer as apps show it: `seven 0.981`, the best box, or "" for numbers.

    Args:
        reals: of the outputs.
    """
    found = {
        one.kind: np.asarray(real, np.float64).reshape(-1) for one, real in zip(outputs, reals, strict=True)
    }
    if SCORES in found:
        scores = found[SCORES]
        softmax = next(one.softmax for one in outputs if one.kind == SCORES)
        best = int(scores.argmax())
        if softmax:
            scores = np.exp(scores - scores.max())
            scores /= scores.sum()
        return f"{label_of(best, labels)} {scores[best]:.3f}"
    if BOXES not in found:
        return ""
    count = int(found[BOX_COUNT][0]) if BOX_COUNT in found else len(found[BOX_SCORES])
    scores = found[BOX_SCORES][:count]
    if not len(scores):
        return "no box"
    best = int(scores.argmax())
    kind = label_of(int(found[BOX_CLASSES][best]), labels) if BOX_CLASSES in found else "box"
    ends = ", ".join(f"{end:.3f}" for end in found[BOXES].reshape(-1, 4)[best])
    return f"{kind} {scores[best]:.3f} at {ends}"


def label_of(number: int, labels: Sequence[str]) -> str:
    """The name of a class, else its number."""
    return labels[number] if 0 <= number < len(labels) else str(number)


# --------------------------------------------------------------------------------------------- the folder


def assets_of(target: Target, contract: Contract) -> str:
    """Where model.json and the like go: "" or a path that ends in /."""
    found = filled(target.assets, {"name": contract.name})
    return f"{found}/" if found else ""


def content_of(target: Target, contract: Contract) -> dict[str, bytes]:
    """Path -> content of all files but the model."""
    values = {**common_values(contract), **target.values(contract)}
    texts = filled_templates(target.templates or (target.name,), contract, values)
    own = {path: _bytes(held) for path, held in target.files(contract).items()}
    assets = {f"{assets_of(target, contract)}{path}": held for path, held in _assets(contract).items()}
    return {**{path: text.encode() for path, text in texts.items()}, **assets, **own}


def _assets(contract: Contract) -> dict[str, bytes]:
    """What every app reads: the contract, the labels, and the sample with its answer."""
    found = {CONTRACT: (json.dumps(contract.data(), indent=2, ensure_ascii=False) + "\n").encode()}
    if contract.labels:
        found["labels.txt"] = "".join(f"{label}\n" for label in contract.labels).encode()
    names = contract.data()["self_test"]
    for side, arrays in (("inputs", contract.test.inputs), ("outputs", contract.test.outputs)):
        for path, array in zip(names[side], arrays, strict=True):
            # Little-endian, row by row, as all these processors have numbers in memory.
            found[path] = array.astype(array.dtype.newbyteorder("<")).tobytes()
    if (raw := contract.test.raw) is not None:
        main = contract.main_input
        rate = 0 if main.sound is None else main.sound.sample_rate
        found[contract.raw_file] = png_bytes(raw) if main.kind == PICTURE else wav_bytes(raw, rate)
    return found


def _bytes(held: str | bytes) -> bytes:
    return held.encode() if isinstance(held, str) else held


def _write(folder: Path, files: Mapping[str, bytes], target: Target, contract: Contract) -> None:
    for path, content in files.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        if content.startswith(b"#!"):
            place.chmod(0o755)
    digests = {path: digest(content) for path, content in sorted(files.items())}
    manifest = Manifest(target.name, contract.name, assets_of(target, contract).rstrip("/"), digests)
    (folder / MANIFEST).write_text(manifest.text(), encoding="utf-8")
