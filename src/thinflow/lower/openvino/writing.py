"""OpenVINO's models as files: an .xml and a .bin of its weights, written aside and renamed together."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thinflow.errors import ThinflowError, UnsupportedOp, WriteError
from thinflow.formats.openvino import WEIGHTS_SUFFIX
from thinflow.lower.openvino.runtime import is_ir, library, read, said
from thinflow.onnx.program import Program
from thinflow.typing import FilePath

SUFFIX = ".xml"
_NOTES = "model_info"
"""Where OpenVINO's own tools keep notes on a model."""


def model_of(program: Program) -> Any:
    """OpenVINO's model of an ONNX program, with the ends of that, in its order.

    Raises:
        UnsupportedOp: OpenVINO refuses it.
        EngineUnavailable: it is missing.
    """
    from thinflow.onnx.writer import INLINE_LIMIT, to_bytes, write_program

    ov = library()
    size = sum(t.array().nbytes for t in program.tensors() if t.is_constant)
    try:
        if size <= INLINE_LIMIT:
            model = read(to_bytes(program))
        else:
            with tempfile.TemporaryDirectory() as folder:
                place = Path(folder) / "model.onnx"
                file = write_program(program, beside="model.onnx.data")
                place.write_bytes(b"".join(file.chunks))
                with open(f"{place}.data", "wb") as data:
                    data.writelines(file.data_chunks)
                model = read(str(place))
    except ThinflowError as error:
        raise UnsupportedOp(
            error.problem, hint="write an .onnx file, which OpenVINO may open all the same"
        ) from error
    known = {name: p for p in model.get_parameters() for name in p.output(0).get_names()}
    parameters = []
    for tensor in program.inputs:
        found = known.get(tensor.name)
        if found is None:
            # What nobody reads its reader leaves out; an app feeds it all the same.
            found = ov.op.Parameter(_element(ov, tensor), ov.PartialShape(_sizes(tensor)))
            found.set_friendly_name(tensor.name)
            found.output(0).get_tensor().set_names({tensor.name})
        parameters.append(found)
    made = ov.Model(model.get_results(), parameters, "model")
    _settle_names(made)
    return made


def _settle_names(model: Any) -> None:
    """Number the nodes that have no name of their own: OpenVINO does so from where this process is."""
    pending = [model]
    for part in pending:  # grows on the way
        for number, node in enumerate(part.get_ordered_ops()):
            kind = node.get_type_name()
            if re.fullmatch(rf"{re.escape(kind)}_\d+", node.get_friendly_name()):
                node.set_friendly_name(f"{kind}_{number}")
            if kind in ("Loop", "TensorIterator"):
                pending.append(node.get_function())


_ELEMENTS = {"float": "f32", "half": "f16", "bool": "boolean"}


def _element(ov: Any, tensor: Any) -> Any:
    name = tensor.dtype.name
    return getattr(ov.Type, _ELEMENTS.get(name) or name.replace("uint", "u").replace("int", "i"))


def _sizes(tensor: Any) -> list[int]:
    return [-1 if size is None else size for size in tensor.shape or ()]


def write_ir(
    model: Any,
    path: FilePath,
    *,
    notes: Mapping[str, str] | None = None,
    check: Callable[[str], object] | None = None,
) -> int:
    """Write a model as an .xml and the .bin that belongs to it; the bytes written, of both.

    Both are renamed when both are there, the weights first, and none of an older pair is left beside one of
    this.

    Args:
        model: OpenVINO's own.
        path: of the .xml.
        notes: on the model, which its own tools show.
        check: called with the path of the finished .xml before it takes its name.

    Raises:
        WriteError: it cannot be written; what stood there is untouched.
    """
    target = Path(path)
    if target.is_symlink():
        target = target.resolve()
    if target.suffix != SUFFIX:
        raise WriteError("OpenVINO opens .xml files only", str(target), hint=f"end the name in {SUFFIX}")
    weights = target.with_suffix(WEIGHTS_SUFFIX)
    _require_own(target, weights)
    try:
        if not target.parent.is_dir():
            raise FileNotFoundError(errno.ENOENT, "no such folder")
        for name, text in (notes or {}).items():
            model.set_rt_info(text, [_NOTES, name])
        # In the same folder, since a rename across file systems is a copy.
        with _folder(target.parent) as aside:
            made, data = aside / f"model{SUFFIX}", aside / f"model{WEIGHTS_SUFFIX}"
            try:
                library().serialize(model, str(made), str(data))
            except Exception as error:  # its exceptions have no common base but this
                raise _not_written(error, aside) from error
            for file in (made, data):
                _put_down(file)
            size = made.stat().st_size + data.stat().st_size
            if check is not None:
                check(str(made))
            _take_names({data: weights, made: target}, aside)
    except OSError as error:
        known = {
            errno.ENOENT: ("its folder does not exist", f"create it: mkdir -p {target.parent}"),
            errno.ENOSPC: ("the disk is full", "free some space or write elsewhere"),
        }
        unknown = (f"cannot be written: {error.strerror or error}", "choose another place")
        problem, hint = known.get(error.errno or 0, unknown)
        raise WriteError(problem, str(target), hint=hint) from error
    return size


def _require_own(target: Path, weights: Path) -> None:
    """Refuse to replace what is no OpenVINO model, or its weights."""
    for file in (target, weights):
        if file.is_dir():
            raise WriteError("this is a folder", str(file), hint="choose another name")
    if weights.exists() and not (target.exists() and is_ir(target)):
        raise WriteError(
            f"the weights would go to {weights.name}, and that is there without an OpenVINO model",
            str(target),
            hint="move it, or choose another name",
        )


@contextmanager
def _folder(parent: Path) -> Iterator[Path]:
    aside = Path(tempfile.mkdtemp(prefix=".openvino.", suffix=".part", dir=parent))
    try:
        yield aside
    # Also after Ctrl-C: half a file of gigabytes shall not stay behind.
    finally:
        shutil.rmtree(aside, ignore_errors=True)


def _not_written(error: Exception, folder: Path) -> Exception:
    """OpenVINO's error as the system's, which it hides: a full disk is the usual one."""
    if not shutil.disk_usage(folder).free:
        return OSError(errno.ENOSPC, "no space left")
    return OSError(errno.EIO, said(error))


def _put_down(file: Path) -> None:
    """Put a file onto the disk before it is renamed: after a crash its name might else lead to nothing."""
    with open(file, "rb") as opened:
        os.fsync(opened.fileno())


def _take_names(files: Mapping[Path, Path], aside: Path) -> None:
    """Rename files to their names. What stood there steps aside first and comes back if that fails."""
    old = {name: aside / f"old{name.suffix}" for name in files.values() if name.exists()}
    # The model before its weights: nothing shall open it with those of another.
    for name in reversed(list(old)):
        os.rename(name, old[name])
    taken = []
    try:
        for made, name in files.items():
            if name in old:
                os.chmod(made, old[name].stat().st_mode & 0o7777)
            os.rename(made, name)
            taken.append(name)
    except BaseException:
        for name in taken:
            name.unlink(missing_ok=True)
        for name, kept in old.items():
            os.rename(kept, name)
        raise
