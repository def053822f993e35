from __future__ import annotations

from pathlib import Path

import pytest

from thinflow.device.android.delegates import delegate
from thinflow.errors import ParameterError


@pytest.mark.parametrize(
    ("text", "flags", "is_cpu"),
    [
        ("", (), True),
        ("xnnpack", ("--use_xnnpack=true",), True),
        ("xnnpack:fp16", ("--use_xnnpack=true", "--xnnpack_force_fp16=true"), True),
        ("cpu", ("--use_xnnpack=false",), True),
        ("gpu", ("--use_gpu=true",), False),
        ("gpu:gl", ("--use_gpu=true", "--gpu_backend=gl"), False),
        ("gpu:exact", ("--use_gpu=true", "--gpu_precision_loss_allowed=false"), False),
        ("nnapi", ("--use_nnapi=true",), False),
        ("nnapi:qti-dsp", ("--use_nnapi=true", "--nnapi_accelerator_name=qti-dsp"), False),
        ("hexagon", ("--use_hexagon=true",), False),
    ],
)
def test_flags(text: str, flags: tuple[str, ...], is_cpu: bool) -> None:
    found = delegate(text)
    assert (found.flags, found.is_cpu, found.library) == (flags, is_cpu, "")


def test_a_library_of_ones_own(tmp_path: Path) -> None:
    library = tmp_path / "libvendor.so"
    library.touch()
    found = delegate(f"external:{library}")
    assert (found.library, found.is_cpu) == (str(library), False)


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("gpus", "'gpus' is no delegate", "did you mean 'gpu'"),
        ("coreml", "'coreml' is no delegate", "there are: xnnpack"),
        ("gpu:vulkan", "'gpu:vulkan' is not known", "gpu:cl"),
        ("cpu:8", "'cpu:8' is not known", "write cpu"),
        ("xnnpack:int8", "'xnnpack:int8' is not known", "xnnpack:fp16"),
        ("hexagon:v68", "'hexagon:v68' is not known", "write hexagon"),
        ("external:missing.so", "no such file", "external:FILE.so"),
    ],
)
def test_what_is_none(text: str, message: str, hint: str) -> None:
    with pytest.raises(ParameterError, match=message) as error:
        delegate(text)
    assert hint in error.value.hint
