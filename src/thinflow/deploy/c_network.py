"""The model of an app as plain C: written, compiled and run beside LiteRT, and judged on its processor."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from thinflow.deploy.contract import RATE, SOUND, WHOLE, AppInput, Contract, PlainC, SelfTest
from thinflow.deploy.sample import fed_sound
from thinflow.fit.judge import judge, place_of
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.optimize.c_conversion import CFiles, convert_to_c
from thinflow.optimize.c_options import COptions
from thinflow.optimize.c_source import CSource, c_source
from thinflow.typing import Array

_SOUND_LEVEL = 32768


def as_c(contract: Contract, path: str, asked: COptions) -> Contract:
    """The contract of the model's C: what its functions take and give, and LiteRT's answer to the sample by
    the kernels that it follows.

    Args:
        contract: of the .tflite file.
        path: of that.
        asked: what was asked of the C; the processor among it.

    Raises:
        UnsupportedOp: operators have no form in C, all of them named.
        VerificationError: it gives other answers.
        TooLittleMemory: no schedule takes so little memory.
    """
    rate = next((one.sound.sample_rate for one in contract.inputs if one.sound is not None), None)
    # Microphones give samples of 16 bits; C has no such choice where no sound comes in.
    hears = any(one.sound is not None and one.sound.inside for one in contract.inputs)
    chosen = replace(asked, sound=asked.sound or ("int16" if hears else None), layout=None).chosen()
    with tempfile.TemporaryDirectory() as scratch:
        place = Path(scratch, f"{contract.name}.c")
        way, made = c_source(
            *(path, None, {}, rate),
            lambda it: convert_to_c(it.program(), place, chosen, feed=lambda net: _feed(contract, net)),
            verify=True,
        )
        files = {file.name: file.read_text(encoding="utf-8") for file in sorted(Path(scratch).iterdir())}
    return _with(contract, way, made, chosen, files)


def _with(contract: Contract, way: CSource, made: CFiles, chosen: Options, files: dict[str, str]) -> Contract:
    block = made.network.block
    inputs = tuple(
        _as_taken(one, tensor.dtype.numpy().name, tuple(n or 1 for n in tensor.shape or ()))
        for one, tensor in zip(_taken(contract, len(block.inputs)), block.inputs, strict=True)
    )
    # The same scales as in the file, where each was.
    outputs = tuple(
        replace(one, shape=tuple(n or 1 for n in tensor.shape or ()), dtype=tensor.dtype.numpy().name)
        for one, tensor in zip(contract.outputs, block.outputs, strict=True)
    )
    answers = contract.test.outputs if made.sample is None else tuple(made.sample.outputs)
    test = SelfTest(
        contract.test.raw, tuple(_feed(contract, made.network)), answers, "", contract.test.origin
    )
    place = place_of(chosen.cpu, ram_bytes=chosen.ram)

    def make(options: Options) -> Network:
        asked = replace(options, sound=chosen.sound, rounding=chosen.rounding)
        return network(way.program(), asked)

    c = PlainC(
        files,
        chosen.cpu,
        chosen.rounding,
        judge(make, place),
        made.proof,
        (*made.notes, *way.notes),
        bool(made.network.state_bytes),
        made.sample is not None,
    )
    return replace(contract, inputs=inputs, outputs=outputs, test=test, c=c)


def _taken(contract: Contract, count: int) -> list[AppInput]:
    """The inputs that are left: filters are made for one sample rate, so that nobody is to say it."""
    if len(contract.inputs) == count:
        return list(contract.inputs)
    return [one for one in contract.inputs if one.kind != RATE]


def _as_taken(one: AppInput, dtype: str, shape: tuple[int, ...]) -> AppInput:
    """An input as the C has it."""
    if one.kind == SOUND and one.sound is not None and dtype == "int16" != one.dtype:
        return replace(one, dtype=dtype, shape=shape, sound=replace(one.sound, store=WHOLE))
    return replace(one, dtype=dtype, shape=shape)


def _feed(contract: Contract, net: Network) -> list[Array]:
    """The sample's arrays as a network takes them."""
    fed = dict(zip(contract.inputs, contract.test.inputs, strict=True))
    found = []
    for one, tensor in zip(_taken(contract, len(net.block.inputs)), net.block.inputs, strict=True):
        dtype, shape = tensor.dtype.numpy(), tuple(n or 1 for n in tensor.shape or ())
        array = fed[one]
        if dtype.name == "int16" != one.dtype:
            raw = contract.test.raw
            array = (
                np.round(array * _SOUND_LEVEL).clip(-_SOUND_LEVEL, _SOUND_LEVEL - 1).astype(np.int16)
                if raw is None
                else fed_sound(raw, _as_taken(one, "int16", shape))
            )
        found.append(array.astype(dtype).reshape(shape))
    return found
