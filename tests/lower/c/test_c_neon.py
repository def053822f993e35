"""Kernels for the vectors of Cortex-A answer as LiteRT's own do, to the last bit, played by QEMU."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from benchmarks.c.linux import MACHINES, run_on_linux
from tests.lower.c.c_answers import STRICT, litert
from tests.lower.c.c_networks import RELU, Layers, planes, pools, products, sums, windows
from tests.night import some
from thinflow.engines import _c_processor
from thinflow.lower.c.convert import network
from thinflow.lower.c.operators.neon import DOTPROD, NEON
from thinflow.lower.c.operators.neon_loops import most_windows, text
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program


def fours(net: Layers) -> None:
    """Pixels read where they lie, elements by sixteen and by four."""
    net.conv(20, 1, **RELU)
    net.conv(36, 1)
    net.conv(7, 1)


PROCESSORS = [
    ("cortex-a53", "litert"),
    ("cortex-a53", "xnnpack"),
    ("cortex-a76", "litert"),
    ("cortex-a76", "xnnpack"),
    ("cortex-a53 in 32 bits", "litert"),
    ("cortex-a76 in 32 bits", "litert"),
]

NETWORKS = [
    *((windows, (2, 11, 9, 3)), (planes, (1, 17, 16, 1)), (sums, (3, 43)), (fours, (1, 5, 7, 12))),
    *((pools, (2, 13, 11, 43)), (products, (2, 3, 5, 43))),
]


@pytest.mark.parametrize(
    ("machine", "rounding", "build", "shape"),
    some([(*p, *n) for p in PROCESSORS for n in NETWORKS], 5),
    ids=lambda x: getattr(x, "__name__", None),
)
def test_layers(
    build: Callable[[Layers], None], shape: tuple[int, ...], machine: str, rounding: str, tmp_path: Path
) -> None:
    if why := MACHINES[machine].missing():
        pytest.skip(why)
    net = Layers(*shape, seed=3)
    build(net)
    made = network(read_program(net.content()), Options(rounding, machine.partition(" ")[0]))
    kernels = [call.kernel for layer in made.layers for call in layer.calls]
    assert all(kernel.endswith(("_lanes", "_neon")) for kernel in kernels)
    feeds = np.random.default_rng(1).integers(-128, 128, (4, *shape)).astype(np.int8)
    engine, wanted = litert(net.content(), rounding), []
    for feed in feeds:
        engine.set_tensor(engine.get_input_details()[0]["index"], feed)
        engine.invoke()
        wanted.append(engine.get_tensor(engine.get_output_details()[0]["index"]).reshape(-1))
    raw, size = feeds.reshape(len(feeds), -1).view(np.uint8), made.block.outputs[0].size_bytes or 0
    files = Writer(made, "net").files()
    run = run_on_linux(MACHINES[machine], files, "net", raw, size, tmp_path, flags=STRICT, is_counted=False)
    np.testing.assert_array_equal(run.answers.view(np.int8), np.array(wanted))


@pytest.mark.parametrize("isa", [NEON, DOTPROD], ids=lambda isa: isa.taps)
def test_no_tile_takes_more_registers_than_there_are(isa: object) -> None:
    assert isa in (NEON, DOTPROD)
    by_pairs = isa is NEON
    for blocks in range(1, 9):
        windows = most_windows(blocks, by_pairs=by_pairs)
        loop = text(blocks, windows, by_pairs=by_pairs)
        written = {int(n) for n in re.findall(r"(?:ldr [qs]|ldp q\d+, q|sdot v|smull v|sadalp v)(\d+)", loop)}
        assert max(written) < (31 if by_pairs else 32)
        # A sum that is begun is added to, and stored.
        sums = set(range(2 * blocks * windows))
        added = {int(n) for n in re.findall(r"(?:sdot|sadalp) v(\d+)", loop)}
        stored = {int(n) for pair in re.findall(r"stp q(\d+), q(\d+)", loop) for n in pair}
        assert sums == added == stored


def test_pairs_of_weights_that_leave_16_bits_take_portable_c() -> None:
    net = Layers(1, 3, 3, 4)
    net.conv(2, 1)
    program = read_program(net.content())
    tensor = program.subgraphs[0].operators[0].inputs[1]
    assert tensor is not None
    assert _kernels(net.content(), None) == ["rows_lanes"]
    assert _kernels(net.content(), -128) == ["conv_2d"]


def _kernels(content: bytes, weight: int | None) -> list[str]:
    """Those of a network whose weights are all a number."""
    program = read_program(content)
    tensor = program.subgraphs[0].operators[0].inputs[1]
    assert tensor is not None
    if weight is not None:
        tensor.data = np.full_like(tensor.array(), weight)
    made = network(program, Options(cpu="cortex-a53"))
    return [call.kernel for layer in made.layers for call in layer.calls]


@pytest.mark.parametrize(
    ("machine", "features", "wanted"),
    [
        ("aarch64", "Features\t: fp asimd evtstrm crc32 cpuid", ("cortex-a53", "generic")),
        ("aarch64", "Features\t: fp asimd crc32 asimddp", ("cortex-a76", "cortex-a53", "generic")),
        ("arm64", "", ("cortex-a53", "generic")),
        ("riscv64", "isa\t: rv64gc", ("generic",)),
        ("x86_64", "flags\t\t: sse2 avx2 fma", ("x86-64-v3", "generic")),
    ],
)
def test_the_processor_of_this_machine(
    machine: str, features: str, wanted: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{features}\n")
    monkeypatch.setattr(_c_processor, "_CPUINFO", tmp_path / "cpuinfo")
    monkeypatch.setattr(_c_processor.platform, "machine", lambda: machine)
    assert _c_processor.processors_here.__wrapped__() == wanted
