"""What networks take in C on processors that QEMU plays, beside TFLite Micro.

    python -m benchmarks c [--cpu NAME ...] [--model NAME ...] [--samples 20] [--level=-O3]

The networks are those of MLPerf Tiny, from ../shared/zoo. Answers are compared with LiteRT's reference
kernels, on samples of random bytes. The figures of TFLite Micro (90b983c2b, the same compiler, the same
counts in QEMU 7.2) are quoted, not measured again: with CMSIS-NN 4ab83cc3 on Cortex-M4 and M55, and with its
reference kernels on Cortex-M4 for the portable C that Cortex-M3 gets, which uses no instruction for signals.
Where QEMU plays Linux, the C of `--cpu generic` is counted as well, on the same processor.
"""

from __future__ import annotations

import argparse
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.c.boards import BOARDS, Run, missing, run_on
from benchmarks.c.linux import MACHINES, LinuxRun, run_on_linux
from benchmarks.ptq.cases import shared
from thinflow.lower.c.convert import network
from thinflow.lower.c.litert import kernel_sets
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.reader import read_program
from thinflow.tflite.runtime import interpreter
from thinflow.typing import Array


class Published(NamedTuple):
    """TFLite Micro: instructions, bytes of flash, of memory, of the stack."""

    instructions: int
    flash: int
    ram: int
    stack: int


MODELS = {
    "kws": "mlperf_kws_ref",
    "ad": "mlperf_ad01_int8",
    "resnet": "mlperf_resnet_quant",
    "vww": "mlperf_vww_96_int8",
    "sww": "mlperf_str_ww",
}
TFLM = {
    ("kws", "cortex-m3"): Published(43_039_440, 95_482, 23_328, 540),
    ("ad", "cortex-m3"): Published(1_952_320, 297_464, 2_532, 268),
    ("resnet", "cortex-m3"): Published(107_401_120, 144_468, 54_896, 588),
    ("vww", "cortex-m3"): Published(100_251_400, 374_848, 101_216, 540),
    ("sww", "cortex-m3"): Published(8_289_880, 113_576, 15_772, 540),
    ("kws", "cortex-m4"): Published(7_698_400, 138_370, 23_376, 1_120),
    ("ad", "cortex-m4"): Published(582_960, 309_016, 2_852, 624),
    ("resnet", "cortex-m4"): Published(29_865_320, 177_772, 55_552, 1_120),
    ("vww", "cortex-m4"): Published(24_101_960, 417_736, 101_264, 1_120),
    ("sww", "cortex-m4"): Published(2_227_600, 155_856, 17_116, 900),
    ("kws", "cortex-m55"): Published(1_814_250, 126_774, 27_900, 1_212),
    ("ad", "cortex-m55"): Published(150_000, 301_604, 9_540, 772),
    ("resnet", "cortex-m55"): Published(4_913_750, 165_316, 55_580, 1_212),
    ("vww", "cortex-m55"): Published(6_558_343, 406_140, 101_324, 1_212),
    ("sww", "cortex-m55"): Published(407_968, 143_644, 20_472, 1_200),
}
BUDGETS = {
    "cortex-m3": {
        "kws": 43.04e6 / 3,
        "ad": 1.952e6 / 3,
        "resnet": 107.4e6 / 3,
        "vww": 100.2e6 / 3,
        "sww": 8.29e6 / 3,
    },
    "cortex-m4": {"kws": 3.1e6, "ad": 0.38e6, "resnet": 14e6, "vww": 8e6, "sww": 1.0e6},
    "cortex-m55": {"kws": 1.4e6, "ad": 0.15e6, "resnet": 4.5e6, "vww": 4e6, "sww": 0.4e6},
}
"""Instructions a run may take."""
_USUAL = ["cortex-m4", "cortex-m55", "cortex-m3", "cortex-a53", "cortex-a76", "riscv32imc"]
HEADERS = (
    *("model", "cpu", "instructions", "of TFLM's, or of portable C's", "budget", "verdict"),
    *("flash, of TFLM's", "memory and stack, of TFLM's", "exact"),
)


def samples(program_shape: Sequence[int | None], count: int) -> Array:
    """int8 [count, ...] inputs for a network."""
    shape = [n or 1 for n in program_shape]
    return np.random.default_rng(0).integers(-128, 128, (count, *shape)).astype(np.int8)


def references(content: bytes, feeds: Array) -> Array:
    """int8 [count, bytes] what LiteRT's reference kernels answer."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = interpreter(
            model_content=content,
            experimental_op_resolver_type=kernel_sets("litert")[0],
            num_threads=1,
        )
    engine.allocate_tensors()
    found = []
    for feed in feeds:
        engine.set_tensor(engine.get_input_details()[0]["index"], feed)
        engine.invoke()
        found.append(engine.get_tensor(engine.get_output_details()[0]["index"]).reshape(-1))
    return np.array(found)


def measured(content: bytes, cpu: str, feeds: Array, level: str, kernels: str = "") -> Run | LinuxRun:
    """A network on a processor, with its kernels or those of another one."""
    made = network(read_program(content), Options(cpu=kernels or cpu.partition(" ")[0]))
    files = Writer(made, "net").files()
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        size = made.block.outputs[0].size_bytes or 0
        flat = feeds.reshape(len(feeds), -1).view(np.uint8)
        if cpu in MACHINES:
            return run_on_linux(MACHINES[cpu], files, "net", flat, size, Path(folder), level=level)
        return run_on(BOARDS[cpu], files, "net", flat, size, Path(folder), level=level)


def row(model: str, cpu: str, content: bytes, count: int, level: str) -> tuple[str, ...]:
    """A line of the table."""
    feeds = samples(read_program(content).subgraphs[0].inputs[0].shape or (), count)
    run, wanted = measured(content, cpu, feeds, level), references(content, feeds)
    flash = memory = ""
    wrong = int((run.answers.view(np.int8) != wanted).any(1).sum())
    budget, published = BUDGETS.get(cpu, {}).get(model), TFLM.get((model, cpu))
    beside = published.instructions if published else 0
    if isinstance(run, Run):
        ram = run.ram_bytes + run.stack_bytes
        flash, memory = f"{run.flash_bytes:,}", f"{ram:,}"
        if published:
            flash += f", {run.flash_bytes / published.flash:.2f}x"
            memory += f", {ram / (published.ram + published.stack):.2f}x"
    else:
        beside = measured(content, cpu, feeds[:1], level, "generic").instructions
    return (
        model,
        cpu,
        f"{run.instructions:,}",
        f"{run.instructions / beside:.2f}x" if beside else "",
        f"{budget:,.0f}" if budget else "",
        "" if not budget else "pass" if run.instructions <= budget else "MISS",
        flash,
        memory,
        f"{count} of {count}" if not wrong else f"{wrong} of {count} DIFFER",
    )


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks c", description=__doc__.partition("\n")[0])
    parser.add_argument("--cpu", nargs="*", choices=[*BOARDS, *MACHINES], default=_USUAL)
    parser.add_argument("--model", nargs="*", choices=MODELS, default=list(MODELS))
    parser.add_argument("--samples", type=int, default=20, metavar="N", help="inputs of each (default 20)")
    parser.add_argument("--level", default="-O2", metavar="-O2", help="of optimisation")
    args = parser.parse_args(argv)
    folder = shared() / "zoo" / "tflite"
    if not folder.is_dir():
        print(f"skipped: {folder} not found")
        return 0
    print("| " + " | ".join(HEADERS) + " |\n|" + "---|" * len(HEADERS))
    for cpu in args.cpu:
        if why := MACHINES[cpu].missing() if cpu in MACHINES else missing():
            print(f"skipped {cpu}: {why}")
            continue
        for model in args.model:
            content = (folder / f"{MODELS[model]}.tflite").read_bytes()
            print("| " + " | ".join(row(model, cpu, content, args.samples, args.level)) + " |", flush=True)
    return 0
