"""TensorFlow's tools that make graphs for apps: freeze_graph and convert_graphdef_memmapped_format."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from thinflow.cli._oldflags import USAGE_EXIT, OldFlags, Setting, is_help
from thinflow.errors import ParameterError
from thinflow.errors.plain_text import one_line

if TYPE_CHECKING:
    from thinflow.load.frozen import Frozen

EXAMPLES = {
    "freeze_graph": """
  thinflow freeze_graph --input_graph=graph.pb --input_binary=true --input_checkpoint=model.ckpt-7 \
--output_graph=frozen.pb --output_node_names=y
  thinflow freeze_graph --input_meta_graph=model.ckpt-7.meta --input_checkpoint=model.ckpt-7 \
--output_graph=frozen.pb --output_node_names=y
  thinflow freeze_graph --input_saved_model_dir=export --output_graph=frozen.pb --output_node_names=y
""",
    "convert_graphdef_memmapped_format": """
  thinflow convert_graphdef_memmapped_format --in_graph=frozen.pb --out_graph=frozen.mmpb
  thinflow convert_graphdef_memmapped_format --in_graph=frozen.pb --out_graph=frozen.mmpb \
--min_conversion_tensor_size=1000
""",
}

FREEZE_GRAPH = OldFlags(
    "freeze_graph",
    {
        "input_graph": ("", "GraphDef file to read"),
        "input_saver": ("", "SaverDef file, whose restore operations tell where the values are"),
        "input_checkpoint": ("", "checkpoint to take the values from: a prefix or a file"),
        "checkpoint_version": (2, "1 or 2; ignored: the file tells"),
        "output_graph": ("", "GraphDef file to write"),
        "input_binary": (False, "ignored: the file tells whether it is binary or text"),
        "input_node_names": ("", "ignored: the graph tells; some guides give it"),
        "output_node_names": ("", "outputs, comma-separated"),
        "restore_op_name": ("save/restore_all", "ignored"),
        "filename_tensor_name": ("save/Const:0", "ignored"),
        "clear_devices": (True, "whether to drop the placement of nodes"),
        "initializer_nodes": ("", "what fills tables, and variables the checkpoint lacks; comma-separated"),
        "variable_names_whitelist": ("", "freeze only these variables, comma-separated; wildcards allowed"),
        "variable_names_denylist": ("", "do not freeze these variables, comma-separated; wildcards allowed"),
        "input_meta_graph": ("", "MetaGraphDef file to read"),
        "input_saved_model_dir": ("", "SavedModel folder to read"),
        "saved_model_tags": ("serve", "tags of the SavedModel's graph, comma-separated"),
    },
    {
        "input_meta_graph_def": "input_meta_graph",  # the parameter of the function of that name
        "variable_names_blacklist": "variable_names_denylist",
        "variable_names_allowlist": "variable_names_whitelist",
    },
    python=True,
    examples=EXAMPLES["freeze_graph"],
)
_IGNORED = ("restore_op_name", "filename_tensor_name")


def freeze_graph(argv: Sequence[str]) -> int:
    values = FREEZE_GRAPH.parse(argv)
    if values is None:
        return 0 if is_help(argv) else USAGE_EXIT
    problem = _problem(values)
    if problem:
        print(f"{problem}\n{FREEZE_GRAPH.usage()}", file=sys.stderr)
        return USAGE_EXIT
    frozen = _frozen(values)
    for line in _warnings(values, frozen):
        print(f"warning: {one_line(line)}", file=sys.stderr)
    for line in frozen.notes:
        print(f"note: {one_line(line)}", file=sys.stderr)
    target = _path(values, "output_graph")
    if target:
        import thinflow

        # Binary whatever the name says, as the original writes it.
        thinflow.save(frozen.graph, target, format="graphdef")
    print(f"Froze {len(frozen.variables)} variables.")
    print(f"{len(frozen.graph)} ops in the final graph.")
    return 0


def _path(values: Mapping[str, Setting], name: str) -> str:
    return os.path.expanduser(str(values[name]).strip())


def _meta_graph(values: Mapping[str, Setting]) -> str:
    """The file of --input_meta_graph; of a checkpoint's prefix, the one beside its values."""
    path = _path(values, "input_meta_graph")
    is_prefix = path and not os.path.exists(path) and os.path.exists(f"{path}.meta")
    return f"{path}.meta" if is_prefix else path


def _problem(values: Mapping[str, Setting]) -> str:
    """What is wrong with the flags together; "" if nothing is."""
    if values["checkpoint_version"] not in (1, 2):
        return f"the flag --checkpoint_version is 1 or 2, not {values['checkpoint_version']}"
    if not str(values["output_node_names"]).strip():
        return "the flag --output_node_names is required"
    if not any(_path(values, n) for n in ("input_graph", "input_meta_graph", "input_saved_model_dir")):
        return "one of --input_graph, --input_meta_graph and --input_saved_model_dir is required"
    if not _path(values, "input_saved_model_dir") and not _path(values, "input_checkpoint"):
        return "the flag --input_checkpoint is required"
    return ""


def _frozen(values: Mapping[str, Setting]) -> Frozen:
    from thinflow.api import freeze_with_report
    from thinflow.cli._options import names

    folder, meta = _path(values, "input_saved_model_dir"), _meta_graph(values)
    saver = _path(values, "input_saver")
    if saver and not os.path.exists(saver):
        raise ParameterError(f"--input_saver {saver}: there is no such file", hint="check the path")
    listed = {key: names(str(values[key])) for key in FREEZE_GRAPH.flags}
    return freeze_with_report(
        folder or meta or _path(values, "input_graph"),
        listed["output_node_names"],
        # A SavedModel brings its own checkpoint and initialisers; those flags are for the other sources.
        checkpoint=None if folder else _path(values, "input_checkpoint"),
        tags=str(values["saved_model_tags"]) if folder else None,
        only=listed["variable_names_whitelist"] or (),
        exclude=listed["variable_names_denylist"] or (),
        clear_devices=bool(values["clear_devices"]),
        initializers=() if folder else listed["initializer_nodes"] or (),
        saver=saver or None,
    )


def _warnings(values: Mapping[str, Setting], frozen: Frozen) -> Iterator[str]:
    for name in _IGNORED:
        if values[name] != FREEZE_GRAPH.flags[name][0]:
            yield f"--{name} is ignored: the restore operations of the graph are read, not run"
    if values["initializer_nodes"] and _path(values, "input_saved_model_dir"):
        yield "--initializer_nodes is ignored: a SavedModel names its own"
    if not frozen.variables:
        yield "no variable was frozen: the graph has none, or none that the outputs need"
    left = [node.name for node in frozen.graph if node.op in {"Variable", "VariableV2", "VarHandleOp"}]
    if left:
        yield f"{len(left)} variables stay, first '{left[0]}'"


_USAGE_ERROR = 255  # the original's -1, as a shell sees it
_LIMIT = "min_conversion_tensor_size"
CONVERT_GRAPHDEF_MEMMAPPED_FORMAT = OldFlags(
    "convert_graphdef_memmapped_format",
    {
        "in_graph": ("", "input graph file name"),
        "out_graph": ("", "output package file name"),
        _LIMIT: (10_000, "constants of fewer bytes stay in the graph"),
    },
    aliases={"min_conversion_size_bytes": _LIMIT},
    examples=EXAMPLES["convert_graphdef_memmapped_format"],
)


def convert_graphdef_memmapped_format(argv: Sequence[str]) -> int:
    values = CONVERT_GRAPHDEF_MEMMAPPED_FORMAT.parse(argv)
    if values is None:
        return 0 if is_help(argv) else _USAGE_ERROR
    for name in ("in_graph", "out_graph"):
        if not values[name]:
            print(f"{name} can't be empty.\n{CONVERT_GRAPHDEF_MEMMAPPED_FORMAT.usage()}", file=sys.stderr)
            return _USAGE_ERROR
    limit = int(values[_LIMIT])
    if limit <= 0:
        print(
            f"{_LIMIT} must be greater than 0.\n{CONVERT_GRAPHDEF_MEMMAPPED_FORMAT.usage()}", file=sys.stderr
        )
        return _USAGE_ERROR
    return _convert(
        os.path.expanduser(str(values["in_graph"])), os.path.expanduser(str(values["out_graph"])), limit
    )


def _convert(source: str, target: str, limit: int) -> int:
    from thinflow.cli._console import human_bytes
    from thinflow.compat.graph_scripts import convert_memmapped

    written = convert_memmapped(source, target, min_bytes=limit)
    print(f"Converted {written.converted} nodes")
    print(
        f"wrote {target}: {human_bytes(written.size_bytes)}, {human_bytes(written.mapped_bytes)} of it "
        f"mapped in {written.regions} region{'s' if written.regions != 1 else ''}"
    )
    print(f"next: thinflow benchmark {shlex.quote(target)}")
    return 0
