"""Errors of rules and kernels: a node that no kernel runs, and what Python raised in one."""

from __future__ import annotations

import logging
import re
import shlex

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Node
from thinflow.ops import registry

logger = logging.getLogger(__name__)

_INPUT_PIPELINES = ("Iterator", "Dataset", "Reader")
"""Parts of the names of ops that fetch samples themselves."""
_READERS = frozenset({"ReadFile", "MatchingFiles", "LoadAndRemapMatrix"})
# Listed apart as each has another way out: a file to feed, `freeze`, or leaving the node out.
_CHECKPOINT_READERS = frozenset({"Restore", "RestoreSlice", "RestoreV2"})
_WRITERS = frozenset({"WriteFile", "Save", "SaveSlices", "SaveV2", "MergeV2Checkpoints"})
_PYTHON = frozenset({"PyFunc", "PyFuncStateless", "EagerPyFunc"})


def missing_kernel(node: Node) -> UnsupportedOp:
    """The error for a node whose op has no kernel. Its hint speaks of the flags that cut a graph.

    Ops that touch files have none on purpose: a model may come from anyone, and must neither read nor write
    what its user did not name.
    """
    behind = (
        f"start behind it with --inputs {shlex.quote(node.name)}"
        if node.outputs
        else "leave it out with --outputs"
    )
    if node.op in _READERS:
        name = shlex.quote(node.name)
        content = f"`thinflow run MODEL --inputs {name} --feed {name}=FILE`"
        return _error(node, _refusal("reads"), f"read the file yourself and feed what it holds: {content}")
    if node.op in _CHECKPOINT_READERS:
        return _error(node, _refusal("reads"), "`thinflow freeze` puts a checkpoint's values into the graph")
    if node.op in _WRITERS:
        return _error(node, _refusal("writes"), "leave it out with --outputs, naming what is of interest")
    if node.op in _PYTHON:
        return _error(node, "the Python function it calls is not in the file", behind)
    if any(word in node.op for word in _INPUT_PIPELINES):
        pipeline = "it belongs to an input pipeline: feed what comes out of that, and name it with --inputs"
        return _error(node, _NO_KERNEL, pipeline)
    computed = [v.name for v in node.inputs if v.node.inputs and v.node.tensor is None]
    before = f"stop before it with --outputs {shlex.quote(','.join(computed))}" if computed else ""
    ways = " or ".join(filter(None, [before, behind]))
    developers = f"developers add a kernel in {_home_of(node.op)} (CONTRIBUTING.md)"
    return _error(node, _NO_KERNEL, f"{ways}, as `thinflow run` takes them; {developers}")


_NO_KERNEL = "the reference engine has no kernel for this op"


def _refusal(verb: str) -> str:
    return f"it {verb} any file that the model names, which no model may do here: it could come from anyone"


def _error(node: Node, problem: str, hint: str) -> UnsupportedOp:
    return UnsupportedOp(problem, node.where, hint)


def _home_of(op: str) -> str:
    """The file where a kernel for an op belongs: that of the op with the most similar name, else its own."""
    import difflib

    near = difflib.get_close_matches(op, [name for name, _ in registry.all_ops()], n=1, cutoff=0.7)
    definition = registry.find(near[0]) if near else None
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub(r"\W", "", op)).lower() or "another"
    family = definition.__module__.rpartition(".")[2] if definition is not None else words[:40]
    return f"src/thinflow/ops/{family}.py"


# ---- Python's errors from a rule or kernel that meets a node it was not written for, in words for its user.


_UNPACKED = re.compile(r"(?:too many|not enough) values to unpack \(expected (?:at least )?(\d+)")
_MISSING = re.compile(r"missing \d+ required (positional|keyword-only) arguments?: (.*)")
_SURPLUS = re.compile(r"takes (?:from \d+ to )?(\d+) positional arguments? but (\d+)")


def in_words(error: Exception) -> str:
    """The node's fault. Messages of numpy about shapes and types are kept.

    The cause may as well be a mistake in the rule: its traceback is logged, and `--debug` shows it.
    """
    logger.debug("a rule or kernel raised; its node is taken for malformed", exc_info=error)
    text = str(error)
    # Their texts name things of the source, not of the model.
    if isinstance(error, KeyError | AttributeError | AssertionError) or not text:
        return "its inputs or attributes are not as its op demands"
    if unpacked := _UNPACKED.search(text):
        return f"an input does not have {unpacked[1]} dimensions"
    if missing := _MISSING.search(text):
        what = "input" if missing[1] == "positional" else "attribute"
        return f"it lacks the {what} {missing[2]}"
    if surplus := _SURPLUS.search(text):
        return f"it has {surplus[2]} inputs, and its op takes {surplus[1]}"
    # Rules index shapes, so an index out of range is nearly always a missing dimension.
    if re.fullmatch(r"(tuple|list|string) index out of range", text):
        return "an input has too few dimensions"
    return text
