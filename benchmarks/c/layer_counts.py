"""Instructions of each layer of a network, counted on a board that QEMU plays."""

from __future__ import annotations

import re
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.c.boards import BOARDS, Run, run_on
from thinflow.lower.c.convert import Network, network
from thinflow.lower.c.options import Options
from thinflow.lower.c.write import Writer
from thinflow.tflite.model import Tensor
from thinflow.tflite.reader import read_program

# The comment that a layer begins with, and its block if it has one.
_LAYER = re.compile(r"^    /\* \d+: .*? \*/$(\n    \{\n.*?^    \}$)?", re.MULTILINE | re.DOTALL)


class Counted(NamedTuple):
    """A network, the instructions of each of its layers, and the run as a whole."""

    network: Network
    layers: list[int]
    run: Run


def counted(content: bytes, cpu: str, *, level: str = "-O2") -> Counted:
    """A .tflite file's network on a processor, with a made-up input."""
    made = network(read_program(content), Options(cpu=cpu))
    files = Writer(made, "net").files()
    files["net.c"] = _marked(files["net.c"])
    feeds = [_made_up(tensor) for tensor in made.block.inputs]
    outputs = [-(-(tensor.size_bytes or 0) // 8) * 8 for tensor in made.block.outputs]
    reads = _at("in", [len(feed) for feed in feeds])
    writes = _at("out", outputs)
    flags = (*BOARDS[cpu].flags, f"-DLAYERS={len(made.layers)}")
    board = replace(BOARDS[cpu], flags=flags)
    with tempfile.TemporaryDirectory(prefix="thinflow-c-") as folder:
        inputs = np.frombuffer(b"".join(feeds), np.uint8)[None]
        given = [*reads, *writes]
        if made.state_bytes:
            # Of zeros: what a first run finds in it changes no count by much.
            declared = "} net_state;\nextern net_state net_kept;"
            files["net.h"] = files["net.h"].replace("} net_state;", declared)
            files["kept.c"] = '#include "net.h"\nnet_state net_kept;\n'
            given.insert(0, "&net_kept")
        call = f"{{name}}_run({', '.join(given)})"
        run = run_on(board, files, "net", inputs, sum(outputs), Path(folder), level=level, run=call)
    return Counted(made, run.layers, run)


def _at(where: str, sizes: list[int]) -> list[str]:
    """Arguments in C that lie one behind the other."""
    starts = [sum(sizes[:n]) for n in range(len(sizes))]
    return [f"(void *)((char *)({where}) + {start})" for start in starts]


def _made_up(tensor: Tensor) -> bytes:
    """The bytes of an input, whole words of eight."""
    rng = np.random.default_rng(0)
    if tensor.dtype.kind == "f":
        raw = rng.standard_normal([n or 1 for n in tensor.shape or ()]).astype(np.float32).tobytes()
    else:
        raw = rng.bytes(tensor.size_bytes or 0)
    return raw + bytes(-len(raw) % 8)


def _marked(source: str) -> str:
    """The text of a network that tells the end of each layer."""
    marked = _LAYER.sub(lambda m: f"{m[0]}\n    layer_done();", source)
    return marked.replace('#include "net.h"\n', '#include "net.h"\nvoid layer_done(void);\n', 1)
