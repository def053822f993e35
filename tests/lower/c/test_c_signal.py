"""TFLite Micro's signal ops in C, beside what its own interpreter answers over several calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lift.tflite.programs import program
from tests.lift.tflite.signal_cases import CALLS, CASES, T_FLOAT, Case, check_of, drawn
from tests.lower.c.c_answers import STRICT
from tests.lower.c.front_ends import front_end
from thinflow.api.converting import convert_verified
from thinflow.engines._c_library import Library, compiler
from thinflow.errors import UnsupportedOp
from thinflow.ir.types import FLOAT, dtype
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.optimize.c_answers import answers
from thinflow.tflite.model import Operator, Program, Quantization, Subgraph, Tensor
from thinflow.tflite.options import encode_map
from thinflow.tflite.reader import read_program
from thinflow.tflite.writer import to_bytes

FLAGS = ("-std=c99", "-O1", "-fPIC", "-shared", *STRICT)
needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler")


def beside(cases: Sequence[Case]) -> Program:
    """The operators of all cases in one program, in order."""
    whole = Subgraph([], [], [])
    for number, case in enumerate(cases):
        more = {"custom_code": case.code, "custom_options": encode_map(case.options)}
        part = program("CUSTOM", [*case.inputs, *case.constants], case.outputs, **more).subgraphs[0]
        for tensor in part.tensors():
            tensor.name += f"_{number}"
        whole.inputs += part.inputs
        whole.outputs += part.outputs
        whole.operators += part.operators
    return read_program(to_bytes(Program([whole])))


def library(made: Program) -> Library:
    found = network(made, Options())
    return Library(found, Writer(found, "net").files(), "net", FLAGS)


@needs_compiler
def test_every_op_answers_as_tflite_micro_call_by_call() -> None:
    compiled, fed = library(beside(CASES)), [drawn(case) for case in CASES]
    calls = [compiled.run([x for case in fed for x in case[call]]) for call in range(CALLS)]
    at, wrong = 0, []
    for case in CASES:
        answers = [call[at : at + len(case.outputs)] for call in calls]
        at += len(case.outputs)
        if check_of(answers) != case.check:
            wrong.append((case.code, case.inputs))
    assert not wrong


@needs_compiler
def test_a_state_begins_anew() -> None:
    cases = [case for case in CASES if case.code in ("SignalFramer", "SignalStacker", "SignalDelay")]
    compiled, fed = library(beside(cases)), [drawn(case) for case in cases]
    feeds = [[x for case in fed for x in case[call]] for call in range(CALLS)]
    first, second = [compiled.run(feed) for feed in feeds[:2]]
    compiled.restart()
    for again, once in zip(compiled.run(feeds[0]), first, strict=True):
        np.testing.assert_array_equal(again, once)
    assert any((a != b).any() for a, b in zip(first, second, strict=True))


@needs_compiler
def test_spectra_of_floats() -> None:
    options: dict[str, Any] = {"fft_length": 64, "T": T_FLOAT}
    there = Case("SignalRfft", [((2, 30), FLOAT)], [((2, 66), FLOAT)], options)
    back = Case("SignalIrfft", [((2, 66), FLOAT)], [((2, 64), FLOAT)], options)
    sums = Case("SignalOverlapAdd", [((2, 3, 4), FLOAT)], [((2, 6), FLOAT)], {"frame_step": 2, "T": T_FLOAT})
    rng = np.random.default_rng(0)
    x, z, w = (rng.standard_normal(c.inputs[0][0]).astype(np.float32) for c in (there, back, sums))
    compiled = library(beside([there, back, sums]))
    spectrum, signal, added = compiled.run([x, z, w])
    wanted = np.fft.rfft(x, 64)
    np.testing.assert_allclose(spectrum[:, ::2] + 1j * spectrum[:, 1::2], wanted, atol=1e-5)
    np.testing.assert_allclose(signal, np.fft.irfft(z[:, ::2] + 1j * z[:, 1::2], 64), atol=1e-6)
    frames = [w[:, 0, :2], w[:, 0, 2:] + w[:, 1, :2], w[:, 1, 2:] + w[:, 2, :2]]
    np.testing.assert_array_equal(added, np.concatenate(frames, 1))
    # What the last frame has over goes into the next call.
    np.testing.assert_array_equal(compiled.run([x, z, w])[2][:, :2], w[:, 2, 2:] + w[:, 0, :2])


@pytest.mark.parametrize(
    ("code", "change", "why"),
    [
        ("SignalRfft", {"fft_length": 48}, "a transform of 48 is no power of two"),
        ("SignalWindow", {"shift": 40}, "its option 'shift' is 40, not 0 to 31"),
        ("SignalFilterBank", {"num_channels": 5}, "its filters are not 6"),
        ("SignalStacker", {"stacker_step": 9}, "every 9 of"),
    ],
)
def test_what_would_read_beyond_its_memory_is_refused(code: str, change: dict[str, int], why: str) -> None:
    case = next(case for case in CASES if case.code == code)
    with pytest.raises(UnsupportedOp, match=why):
        network(beside([case._replace(options={**case.options, **change})]), Options())


def test_a_filter_outside_of_its_spectrum_is_refused() -> None:
    case = next(case for case in CASES if case.code == "SignalFilterBank")
    rising, falling, bins, places, widths = case.constants
    wrong = case._replace(constants=[rising, falling, bins + np.int16(7), places, widths])
    with pytest.raises(UnsupportedOp, match="filter 4 reaches beyond 30 bins"):
        network(beside([wrong]), Options())


@needs_compiler
def test_a_front_end_is_proven_beside_the_interpreter_and_tests_itself(tmp_path: Path) -> None:
    content = front_end(96, 6)
    (tmp_path / "front.tflite").write_bytes(content)
    made = convert_verified(tmp_path / "front.tflite", tmp_path / "ears.c")
    assert made.proof == (
        "compiled and run beside thinflow's interpreter on 3 made-up inputs, as LiteRT does not run it:"
        " every number is equal"
    )
    header = (tmp_path / "ears.h").read_text()
    assert "void ears_run(ears_state *state, const int16_t *input, int8_t *output);" in header
    assert "are not what thinflow's interpreter answers to it" in header
    # Loud and soft, so that the proof is of more than silence.
    network_ = network(read_program(content), Options())
    assert all(np.unique(sample.outputs[0]).size > 1 for sample in answers(content, network_))


@needs_compiler
def test_parts_that_litert_lacks_are_judged_by_the_interpreter(tmp_path: Path) -> None:
    program = read_program(front_end(32, 3))
    (block,) = program.subgraphs
    codes = Tensor("codes", block.outputs[0].shape, dtype("int8"))
    codes.quantization = Quantization(np.float32([0.5]), np.int64([3]))
    reals = replace(codes, name="reals", dtype=FLOAT, quantization=None)
    # Something of codes, which the interpreter does not round as LiteRT's kernels do.
    block.operators += [Operator("CAST", [*block.outputs], [reals]), Operator("QUANTIZE", [reals], [codes])]
    block.outputs[:] = [codes]
    (tmp_path / "front.tflite").write_bytes(to_bytes(program))
    made = convert_verified(tmp_path / "front.tflite", tmp_path / "ears.c")
    assert "run beside LiteRT and thinflow's interpreter on 3 made-up inputs, as LiteRT does not run all" in (
        made.proof
    )
    assert made.proof.endswith("every number is equal")
