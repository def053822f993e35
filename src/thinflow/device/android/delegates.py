"""What runs operators on a phone, as flags of benchmark_model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from thinflow.errors import ParameterError, closest


@dataclass(frozen=True)
class Delegate:
    """A delegate that was asked for.

    Attributes:
        name: as it is asked for, without what follows the colon.
        flags: of benchmark_model.
        library: a file on this machine that has to be there, too; "" if there is none.
        is_cpu: it runs on the CPU, so that nothing is lost where it does not apply.
    """

    name: str
    flags: tuple[str, ...] = ()
    library: str = ""
    is_cpu: bool = field(default=False)


def _xnnpack(option: str) -> Delegate:
    if option not in ("", "fp16"):
        raise ParameterError(f"delegate 'xnnpack:{option}' is not known", hint="write xnnpack, xnnpack:fp16")
    half = ("--xnnpack_force_fp16=true",) if option else ()
    return Delegate("xnnpack", ("--use_xnnpack=true", *half), is_cpu=True)


def _cpu(option: str) -> Delegate:
    if option:
        raise ParameterError(f"delegate 'cpu:{option}' is not known", hint="write cpu: LiteRT's own kernels")
    # Said in so many words it switches off the delegate that is there by default.
    return Delegate("cpu", ("--use_xnnpack=false",), is_cpu=True)


def _gpu(option: str) -> Delegate:
    if option not in ("", "cl", "gl", "exact"):
        raise ParameterError(
            f"delegate 'gpu:{option}' is not known",
            hint="write gpu, gpu:cl (OpenCL), gpu:gl (OpenGL), or gpu:exact (no half precision)",
        )
    # Half precision is what the GPU takes by default, as an app does.
    more = {"": (), "exact": ("--gpu_precision_loss_allowed=false",)}
    return Delegate("gpu", ("--use_gpu=true", *more.get(option, (f"--gpu_backend={option}",))))


def _nnapi(option: str) -> Delegate:
    accelerator = (f"--nnapi_accelerator_name={option}",) if option else ()
    return Delegate("nnapi", ("--use_nnapi=true", *accelerator))


def _hexagon(option: str) -> Delegate:
    if option:
        raise ParameterError(f"delegate 'hexagon:{option}' is not known", hint="write hexagon")
    return Delegate("hexagon", ("--use_hexagon=true",))


def _external(option: str) -> Delegate:
    if not Path(option).is_file():
        raise ParameterError(
            f"delegate 'external:{option}': no such file",
            hint="write external:FILE.so, a library for the device",
        )
    return Delegate("external", (), option)


_KINDS: dict[str, Callable[[str], Delegate]] = {
    "xnnpack": _xnnpack,
    "cpu": _cpu,
    "gpu": _gpu,
    "nnapi": _nnapi,
    "hexagon": _hexagon,
    "external": _external,
}


def delegate(text: str) -> Delegate:
    """The delegate of a setting; "" for what benchmark_model does by itself.

    Raises:
        ParameterError: there is none such.
    """
    if not text:
        return Delegate("", is_cpu=True)
    name, _, option = text.partition(":")
    if name not in _KINDS:
        known = ", ".join(_KINDS)
        raise ParameterError(
            f"'{name}' is no delegate of benchmark_model", hint=closest(name, _KINDS) or f"there are: {known}"
        )
    return _KINDS[name](option)
