"""Times of the nodes of an .onnx file in ONNX Runtime, by its own profiler."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from thinflow.bench.profile_model import Profile, Step, collect, require_fixed
from thinflow.errors import EngineUnavailable, FormatError, ParameterError
from thinflow.ir.types import TensorSpec, dtype
from thinflow.typing import Array

_SUFFIX = "_kernel_time"
_FUSED = "fused "
METHOD = "ONNX Runtime's own profiler; a fused kernel stands under the name of the last node in it"


def profile_file(
    content: bytes | str,
    samples: Sequence[Mapping[str, Array]],
    threads: int,
    runs: int,
    warmup: int,
    names: Sequence[str] = (),
) -> Profile:
    """The nodes of an .onnx file as ONNX Runtime has optimized them.

    Args:
        content: its bytes, or its path.
        samples: input name -> array, of samples that runs take in turns.
        names: nodes of the graph it was made from; a kernel gets the longest one that its own begins with.

    Raises:
        EngineUnavailable: ONNX Runtime is missing or refuses the model, or an input holds strings.
    """
    from thinflow.engines.onnxruntime import fed, open_session, session_options

    require_fixed([array for feeds in samples for array in feeds.values()])
    # Complex numbers are pairs inside.
    series = [{name: fed(x) for name, x in feeds.items()} for feeds in samples]
    if find_spec("onnxruntime") is None:
        raise EngineUnavailable("onnxruntime is missing", hint="pip install 'thinflow[onnx]'")
    with tempfile.TemporaryDirectory(prefix="thinflow-") as folder:

        def options(careful: bool) -> Any:
            made = session_options(threads, careful=careful)
            made.inter_op_num_threads = 1
            made.enable_profiling = True
            made.profile_file_prefix = str(Path(folder) / "profile")
            return made

        try:
            session = open_session(content, options)
            for turn in range(-warmup, runs):
                session.run(None, series[turn % len(series)])
            written = session.end_profiling()
        except Exception as error:  # its own exceptions have no common class that is public
            where = content if isinstance(content, str) else ""
            raise EngineUnavailable(f"ONNX Runtime refuses the model: {error}", where) from error
        events = json.loads(Path(written).read_text("utf-8"))
    # The profiler cannot be switched on later: warm-up runs are recorded, and dropped here.
    found = list(split_runs(events))[warmup:]
    known = _sources(content, names)
    kernels: dict[str, str] = {}
    steps = [[_step(e, known, kernels) for e in nodes] for nodes, _ in found]
    ops = _longest(steps[0] if steps else [])
    steps = [[(name, ops.get(name, op), micros, size) for name, op, micros, size in run] for run in steps]
    outputs = {_named(e, known): list(_outputs(e)) for e in (found[0][0] if found else [])}
    whole = [micros for _, micros in found]
    return Profile(collect(steps), "onnxruntime", threads, METHOD, kernels, whole, outputs)


def _named(event: Mapping[str, Any], known: Mapping[str, str]) -> str:
    return source_name(str(event["name"]).removesuffix(_SUFFIX), known)


def _outputs(event: Mapping[str, Any]) -> Iterator[TensorSpec]:
    """Types and shapes of a kernel's outputs, from `[{"float": [1, 10]}]`."""
    for output in event.get("args", {}).get("output_type_shape") or ():
        for element, shape in output.items():
            with suppress(ParameterError):  # a sequence or a type that TensorFlow does not have
                yield TensorSpec(dtype(element), tuple(map(int, shape)))


def _longest(steps: Iterable[Step]) -> dict[str, str]:
    """Name -> the op of its step that takes longest: a node that became several has one row."""
    found: dict[str, tuple[int, str]] = {}
    for name, op, micros, _ in steps:
        if name not in found or micros > found[name][0]:
            found[name] = micros, op
    return {name: op for name, (_, op) in found.items()}


def _sources(content: bytes | str, names: Sequence[str]) -> dict[str, str]:
    """Beginning of a name of kernels -> the name of the node of the source graph.

    Names in a file are unique, those of the source need not be: where several nodes were made from one, what
    this package writes keeps the source's name in the description. Other files are their own source.

    Args:
        content: of the file.
        names: nodes of the graph it was made from; a kernel may be called after an output that is one.
    """
    from thinflow.formats.files import map_file
    from thinflow.formats.onnx_model import parse_model

    data = memoryview(content) if isinstance(content, bytes) else map_file(content, unpack=False)
    try:
        message = parse_model(data, None).message
    except FormatError:  # ONNX Runtime has read it; its names are all that is lost
        return dict(zip(names, names, strict=True))
    is_ours = message.producer_name == "thinflow"
    nodes: dict[str, str] = {}
    outputs: dict[str, str] = {}
    for node in message.graph.node:
        own = node.name or next(iter(node.output), "")
        nodes[own] = node.doc_string if is_ours and node.doc_string else own
        outputs |= dict.fromkeys(filter(None, node.output), nodes[own])
    # Names of nodes win over names of outputs: a kernel is called after a node, and only a fused one after an
    # output.
    return outputs | dict(zip(names, names, strict=True)) | nodes


def split_runs(events: Iterable[Mapping[str, Any]]) -> Iterator[tuple[list[Mapping[str, Any]], int]]:
    """The node events of each run, and the microseconds of all of it; what lies outside runs is left out."""
    ordered = sorted((e for e in events if "ts" in e), key=lambda e: int(e["ts"]))
    marks = [e for e in ordered if e.get("name") == "model_run"]
    # A node may have further events, such as fences before and behind its kernel; one counts.
    nodes = [e for e in ordered if e.get("cat") == "Node" and str(e.get("name", "")).endswith(_SUFFIX)]
    for mark in marks:
        begin, end = int(mark["ts"]), int(mark["ts"]) + int(mark["dur"])
        yield [n for n in nodes if begin <= int(n["ts"]) < end], int(mark["dur"])


def _step(event: Mapping[str, Any], known: Mapping[str, str], kernels: dict[str, str]) -> Step:
    details = event.get("args", {})
    kernel = str(event["name"]).removesuffix(_SUFFIX)
    name = source_name(kernel, known)
    op = str(details.get("op_name", ""))
    if name != kernel:
        kernels[name] = kernel
    return name, op, int(event["dur"]), int(details.get("output_size", 0) or 0)


def source_name(kernel: str, known: Mapping[str, str]) -> str:
    """The node of the source graph that a kernel was made from; the kernel's own name where there is none.

    >>> source_name("block/conv/Relu:0_nchwc", {"block/conv": "block/conv", "block/conv/Relu": "block/relu"})
    'block/relu'
    """
    whole = kernel.removeprefix(_FUSED)
    if whole in known:
        return known[whole]
    end = len(whole)
    while end:
        end -= 1
        # Up to a mark between words: "conv1" must not claim the kernels of "conv10".
        if whole[:end] in known and not whole[end].isalnum():
            return known[whole[:end]]
    return kernel
