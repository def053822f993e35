"""Networks answer alike on every processor: on boards, and as 64-bit and 32-bit Arm, which QEMU plays."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from benchmarks.c.boards import BOARDS, missing, run_on
from tests.lower.c.c_answers import STRICT, litert, made_up
from tests.lower.c.c_networks import mixed
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program
from thinflow.typing import Array

_RUNS = 3
MACHINES = {
    "cortex-a53": ("aarch64-linux-gnu-gcc", "qemu-aarch64", ()),
    "cortex-a72": ("aarch64-linux-gnu-gcc", "qemu-aarch64", ()),
    "generic": ("arm-linux-gnueabihf-gcc", "qemu-arm", ("-march=armv7-a", "-mfpu=neon-vfpv4")),
}
"""A processor, the compiler for it, what runs it, and flags."""
MAIN = """#include <stdio.h>
#include "net.h"

int main(void)
{
    static IN in[NET_INPUT_SIZE];
    static OUT out[NET_OUTPUT_SIZE];
    while (fread(in, sizeof in, 1, stdin) == 1) {
        net_run(in, out);
        fwrite(out, sizeof out, 1, stdout);
    }
    return 0;
}
"""


def fed_and_wanted(content: bytes) -> tuple[Array, Array]:
    """Inputs, and what LiteRT's reference kernels answer to them."""
    block, rng = read_program(content).subgraphs[0], np.random.default_rng(3)
    engine, wanted = litert(content, "litert"), []
    feeds = np.array([made_up(block.inputs[0], rng) for _ in range(_RUNS)])
    for feed in feeds:
        engine.set_tensor(engine.get_input_details()[0]["index"], feed)
        engine.invoke()
        wanted.append(engine.get_tensor(engine.get_output_details()[0]["index"]).copy())
    return feeds, np.array(wanted)


def check(got: Array, wanted: Array) -> None:
    """Integers are equal, reals within 1e-5 of the largest."""
    if wanted.dtype.kind != "f":
        np.testing.assert_array_equal(got, wanted)
    assert np.abs(got.astype(float) - wanted).max() <= 1e-5 * np.abs(wanted.astype(float)).max()


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize("kind", ["int8", "float"])
@pytest.mark.parametrize("cpu", sorted(BOARDS))
def test_on_boards(cpu: str, kind: str, tmp_path: Path) -> None:
    if cpu == "cortex-m0" and kind == "float":
        pytest.skip("it has no floats; what stands for them takes a minute in QEMU")
    content = mixed(kind)
    feeds, wanted = fed_and_wanted(content)
    files = Writer(network(read_program(content), Options(cpu=cpu)), "net").files()
    raw = feeds.reshape(_RUNS, -1).view(np.uint8)
    run = run_on(BOARDS[cpu], files, "net", raw, wanted[0].nbytes, tmp_path)
    check(run.answers.view(wanted.dtype).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("kind", ["int8", "float"])
@pytest.mark.parametrize("cpu", MACHINES)
def test_on_larger_processors(cpu: str, kind: str, tmp_path: Path) -> None:
    compiler, player, flags = MACHINES[cpu]
    absent = [tool for tool in (compiler, player) if shutil.which(tool) is None]
    if absent:
        pytest.skip(f"{' and '.join(absent)} not found")
    content = mixed(kind)
    feeds, wanted = fed_and_wanted(content)
    for name, text in Writer(network(read_program(content), Options(cpu=cpu)), "net").files().items():
        (tmp_path / name).write_text(text)
    (tmp_path / "main.c").write_text(MAIN)
    c_type = "float" if kind == "float" else "int8_t"
    built = [compiler, "-std=c99", "-O2", "-static", "-ffp-contract=off", *flags, *STRICT]
    built += [f"-DIN={c_type}", f"-DOUT={c_type}", "main.c", "net.c", "net_weights.c", "-lm", "-o", "t"]
    subprocess.run(built, cwd=tmp_path, check=True)
    done = subprocess.run(
        [player, "./t"], cwd=tmp_path, input=feeds.tobytes(), capture_output=True, check=True
    )
    check(np.frombuffer(done.stdout, wanted.dtype).reshape(wanted.shape), wanted)
