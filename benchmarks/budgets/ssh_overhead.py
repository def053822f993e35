"""What `thinflow benchmark --device ssh:…` takes on loopback, beside the same work done by hand over ssh.

By hand: the model is sent through the same ssh, one program there opens it and runs it as often, and a second
one opens it again for the memory. What thinflow takes above that is its own: starting here, finding the
device's environment and facts, the runner and its children there, the table.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator
from unittest import mock

import numpy as np

import thinflow
from benchmarks.bench import Bench
from benchmarks.lines import Line, NotThereYet, figure, judged
from benchmarks.processes import Finished, in_turns
from tests.device.models import dense
from tests.device.sshd import missing, serving
from thinflow.device.ssh_client import COMMAND

TITLE = "`thinflow benchmark --device ssh:` of a 5 MB model on loopback"
IN_QUICK = True
WHOLE_SECONDS, OWN_SECONDS = 6.0, 1.0
_WIDTH = 1118  # squared and in four bytes each: 5 MB
_RUNS = 300
_BY_HAND = """
import sys
import numpy as np
from ai_edge_litert.interpreter import Interpreter
model = Interpreter(model_path=sys.argv[1], num_threads=1)
model.allocate_tensors()
(given,) = model.get_input_details()
x = np.linspace(-1, 1, given["shape"].prod(), dtype=np.float32).reshape(given["shape"])
for _ in range(int(sys.argv[2])):
    model.set_tensor(given["index"], x)
    model.invoke()
"""


def measure(bench: Bench) -> Iterator[Line]:
    if why := missing():
        raise NotThereYet(why)
    path = bench.folder / "five_megabytes.tflite"
    thinflow.save(dense(_WIDTH), path)
    with serving(bench.folder / "sshd") as server, mock.patch.dict(os.environ, {COMMAND: server.command}):
        python = server.equip()
        ssh = f"{server.command} -p {server.port} 127.0.0.1"
        there = str(server.folder / "by_hand.tflite")
        runs = " && ".join(
            shlex.join([str(python), "-c", _BY_HAND, there, str(count)]) for count in (_RUNS + 3, 3)
        )
        sent = f"cat > {shlex.quote(there)} && {runs} && rm {shlex.quote(there)}"
        words = ["benchmark", str(path), "--device", server.address, "--runs", str(_RUNS)]
        commands = {
            "thinflow": [*bench.thinflow, *words],
            "by hand": ["/bin/sh", "-c", f"{ssh} {shlex.quote(sent)} < {shlex.quote(str(path))}"],
            "connection": ["/bin/sh", "-c", f"{ssh} true"],
            "start": [sys.executable, "-c", "import numpy"],
        }
        found = in_turns(commands, 5 if bench.quick else 15)
    whole, hand = _middle(found["thinflow"]), _middle(found["by hand"])
    yield judged(f"{TITLE}: whole", f"≤ {WHOLE_SECONDS:g} s", f"{whole:.2f} s", whole <= WHOLE_SECONDS)
    yield judged(
        f"{TITLE}: above the same by hand",
        f"≤ {OWN_SECONDS:g} s",
        f"{whole - hand:.2f} s ({whole:.2f} s : {hand:.2f} s)",
        whole - hand <= OWN_SECONDS,
    )
    yield figure("  of it, a connection alone", f"{_middle(found['connection']):.2f} s")
    yield figure("  of it, Python and numpy here", f"{_middle(found['start']):.2f} s")


def _middle(runs: list[Finished]) -> float:
    return float(np.median([run.seconds for run in runs]))
