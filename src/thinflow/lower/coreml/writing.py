"""Packages made of programs, and written: aside, then renamed."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import secrets
import shutil
import traceback
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from thinflow.coreml.names import NAMES_KEY
from thinflow.coreml.runtime import coremltools, quiet
from thinflow.errors import ParameterError, UnsupportedOp, WriteError
from thinflow.lower.coreml.options import Options
from thinflow.lower.coreml.program import MilProgram
from thinflow.ops.registry import RULE_ERRORS
from thinflow.typing import FilePath

_DATE = "com.github.apple.coremltools.conversion_date"


def package_of(made: MilProgram, options: Options) -> Any:
    """coremltools' model of a program, its passes run.

    Raises:
        UnsupportedOp: coremltools refuses it.
        ParameterError: classes are asked for that no output has scores of.
    """
    ct = coremltools()
    precision = ct.precision.FLOAT16 if options.precision == "float16" else ct.precision.FLOAT32
    more: dict[str, Any] = {}
    if options.labels:
        more["classifier_config"] = ct.ClassifierConfig(list(options.labels))
    with quiet():
        try:
            model = ct.convert(
                made.program,
                source="milinternal",
                convert_to="mlprogram",
                inputs=made.types or None,
                minimum_deployment_target=getattr(ct.target, options.target),
                compute_precision=precision,
                skip_model_load=True,
                **more,
            )
            if options.weights == "int8":
                model = _in_eight_bits(ct, model)
        except (AssertionError, NotImplementedError, *RULE_ERRORS) as error:
            first = (str(error).strip().splitlines() or [repr(error)])[0]
            # Its frames hold a folder of weights, which is removed as soon as they are gone.
            traceback.clear_frames(error.__traceback__)
            if options.labels:
                raise ParameterError(
                    f"no classifier can be made of it: {first}",
                    hint="it gives one row of scores, one for each label; leave --labels out otherwise",
                ) from error
            raise UnsupportedOp(f"coremltools refuses the program: {first}") from error
        notes = model.user_defined_metadata
        notes[NAMES_KEY] = json.dumps(made.names)
        # The same model makes the same file on any day.
        notes.pop(_DATE, None)
        model.short_description = "made by thinflow"
    return model


def _in_eight_bits(ct: Any, model: Any) -> Any:
    """Weights as int8 with a scale for each channel; small ones stay as they are."""
    config = ct.optimize.coreml
    rule = config.OpLinearQuantizerConfig(mode="linear_symmetric", dtype="int8", granularity="per_channel")
    return config.linear_quantize_weights(model, config=config.OptimizationConfig(global_config=rule))


def write_package(model: Any, path: FilePath, *, check: Callable[[str], object] | None = None) -> int:
    """Write a package, aside and renamed; the bytes written.

    Args:
        model: coremltools' own.
        path: of the folder that a package is.
        check: called with the path of the finished package before it takes its name.

    Raises:
        WriteError: it cannot be written; what stood there is untouched.
    """
    target = Path(path)
    if target.exists() and not is_package(target):
        raise WriteError(
            "there is something else than a Core ML package",
            str(target),
            hint="remove it, or choose another name",
        )
    # coremltools wants the suffix.
    aside = target.with_name(f".{target.name[:80]}.{secrets.token_hex(4)}.mlpackage")
    old = aside.with_suffix(".old")
    try:
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder")
        with quiet():
            model.save(str(aside))
        _settle_manifest(aside)
        for file in aside.rglob("*"):
            # It writes the specification for the owner alone; an app is built by others, too.
            file.chmod(0o755 if file.is_dir() else 0o644)
        size = sum(f.stat().st_size for f in aside.rglob("*") if f.is_file())
        if check is not None:
            check(str(aside))
        # A folder cannot be renamed over one with content: what stood there steps aside first.
        if target.exists():
            os.rename(target, old)
        try:
            os.rename(aside, target)
        except BaseException:
            if old.exists():
                os.rename(old, target)
            raise
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        hint = (
            f"create it: mkdir -p {target.parent}" if error.errno == errno.ENOENT else "choose another place"
        )
        problem = (
            "its folder does not exist"
            if error.errno == errno.ENOENT
            else f"cannot be written: {error.strerror or error}"
        )
        raise WriteError(problem, str(target), hint=hint) from error
    finally:
        with suppress(OSError):
            shutil.rmtree(aside)
    return size


def is_package(path: Path) -> bool:
    """Whether a folder is a package, by the file that lists its content."""
    return path.is_dir() and (path / "Manifest.json").is_file()


def _settle_manifest(package: Path) -> None:
    """Give the items of a package identifiers that follow from what they hold: the same model makes the same
    package."""
    place = package / "Manifest.json"
    manifest = json.loads(place.read_text("utf-8"))
    entries = manifest["itemInfoEntries"]
    renamed = {}
    for key, entry in entries.items():
        item = package / "Data" / entry["path"]
        files = sorted(f for f in item.rglob("*") if f.is_file()) if item.is_dir() else [item]
        digest = hashlib.sha256(entry["path"].encode())
        for file in files:
            with open(file, "rb") as stream:
                while chunk := stream.read(1 << 20):
                    digest.update(chunk)
        renamed[key] = str(uuid.UUID(bytes=digest.digest()[:16]))
    manifest["itemInfoEntries"] = {
        renamed[key]: entry for key, entry in sorted(entries.items(), key=lambda pair: pair[1]["path"])
    }
    manifest["rootModelIdentifier"] = renamed[manifest["rootModelIdentifier"]]
    place.write_text(json.dumps(manifest, indent=4) + "\n", "utf-8")
