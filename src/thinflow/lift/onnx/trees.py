"""ONNX's ensembles of decision trees in TensorFlow's words: all trees take a step at a time, for all rows.

Nodes of all trees stand in tables; where a row is in each tree is a number [n, trees]. A step gathers the
feature and the threshold that the node asks for, compares, and gathers the next node. A leaf is its own next
node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from thinflow.errors import UnsupportedOp
from thinflow.ir.graph import Value
from thinflow.ir.types import FLOAT, INT32
from thinflow.lift.lifter import Call
from thinflow.lift.onnx.ml import best, class_labels, floats, real, transformed
from thinflow.lift.onnx.sizes import size, vector
from thinflow.lift.onnx.values import bounded, like, text, typed
from thinflow.lift.rules import lifts
from thinflow.typing import Array

_MOST_STEPS = 128
"""Steps from a root to its leaves: each is some ops of the graph."""
_COMPARISONS: Mapping[str, str] = {
    "BRANCH_LEQ": "LessEqual",
    "BRANCH_LT": "Less",
    "BRANCH_GTE": "GreaterEqual",
    "BRANCH_GT": "Greater",
    "BRANCH_EQ": "Equal",
    "BRANCH_NEQ": "NotEqual",
}
_LEAF, _MEMBER = "LEAF", "BRANCH_MEMBER"
_MODES = (*_COMPARISONS, _MEMBER)
"""By their numbers in version 5."""
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")


@dataclass
class Forest:
    """Nodes of all trees.

    Attributes:
        roots: node numbers [trees].
        feature, threshold, mode, missing: by node; `missing` says if not-a-number takes the true branch.
        true, false: the next node by node; a leaf's own.
        weights: [nodes, targets].
        votes: [nodes, targets], whether a leaf says anything of a target.
    """

    roots: Array
    feature: Array
    threshold: Array
    mode: list[str]
    missing: Array
    true: Array
    false: Array
    weights: Array
    votes: Array

    def steps(self) -> int:
        """The longest way from a root to a leaf.

        Raises:
            UnsupportedOp: it is too long, or goes in a circle.
        """
        at = np.unique(self.roots)
        for step in range(_MOST_STEPS):
            at = at[[self.mode[i] != _LEAF for i in at]]
            if not at.size:
                return step
            at = np.unique(np.concatenate([self.true[at], self.false[at]]))
        raise UnsupportedOp(f"a tree of it is more than {_MOST_STEPS} steps deep")


@lifts("onnx.ai.onnx.ml.TreeEnsembleRegressor", ignores=("nodes_hitrates", "nodes_hitrates_as_tensor"))
def _regressor(c: Call) -> Value:
    forest = _old_forest(c, "target", int(c.get("n_targets", 1)))
    y = _aggregated(c, forest, text(c, "aggregate_function", "SUM"))
    return transformed(c, typed(c, _with_base(c, y), FLOAT), text(c, "post_transform", "NONE"))


@lifts("onnx.ai.onnx.ml.TreeEnsembleClassifier", ignores=("nodes_hitrates", "nodes_hitrates_as_tensor"))
def _classifier(c: Call) -> list[Value]:
    labels = class_labels(c, ("classlabels_int64s", "classlabels_strings"))
    forest = _old_forest(c, "class", labels.size)
    how = text(c, "post_transform", "NONE")
    voted = np.flatnonzero(forest.votes.any(0))
    y = typed(c, _with_base(c, _aggregated(c, forest, "SUM")), FLOAT)
    if labels.size == 2 and voted.tolist() == [0]:
        return _two_classes(c, y, forest, labels, how)
    # A class that nobody votes for is not chosen, even if all others are below zero.
    is_leaf = np.array([m == _LEAF for m in forest.mode])
    owner = _owners(forest)
    always = np.array([forest.votes[is_leaf & (owner == t)].all(0) for t in range(forest.roots.size)])
    if not always.any(0).all():
        raise UnsupportedOp("a class of it may have no vote")
    return [best(c, y, labels), transformed(c, y, how)]


def _owners(forest: Forest) -> Array:
    """Which tree each node is of."""
    owner = np.full(len(forest.mode), -1)
    for tree, root in enumerate(forest.roots.tolist()):
        at = np.array([root])
        while at.size:
            owner[at] = tree
            following = np.unique(np.concatenate([forest.true[at], forest.false[at]]))
            at = following[owner[following] != tree]
    return owner


def _two_classes(c: Call, y: Value, forest: Forest, labels: Array, how: str) -> list[Value]:
    """One score for two classes: that of the second, written as votes for the first, which gets the rest.

    So ONNX Runtime reads what exporters write of boosted trees; the standard does not speak of it.
    """
    score = c.emit("GatherV2", y, c.constant([0]), c.constant(1), batch_dims=0)
    bias = floats(c, "base_values")
    if bias is not None and bias.size > 1:
        raise UnsupportedOp(f"it has {bias.size} base values for one score")
    # Probabilities where no vote is below zero.
    is_positive = bool((forest.weights[forest.votes] >= 0).all())
    over = c.emit("Greater", score, like(c, 0.5 if is_positive else 0.0, score))
    place = c.emit("Squeeze", typed(c, over, INT32), squeeze_dims=(1,))
    label = c.emit("GatherV2", c.constant(labels), place, c.constant(0), batch_dims=0)
    if how == "LOGISTIC":
        both = c.emit("ConcatV2", c.emit("Neg", score), score, c.constant(1))
        return [label, c.emit("Sigmoid", both)]
    if how != "NONE":
        raise UnsupportedOp(f"it changes the one score of two classes by '{how}'")
    first = c.emit("Sub", like(c, 1, score), score) if is_positive else c.emit("Neg", score)
    return [label, c.emit("ConcatV2", first, score, c.constant(1))]


def _with_base(c: Call, y: Value) -> Value:
    base = c.get("base_values_as_tensor")
    values = floats(c, "base_values") if base is None else base.numpy().reshape(-1)
    if values is None or not values.size:
        return y
    kind = y.dtype.numpy() if y.dtype is not None else np.dtype(np.float32)
    return c.emit("AddV2", y, c.constant(values.astype(kind)))


def _option(c: Call, name: str, kind: Any) -> Array:
    """A list of an op, which newer versions also take as a tensor of doubles."""
    tensor = c.get(f"{name}_as_tensor")
    given = c.get(name, ())
    return tensor.numpy().reshape(-1) if tensor is not None else np.array(given, kind).reshape(-1)


def _old_forest(c: Call, owner: str, targets: int) -> Forest:
    """The nodes of versions 1 to 3: each has the number of its tree, and its own within that."""
    trees, ids = (_option(c, f"nodes_{n}", np.int64) for n in ("treeids", "nodeids"))
    modes = [m.decode() if isinstance(m, bytes) else str(m) for m in c.get("nodes_modes", ())]
    places = {pair: i for i, pair in enumerate(zip(trees.tolist(), ids.tolist(), strict=True))}
    unknown = set(modes) - {*_COMPARISONS, _LEAF}
    if unknown or len(modes) != trees.size or len(places) != trees.size:
        raise UnsupportedOp(f"its nodes are of the modes {sorted(unknown)}, or not all of them are told")

    def following(name: str) -> Array:
        numbers = _option(c, f"nodes_{name}nodeids", np.int64).tolist()
        pairs = zip(trees.tolist(), numbers, modes, strict=True)
        return np.array([i if m == _LEAF else places[t, n] for i, (t, n, m) in enumerate(pairs)])

    bounded(trees.size * targets)
    weights = np.zeros((trees.size, targets), np.float64)
    votes = np.zeros(weights.shape, bool)
    speakers = (_option(c, f"{owner}_{n}", np.int64).tolist() for n in ("treeids", "nodeids"))
    at = np.array([places[pair] for pair in zip(*speakers, strict=True)], np.int64)
    columns, values = _option(c, f"{owner}_ids", np.int64), _option(c, f"{owner}_weights", np.float32)
    # The same leaf may speak twice of a target.
    np.add.at(weights.reshape(-1), at * targets + columns, values)
    votes[at, columns] = True
    first = np.unique(trees, return_index=True)[1]
    missing = _option(c, "nodes_missing_value_tracks_true", np.int64)
    feature, threshold = _option(c, "nodes_featureids", np.int64), _option(c, "nodes_values", np.float32)
    return Forest(
        np.sort(first), feature, threshold, modes,
        missing.astype(bool) if missing.size else np.zeros(trees.size, bool),
        following("true"), following("false"), weights.astype(values.dtype), votes,
    )  # fmt: skip


@lifts("onnx.ai.onnx.ml.TreeEnsemble", ignores=("nodes_hitrates",))
def _ensemble(c: Call) -> Value:
    forest = _new_forest(c, bounded(int(c.get("n_targets", 1))))
    y = _aggregated(c, forest, _AGGREGATES[c.get("aggregate_function", 1)])
    y = typed(c, y, c[0].dtype) if c[0].dtype is not None else y
    return transformed(c, y, _TRANSFORMS[c.get("post_transform", 0)])


def _new_forest(c: Call, targets: int) -> Forest:
    """The nodes of version 5: inner nodes, then leaves. A node of a set becomes one for each member."""
    splits, codes = c.get("nodes_splits").numpy().reshape(-1), c.get("nodes_modes").numpy().reshape(-1)
    inner, leaves = codes.size, np.array(c.get("leaf_targetids")).reshape(-1)
    members = c.get("membership_values")
    sets = _sets(np.zeros(0) if members is None else members.numpy().reshape(-1))
    feature = np.array(c.get("nodes_featureids")).tolist()
    missing = list(c.get("nodes_missing_value_tracks_true") or (0,) * inner)
    true, false = (_branch(c, name, inner) for name in ("true", "false"))
    modes, threshold = [_MODES[m] for m in codes.tolist()], splits.tolist()
    count = inner + leaves.size
    for lists, fill in ((feature, 0), (missing, 0), (threshold, 0), (modes, _LEAF)):
        lists.extend([fill] * leaves.size)
    true.extend(range(inner, count))
    false.extend(range(inner, count))
    for node in [i for i in range(inner) if modes[i] == _MEMBER]:
        first, *more = sets.pop(0)
        modes[node], threshold[node] = "BRANCH_EQ", first
        for value in more:
            # In front of what is there already: what is not equal goes on to it.
            row = (feature[node], missing[node], value, "BRANCH_EQ", true[node], false[node])
            false[node] = len(modes)
            for items, item in zip((feature, missing, threshold, modes, true, false), row, strict=True):
                items.append(item)
    bounded(len(modes) * targets)
    weights = np.zeros((len(modes), targets), splits.dtype)
    votes = np.zeros(weights.shape, bool)
    rows = np.arange(inner, count)
    weights[rows, leaves], votes[rows, leaves] = c.get("leaf_weights").numpy().reshape(-1), True
    roots, split = np.array(c.get("tree_roots")).reshape(-1), np.array(threshold, splits.dtype)
    tables = np.array(missing, bool), np.array(true), np.array(false)
    return Forest(roots, np.array(feature), split, modes, *tables, weights, votes)


def _branch(c: Call, name: str, inner: int) -> list[int]:
    """Where each inner node leads: to one of them, or behind them to a leaf."""
    pairs = zip(c.get(f"nodes_{name}nodeids"), c.get(f"nodes_{name}leafs"), strict=True)
    return [n + inner if is_leaf else n for n, is_leaf in pairs]


def _sets(values: Array) -> list[list[float]]:
    """Sets of members, behind each of which there is a not-a-number."""
    found: list[list[float]] = [[]]
    for value in values.tolist():
        if np.isnan(value):
            found.append([])
        else:
            found[-1].append(value)
    return [s for s in found if s]


def _aggregated(c: Call, forest: Forest, how: str) -> Value:
    """[n, targets]: what the leaves say that the rows come to."""
    if how not in _AGGREGATES:
        raise UnsupportedOp(f"it puts trees together by '{how}'")
    at, x = _leaves(c, forest), real(c, c[0])
    kind = x.dtype.numpy() if x.dtype is not None else np.dtype(np.float32)
    weights = forest.weights.astype(kind)
    axis = c.constant([1])
    if how in {"AVERAGE", "SUM"}:
        y = c.emit("Sum", c.emit("GatherV2", c.constant(weights), at, c.constant(0)), axis, keep_dims=False)
        return y if how == "SUM" else c.emit("RealDiv", y, like(c, forest.roots.size, y))
    is_leaf = np.array([m == _LEAF for m in forest.mode])
    # What a leaf does not speak of would have to be left out.
    if not forest.votes[is_leaf].all():
        raise UnsupportedOp(f"it puts trees together by '{how}', not all of which have a say in all targets")
    op = "Min" if how == "MIN" else "Max"
    return c.emit(op, c.emit("GatherV2", c.constant(weights), at, c.constant(0)), axis, keep_dims=False)


def _leaves(c: Call, forest: Forest) -> Value:
    """[n, trees]: the leaf that each row comes to in each tree."""
    x = real(c, c[0])
    kind = x.dtype.numpy() if x.dtype is not None else np.dtype(np.float32)
    tables = {
        "feature": forest.feature.astype(np.int32),
        "threshold": forest.threshold.astype(kind),
        "true": forest.true.astype(np.int32),
        "false": forest.false.astype(np.int32),
        "missing": forest.missing,
    }
    known = {name: c.constant(table) for name, table in tables.items()}
    modes = sorted(set(forest.mode) - {_LEAF})
    which = {m: c.constant(np.array([n == m for n in forest.mode])) for m in modes[1:]}
    roots = c.constant(forest.roots.astype(np.int32)[np.newaxis])
    at = c.emit("BroadcastTo", roots, vector(c, [size(c, x, 0), forest.roots.size]))
    for _ in range(forest.steps()):
        picked = {name: c.emit("GatherV2", table, at, c.constant(0)) for name, table in known.items()}
        value = c.emit("GatherV2", x, picked["feature"], c.constant(1), batch_dims=1)
        goes = c.emit(_COMPARISONS[modes[0]], value, picked["threshold"])
        for mode, where in which.items():
            other = c.emit(_COMPARISONS[mode], value, picked["threshold"])
            goes = c.emit("SelectV2", c.emit("GatherV2", where, at, c.constant(0)), other, goes)
        if forest.missing.any():
            goes = c.emit("LogicalOr", goes, c.emit("LogicalAnd", c.emit("IsNan", value), picked["missing"]))
        at = c.emit("SelectV2", goes, picked["true"], picked["false"])
    return at
