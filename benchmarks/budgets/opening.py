"""Opening and freezing what TensorFlow saves: large checkpoints, large models, large functions."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from benchmarks.bench import Bench
from benchmarks.lines import Line, judged
from benchmarks.processes import in_turns, run
from tests.checkpoints import write_checkpoint
from tests.tables import table_chunks
from thinflow.ir.tensor import Tensor
from thinflow.wire import protos

TITLE = "Opening checkpoints and SavedModels"
IN_QUICK = True
FLOAT, RESOURCE = 1, 20
LIST_SECONDS, OPEN_SECONDS, MEMORY = 1.0, 3.0, 1.3
VARIABLES, ROWS = 1000, 2_621_440  # 10 GB of floats
FUNCTION_NODES, READS = 50_000, 1000


def measure(bench: Bench) -> list[Line]:
    repeats = 3 if bench.quick else 7
    return [_listing(bench, repeats), _function(bench, repeats), _memory(bench, 400)]


def _timed(what: str, command: list[str], repeats: int, limit: float) -> Line:
    """The median time of a process, which must keep to a limit in seconds.

    Judged by its CPU time, which other programs hardly change: it has one thread and waits for no disk.
    """
    runs = in_turns({"it": command}, repeats)["it"]
    seconds = sorted(r.seconds for r in runs)[len(runs) // 2]
    cpu = sorted(r.cpu_seconds for r in runs)[len(runs) // 2]
    detail = f"{cpu:.2f} s ({seconds:.2f} s by the clock)"
    return judged(f"{what}, whole process, CPU time", f"≤ {limit:g} s", detail, cpu <= limit)


def _listing(bench: Bench, repeats: int) -> Line:
    prefix = sparse_checkpoint(bench.folder / "large")
    what = f"`thinflow inspect` of a checkpoint of {VARIABLES * ROWS * 4 / 1e9:.0f} GB"
    return _timed(what, [*bench.thinflow, "inspect", str(prefix), "--json"], repeats, LIST_SECONDS)


def sparse_checkpoint(prefix: Path) -> Path:
    """A checkpoint whose shard is a hole as long as its variables."""
    header = protos.message("BundleHeaderProto")()
    header.num_shards = 1
    entries = [(b"", protos.serialize(header))]
    for number in range(VARIABLES):
        entry = protos.message("BundleEntryProto")()
        entry.dtype, entry.size, entry.offset = FLOAT, ROWS * 4, number * ROWS * 4
        entry.shape.dim.add(size=ROWS)
        entries.append((f"layer{number:04}/kernel".encode(), protos.serialize(entry)))
    Path(f"{prefix}.index").write_bytes(b"".join(table_chunks(entries)))
    with Path(f"{prefix}.data-00000-of-00001").open("wb") as file:
        file.truncate(VARIABLES * ROWS * 4)
    return prefix


def _function(bench: Bench, repeats: int) -> Line:
    folder = model_of_one_function(bench.folder / "function")
    code = f"import thinflow; assert len(thinflow.load({str(folder)!r})) > {FUNCTION_NODES}"
    what = f"`thinflow.load` of a SavedModel of {FUNCTION_NODES:,} function nodes"
    return _timed(what, [sys.executable, "-c", code], repeats, OPEN_SECONDS)


def model_of_one_function(folder: Path) -> Path:
    """A SavedModel whose signature calls a long function that reads a variable again and again.

    As Keras writes it, one node waits for all the reads.
    """
    model = protos.message("SavedModel")()
    model.saved_model_schema_version = 1
    meta = model.meta_graphs.add()
    meta.meta_info_def.tags.append("serve")
    body = meta.graph_def.library.function.add()
    body.signature.name = "body"
    body.signature.input_arg.add(name="x", type=FLOAT)
    body.signature.input_arg.add(name="w", type=RESOURCE)
    body.signature.output_arg.add(name="y", type=FLOAT)
    for number in range(READS):
        _add(body.node_def, f"read{number}", "ReadVariableOp", ["w"], dtype=FLOAT)
    last = "x"
    for number in range(FUNCTION_NODES):
        _add(body.node_def, f"add{number}", "AddV2", [last, f"read{number % READS}:value:0"], T=FLOAT)
        last = f"add{number}:z:0"
    _add(body.node_def, "done", "NoOp", [f"^read{number}" for number in range(READS)])
    _add(body.node_def, "y", "Identity", [last, "^done"], T=FLOAT)
    body.ret["y"] = "y:output:0"
    _add(meta.graph_def.node, "x", "Placeholder", [], dtype=FLOAT)
    _add(meta.graph_def.node, "w", "VarHandleOp", [], dtype=FLOAT)
    call = _add(meta.graph_def.node, "call", "StatefulPartitionedCall", ["x", "w"])
    call.attr["f"].func.name = "body"
    call.attr["Tin"].list.type.extend([FLOAT, RESOURCE])
    call.attr["Tout"].list.type.append(FLOAT)
    signature = meta.signature_def["serving_default"]
    for side, name in ((signature.inputs["x"], "x:0"), (signature.outputs["y"], "call:0")):
        side.name, side.dtype = name, FLOAT
        side.tensor_shape.dim.add(size=4)
    (folder / "variables").mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_bytes(protos.serialize(model))
    write_checkpoint(folder / "variables" / "variables", {"w": Tensor.from_array(np.ones(4, np.float32))})
    return folder


def _add(nodes: object, name: str, op: str, inputs: list[str], **types: int) -> protos.Message:
    node = nodes.add(name=name, op=op, input=inputs)  # type: ignore[attr-defined]
    for key, number in types.items():
        node.attr[key].type = number
    return node  # type: ignore[no-any-return]


def _memory(bench: Bench, megabytes: int) -> Line:
    """The peak of `thinflow freeze`, beside the size of what it writes."""
    graph = protos.message("GraphDef")()
    values = {}
    last = ""
    for number in range(megabytes // 10):
        name = f"w{number}"
        _add(graph.node, name, "VariableV2", [], dtype=FLOAT)
        values[name] = Tensor.from_array(np.full(2_500_000, number, np.float32))
        if last:
            _add(graph.node, f"add{number}", "AddV2", [last, name], T=FLOAT)
        last = f"add{number}" if last else name
    source, target = bench.folder / "variables.pb", bench.folder / "frozen.pb"
    source.write_bytes(protos.serialize(graph))
    write_checkpoint(bench.folder / "weights", values)
    command = [*bench.thinflow, "freeze", str(source), "--checkpoint", str(bench.folder / "weights")]
    peak = run([*command, "--outputs", last, "-o", str(target)]).peak_bytes
    ratio = peak / target.stat().st_size
    what = f"peak memory of `thinflow freeze` beside the {megabytes} MB it writes"
    return judged(what, f"≤ {MEMORY:g}×", f"{ratio:.2f}×", ratio <= MEMORY)
