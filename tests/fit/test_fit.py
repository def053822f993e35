"""What a network takes on a microcontroller."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import thinflow
from tests import networks
from tests.lower.c.c_networks import Layers, mixed
from thinflow.errors import ParameterError
from thinflow.fit.chips import chip_of, chips
from thinflow.fit.cross import _ran, compiled, compiler_of
from thinflow.fit.footprint import footprint
from thinflow.fit.instructions import KERNELS_OF, Costs, estimated
from thinflow.fit.judge import judge, place_of
from thinflow.fit.latency import clock_mhz, latency, pace_of
from thinflow.fit.micro import _PER_OPERATOR, micro_fit
from thinflow.fit.report import Fit
from thinflow.fit.work import QUANTITIES, Work, work_of
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.layer import State
from thinflow.lower.c.options import Options
from thinflow.lower.c.processors import PROCESSORS
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Operator, Program
from thinflow.tflite.reader import read_program

needs_arm = pytest.mark.skipif(compiler_of("cortex-m4") is None, reason="no arm-none-eabi-gcc")


def make(options: Options, kind: str = "int8") -> Network:
    return network(read_program(mixed(kind)), options)


def judged(**given: Any) -> Fit:
    return judge(make, place_of(**given), model="net.tflite", compile=False)


def test_memory_and_weights_are_those_of_the_c() -> None:
    made = make(Options(cpu="cortex-m4"))
    it = footprint(made, compile=False)
    ports = made.block.inputs[0].size_bytes, made.block.outputs[0].size_bytes
    assert it.arena_bytes == made.plan.arena_bytes
    assert it.ram_bytes == made.plan.arena_bytes + sum(n or 0 for n in ports)
    assert it.weights_bytes == made.weights_bytes < it.flash_bytes
    assert it.macs == made.macs
    assert max(layer.ram_bytes for layer in it.layers) <= it.ram_bytes
    assert it.peak in it.layers


@needs_arm
@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m4", "cortex-m55"])
def test_estimated_flash_is_close_to_the_compilers(cpu: str) -> None:
    made = make(Options(cpu=cpu))
    exact, guess = footprint(made), footprint(made, compile=False)
    assert exact.is_compiled
    assert not guess.is_compiled
    code = exact.flash_bytes - exact.weights_bytes
    assert 0.5 * code < guess.flash_bytes - guess.weights_bytes < 1.6 * code
    assert 50 < exact.stack_bytes < 2000


@pytest.mark.parametrize("cpu", ["cortex-m4"])
@needs_arm
def test_weights_of_other_values_take_the_same(cpu: str) -> None:
    """Numbers of large networks take a minute to write, and a compiler minutes to read."""
    writer = Writer(make(Options(cpu=cpu)), "network")
    assert compiled(writer.files(values=False), "network", cpu) == compiled(writer.files(), "network", cpu)


def test_files_without_values_differ_in_the_weights_alone() -> None:
    writer = Writer(make(Options()), "network")
    whole, without = writer.files(), writer.files(values=False)
    assert [name for name in whole if whole[name] != without[name]] == ["network_weights.c"]
    arrays = re.findall(r"^const .*\[\d+\]", whole["network_weights.c"], re.MULTILINE)
    assert arrays
    assert re.findall(r"^const .*\[\d+\]", without["network_weights.c"], re.MULTILINE) == arrays


def test_a_network_is_made_once_for_the_same_processor(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[Options] = []

    def counted(program: Program, options: Options) -> Network:
        asked.append(options)
        return network(program, options)

    monkeypatch.setattr(import_module("thinflow.optimize.fit_job"), "network", counted)
    (tmp_path / "m.tflite").write_bytes(mixed("int8"))
    thinflow.fit(tmp_path / "m.tflite", cpu="cortex-m4", compile=False)
    assert len(asked) - 1 == len(set(asked[1:]))


@needs_arm
def test_what_no_compiler_takes_is_no_figure() -> None:
    files = Writer(make(Options()), "network").files()
    assert compiled({**files, "network.c": "no C"}, "network", "cortex-m4") is None
    assert compiled(files, "network", "x86-64") is None


def test_more_work_takes_more_instructions() -> None:
    small, large = Layers(1, 8, 8, 4), Layers(1, 16, 16, 4)
    counts = []
    for net in (small, large):
        net.conv(8)
        made = network(read_program(net.content()), Options(cpu="cortex-m4"))
        (layer,) = made.layers
        work = work_of(layer)
        assert dict(zip(QUANTITIES, work.quantities, strict=True))["macs"] == layer.macs
        counts.append(estimated(work, "cortex-m4").instructions)
    assert 3 < counts[1] / counts[0] < 5


def test_unknown_kernels_go_by_their_kind_and_are_told() -> None:
    known = work_of(make(Options(cpu="cortex-m4")).layers[0])
    other = replace(known, kernels="a kernel of tomorrow")
    assert estimated(known, "cortex-m4").is_counted
    assert not estimated(other, "cortex-m4").is_counted
    assert estimated(other, "cortex-m4").instructions > 0
    never = Work("tomorrow", "NEVER int3", tuple(1.0 for _ in QUANTITIES))
    assert estimated(never, "cortex-m4").instructions > 0


def test_every_processor_with_counts_has_a_pace() -> None:
    assert KERNELS_OF.keys() <= PROCESSORS.keys()
    for cpu in KERNELS_OF:
        costs, pace = Costs.of(cpu), pace_of(cpu)
        assert costs is not None
        assert pace is not None
        assert pace.cycles == tuple(sorted(pace.cycles))
    assert Costs.of("x86-64") is None


def test_time_of_a_run() -> None:
    found = latency(1_200_000, 0.1, "cortex-m4", 120)
    assert found is not None
    assert found.low_ms < found.ms < found.high_ms
    # 1.6 cycles each: what an STM32L4R5 took of MLPerf's networks.
    assert found.ms == pytest.approx(16)
    assert latency(1e6, 0.1, "riscv32imc", 160) is None


@pytest.mark.parametrize(
    ("given", "mhz"), [("120MHz", 120), (64, 64), ("1.2 GHz", 1200), ("32768hz", 0.032768)]
)
def test_clocks(given: str | int, mhz: float) -> None:
    assert clock_mhz(given) == pytest.approx(mhz)


@pytest.mark.parametrize("given", ["fast", "-3MHz", "0", "120 m", "1e9GHz"])
def test_no_clocks(given: str) -> None:
    with pytest.raises(ParameterError, match="is no clock"):
        clock_mhz(given)


def test_the_table_of_chips() -> None:
    found = chips()
    assert len({chip.name for chip in found}) == len(found) > 40
    for chip in found:
        assert chip.cpu in PROCESSORS, chip.name
        assert chip.source.startswith("https://"), chip.name
        assert 0 < chip.ram_bytes < 2**25
        assert 0 < chip.clock_mhz <= 1000
    assert chip_of("nrf52840").ram_bytes == 256 * 1024
    with pytest.raises(ParameterError, match="no chip 'nRF52841'") as error:
        chip_of("nRF52841")
    assert "nRF52840" in error.value.hint


def test_a_place_is_what_is_given_and_else_the_chips() -> None:
    place = place_of(chip="STM32L4R5ZI", ram_bytes=1000)
    assert (place.cpu, place.clock_mhz, place.ram_bytes) == ("cortex-m4", 120, 1000)
    assert place.flash_bytes == 2048 * 1024
    assert place_of().cpu == "cortex-m4"
    with pytest.raises(ParameterError, match="has a cortex-m4, not a cortex-m7"):
        place_of("cortex-m7", chip="STM32L4R5ZI")
    with pytest.raises(ParameterError, match="no processor 'cortex-m99'"):
        place_of("cortex-m99")


def test_limits_are_judged() -> None:
    free = judged()
    assert free.fits
    assert free.verdict.startswith(f"fits {len(free.holding)} of {len(free.chips)} chips; cortex-m4: ")
    roomy = judged(ram_bytes=free.ram_bytes, flash_bytes=free.flash_bytes)
    assert roomy.fits
    tight = judged(ram_bytes=500, flash_bytes=free.flash_bytes - 1)
    assert not tight.fits
    assert [miss.split()[0] for miss in tight.misses] == ["flash", "RAM"]
    tiny = judged(flash_bytes=100)
    assert tiny.misses[0].startswith("weights alone ")
    assert tiny.verdict.startswith("does not fit cortex-m4: weights alone ")


def test_chips_hold_what_fits() -> None:
    net = Layers(1, 40, 40, 8)
    net.conv(48, 1)
    net.conv(4, 1)
    large = judge(lambda o: network(read_program(net.content()), o), place_of(), compile=False)
    for one in large.chips:
        assert one.misses == ["RAM"] * (one.ram_bytes > one.chip.ram_bytes)
    assert 0 < len(large.holding) < len(large.chips)
    assert next(c for c in large.chips if c.chip.cpu == "riscv32imc").latency is None


def test_text_fits_a_terminal_and_begins_with_the_verdict() -> None:
    found = judged(chip="STM32L053R8")
    lines = found.lines(everything=True)
    assert lines[0].startswith("net.tflite: ")
    assert max(map(len, lines)) <= 80
    assert sum(line.split()[:1] == [chip.name.split()[0]] for line in lines for chip in chips()) >= len(
        chips()
    )
    assert len(repr(found)) < 600
    assert "<b>net.tflite" in found._repr_html_()
    assert found.data()["fits"] is found.fits


@pytest.mark.parametrize("kind", ["int8", "float"])
def test_micro_takes_more(kind: str) -> None:
    content = mixed(kind)
    plain = network(read_program(content), Options(rounding="xnnpack"))
    macs = {layer.operator: layer.macs for layer in plain.layers}
    other = micro_fit(Program([plain.block]), len(content), macs, "cortex-m4")
    own = footprint(make(Options(cpu="cortex-m4"), kind), compile=False)
    assert other.flash_bytes > own.flash_bytes
    assert other.ram_bytes > own.ram_bytes
    assert (other.instructions is None) == (kind == "float")
    assert "CONCATENATION" in other.unknown


def test_a_model_of_floats_is_offered_eight_bits() -> None:
    graph = thinflow.load(_digits())
    found = thinflow.fit(graph, chip="STM32L053R8", compile=False)
    assert not found.fits
    assert found.kind == "float"
    remedy = found.remedies[0]
    assert remedy.what == "int8"
    assert remedy.flash_bytes is not None
    assert remedy.flash_bytes < 0.4 * found.flash_bytes
    assert (remedy.ram_bytes or 0) < found.ram_bytes
    assert max(map(len, found.lines())) <= 80


def test_what_is_offered_is_what_it_takes_once_it_is_followed(tmp_path: Path) -> None:
    """Eight bits go a few rows at a time where floats do, and other pictures have other sizes within."""
    steps = (("conv", 0, 3, 0), ("conv", 0, 3, 0), ("conv", 0, 3, 1), ("mean", 0, 0, 0))
    graph = networks.Network(1, (24, 24, 2), 0, steps).graph()
    found = thinflow.fit(graph, cpu="cortex-m4", ram="5200", compile=False)
    offered = {remedy.what.split()[0]: remedy.ram_bytes for remedy in found.remedies}
    recipe = thinflow.Recipe(input_type="int8", output_type="int8")
    thinflow.quantize(graph, effort="none", samples=2, recipe=recipe).save(tmp_path / "int8.tflite")
    in_bytes = thinflow.fit(tmp_path / "int8.tflite", cpu="cortex-m4", ram="5200", compile=False)
    assert in_bytes.fits
    smaller = thinflow.fit(graph, cpu="cortex-m4", shapes={"x": (1, 16, 16, 2)}, compile=False)
    assert offered == {"int8": in_bytes.ram_bytes, "pictures": smaller.ram_bytes}
    assert smaller.ram_bytes < found.ram_bytes


def _digits() -> thinflow.Graph:
    from thinflow import zoo

    return zoo.build("digits")


# --- in less memory ---------------------------------------------------------------------------------------


def tall(options: Options) -> Network:
    """A network whose first picture is most of what it takes."""
    net = Layers(1, 24, 24, 2)
    net.conv(16, fused_activation_function="RELU")
    net.depthwise(step=2)
    net.conv(16, window=1)
    net.pool("AVERAGE_POOL_2D", 12)
    net.reshaped(1, 16)
    net.dense(4)
    return network(read_program(net.content()), options)


def test_what_a_killed_compiler_leaves_goes_with_its_folder(tmp_path: Path) -> None:
    assert _ran(["sh", "-c", 'test "$TMPDIR" = "$PWD"'], str(tmp_path))
    assert not _ran(["sh", "-c", "false"], str(tmp_path))


def test_layers_run_a_few_rows_at_a_time_where_they_fit_only_so() -> None:
    whole = judge(tall, place_of(cpu="cortex-m4"), compile=False)
    limit = whole.ram_bytes * 2 // 3
    found = judge(tall, place_of(cpu="cortex-m4", ram_bytes=limit), compile=False)
    assert found.fits
    assert found.whole == whole.footprint
    assert found.ram_bytes <= limit < whole.ram_bytes
    assert found.verdict.startswith("fits cortex-m4 with --ram: ")
    # What replaces what stands beside it.
    instead = whole.ram_bytes / 1000
    assert f"kB of RAM instead of {instead:.1f} kB, " in found.verdict
    assert "% more instructions" in found.verdict
    assert found.data()["in_bands"]
    assert found.data()["whole_ram_bytes"] == whole.ram_bytes
    # The same layers, each once, with the same products.
    told = [(layer.name, layer.operator, layer.shape, layer.macs) for layer in found.footprint.layers]
    assert told == [(layer.name, layer.operator, layer.shape, layer.macs) for layer in whole.footprint.layers]
    assert whole.instructions is not None
    assert found.instructions is not None
    assert whole.instructions < found.instructions < 1.5 * whole.instructions


def test_what_fits_runs_whole_and_what_fits_in_no_way_is_told_the_least() -> None:
    enough = judge(tall, place_of(cpu="cortex-m4", ram_bytes=1 << 20), compile=False)
    assert enough.whole is None
    assert "--ram" not in enough.verdict
    little = judge(tall, place_of(cpu="cortex-m4", ram_bytes=1500), compile=False)
    assert not little.fits
    assert little.whole is None
    (note,) = little.notes
    assert "1,500 bytes of memory are too few for cortex-m4: the least is" in note


def test_what_writes_to_a_variable_costs_what_it_copies() -> None:
    net = Layers(1, 64)
    before = micro_fit(Program([net.block]), 1000, {}, "cortex-m4").instructions
    net.block.operators.append(Operator("ASSIGN_VARIABLE", [net.last], [], {}))
    after = micro_fit(Program([net.block]), 1000, {}, "cortex-m4").instructions
    assert before == 0
    assert after is not None
    assert after > 64


def test_variables_are_memory_of_tflite_micro_too() -> None:
    net = Layers(1, 64)
    before = micro_fit(Program([net.block]), 1000, {}, "cortex-m4").ram_bytes
    state = State("v", "int8_t", 100)
    for code in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
        net.block.operators.append(Operator(code, [net.last], [], {"state": state}))
    per_operator = 2 * _PER_OPERATOR
    assert micro_fit(Program([net.block]), 1000, {}, "cortex-m4").ram_bytes == before + 112 + per_operator
