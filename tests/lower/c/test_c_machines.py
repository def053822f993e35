"""Networks answer alike on every processor: on boards, and as 64-bit and 32-bit Arm, which QEMU plays."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.c.boards import BOARDS, missing, run_on
from benchmarks.c.elsewhere import watched
from benchmarks.c.linux import MACHINES, Machine, run_on_linux
from tests.lower.c.c_answers import RUNS, STRICT, fed_and_wanted, made_up
from tests.lower.c.c_networks import Layers, mixed
from tests.lower.c.many import Many, ints, number
from tests.night import some
from thinflow.engines._c_processor import processors_here
from thinflow.ir.types import dtype
from thinflow.lower.c.convert import network
from thinflow.lower.c.options import Options
from thinflow.lower.c.processors import PROCESSORS
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Operator, Tensor
from thinflow.tflite.reader import read_program
from thinflow.typing import Array

_SANITIZED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_VERSION_7 = ("-march=armv7-a", "-mfpu=neon-vfpv4")
LARGER = {
    "cortex-a53": MACHINES["cortex-a53"],
    "cortex-a76": MACHINES["cortex-a76"],
    "riscv32imc": MACHINES["riscv32imc"],
    "generic": replace(MACHINES["cortex-a53 in 32 bits"], flags=_VERSION_7),
}


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
    raw = feeds.reshape(RUNS, -1).view(np.uint8)
    run = run_on(BOARDS[cpu], files, "net", raw, wanted[0].nbytes, tmp_path)
    check(run.answers.view(wanted.dtype).reshape(wanted.shape), wanted)


@pytest.mark.parametrize("kind", ["int8", "float"])
@pytest.mark.parametrize("cpu", LARGER)
def test_on_larger_processors(cpu: str, kind: str, tmp_path: Path) -> None:
    if why := LARGER[cpu].missing():
        pytest.skip(why)
    if cpu == "riscv32imc" and kind == "float":
        pytest.skip("it has no floats; what stands for them is not of this project")
    content = mixed(kind)
    feeds, wanted = fed_and_wanted(content)
    files = Writer(network(read_program(content), Options(cpu=cpu)), "net").files()
    raw, size = feeds.reshape(RUNS, -1).view(np.uint8), wanted[0].nbytes
    run = run_on_linux(LARGER[cpu], files, "net", raw, size, tmp_path, flags=STRICT, is_counted=False)
    check(run.answers.view(wanted.dtype).reshape(wanted.shape), wanted)


CLANG = {
    "x86-64-v3": ("--target=x86_64-linux-gnu", "-mavx2", "-mfma", "-isystem", "/usr/include"),
    "x86-64-v4": (
        "--target=x86_64-linux-gnu",
        "-march=x86-64-v4",
        "-mavx512vnni",
        "-isystem",
        "/usr/include",
    ),
    "cortex-a53": ("--target=aarch64-linux-gnu", "-isystem", "/usr/aarch64-linux-gnu/include"),
    "cortex-a76": (
        "--target=aarch64-linux-gnu",
        "-march=armv8.2-a+dotprod",
        "-isystem",
        "/usr/aarch64-linux-gnu/include",
    ),
    "cortex-m3": ("--target=thumbv7m-none-eabi", "-isystem", "/usr/include/newlib"),
    "cortex-m4": (
        "--target=thumbv7em-none-eabi",
        "-mcpu=cortex-m4",
        "-mfloat-abi=softfp",
        "-isystem",
        "/usr/include/newlib",
    ),
    "cortex-m55": (
        "--target=thumbv8.1m.main-none-eabi",
        "-mcpu=cortex-m55",
        "-mfloat-abi=hard",
        "-isystem",
        "/usr/include/newlib",
    ),
    "riscv32imc": (
        "--target=riscv32",
        "-march=rv32imc",
        "-isystem",
        "/usr/lib/picolibc/riscv64-unknown-elf/include",
    ),
}
"""What Clang is told for a processor, and where the headers of its C library are."""


@pytest.mark.parametrize(("kind", "cpu"), some([(k, c) for c in CLANG for k in ("int8", "float", "wide")], 2))
def test_clang_takes_it_without_a_word(cpu: str, kind: str, tmp_path: Path) -> None:
    *flags, headers = CLANG[cpu]
    if shutil.which("clang") is None or not Path(headers).is_dir():
        pytest.skip(f"clang or {headers} not found")
    # One layer alone with the largest block of sums; nothing else asks for what it brings along.
    net = Layers(1, 6, 6, 16)
    net.conv(32, 3)
    content = net.content() if kind == "wide" else mixed(kind)
    files = Writer(network(read_program(content), Options(cpu=cpu)), "net").files()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    command = ["clang", *flags, headers, "-std=c99", "-O1", *STRICT, "-c", "net.c", "-o", "net.o"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("cpu", ["cortex-m3", "riscv32imc", "generic"])
def test_sanitizers_find_nothing(cpu: str, tmp_path: Path) -> None:
    run_watched(mixed("int8"), cpu, tmp_path)


@pytest.mark.parametrize("kind", ["int8", "float"])
@pytest.mark.parametrize("cpu", ["x86-64-v3", "x86-64-v4"])
def test_sanitizers_find_nothing_in_wide_registers(cpu: str, kind: str, tmp_path: Path) -> None:
    if cpu not in processors_here():
        pytest.skip(f"this machine is no {cpu}")
    # Channels that fill no register, and filters of which some registers of a block have none.
    net = Layers(1, 5, 6, 8, kind=kind)
    net.depthwise(1, 3)
    net.conv(100, 1)
    net.depthwise(1, 3)
    net.conv(7, 3)
    run_watched(net.content(), cpu, tmp_path)


def run_watched(content: bytes, cpu: str, tmp_path: Path) -> None:
    """Check the answers of a network whose use of memory and numbers is watched."""
    machine = Machine("gcc", "", (*_SANITIZED, *PROCESSORS[cpu].flags), "")
    if why := machine.missing():
        pytest.skip(why)
    feeds, wanted = fed_and_wanted(content)
    files = Writer(network(read_program(content), Options(cpu=cpu)), "net").files()
    raw, size = feeds.reshape(RUNS, -1).view(np.uint8), wanted[0].nbytes
    run = run_on_linux(machine, files, "net", raw, size, tmp_path, level="-O1", is_counted=False)
    check(run.answers.view(wanted.dtype).reshape(wanted.shape), wanted)


def rare() -> bytes:
    """Operators whose kernels go by places, counts and keys that are computed, beside each other."""
    net = Many(3, 8, 4)
    few = net.add("FLOOR_MOD", [net.value("whole", (24,), "int32"), np.int32(7)], 24, kind="int32")
    net.block.operators.append(Operator("WHERE", [few], [Tensor("places", (None, 1), dtype("int64"))]))
    found = [Tensor("once", (None,), dtype("int32")), Tensor("at", (24,), dtype("int32"))]
    net.block.operators.append(Operator("UNIQUE", [few], found, {"idx_out_type": dtype("int32")}))
    made = [Tensor("held", (24, 2), dtype("float")), Tensor("hits", (24,), dtype("uint8"))]
    table = net.constant("keys", ints(1, 4, 6)), net.constant("values", np.eye(3, 2, dtype=np.float32))
    net.block.operators.append(Operator("HASHTABLE_LOOKUP", [few, *table], made))
    net.made += [net.block.operators[1].outputs[0], *found, *made]
    window = [np.int64(n) for n in ((1, 3, 2), (1, 2, 1), (1, 1, 2))]
    net.add("REDUCE_WINDOW", [net.x, np.float32(0), *window], 3, 3, 2, kind="float", reduce_function="ADD")
    flat = net.add("RESHAPE", [net.x, ints(3, 32)], 3, 32)
    net.add("MULTINOMIAL", [flat, number(5)], 3, 5, kind="int32", seed=3, seed2=4)
    picture = net.value("picture", (1, 6, 7, 3), "uint8")
    real = net.add("CAST", [picture], 1, 6, 7, 3, kind="float")
    small = net.add("RESIZE_BILINEAR", [real, ints(4, 9)], 1, 4, 9, 3, half_pixel_centers=True)
    net.add("SUB", [small, np.float32([1, 2, 3])], 1, 4, 9, 3)
    net.made = [t for t in net.made if t not in (real, small)]
    filters = net.tensor("filters", (5, 2, 2, 3))
    net.block.inputs.append(filters)
    options = {"padding": "SAME", "stride_h": 1, "stride_w": 1}
    net.add("CONV_2D", [small, filters, None], 1, 4, 9, 5, **options)
    return net.content()


@pytest.mark.parametrize("content", [mixed("int8"), mixed("float"), rare()], ids=["int8", "float", "rare"])
@pytest.mark.parametrize("command", ["gcc", "clang"])
def test_both_compilers_sanitizers_find_nothing(command: str, content: bytes) -> None:
    rng, made = np.random.default_rng(0), network(read_program(content), Options())
    feeds = [[made_up(t, rng) for t in made.block.inputs] for _ in range(2)]
    found = watched(made, feeds, command)
    if found.startswith(command):
        pytest.skip(found)
    assert found.startswith("clean")
