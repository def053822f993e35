"""Classical machine learning of ONNX beside ONNX Runtime: tables, scales, linear models, trees."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.lift.onnx.machine_learning import check, single
from thinflow.errors import UnsupportedOp

pytest.importorskip("onnxruntime")
onnx = pytest.importorskip("onnx")


def texts(*words: str) -> np.ndarray:
    return np.array(words, object)


WORDS = texts("a", "b", "zz", "a")
WHOLE = np.int64([[1, 2], [7, 1]])
REAL = np.float32([1.5, np.nan, 2, 9])


@pytest.mark.parametrize(
    ("x", "options"),
    [
        (WORDS, {"keys_strings": ["a", "b"], "values_int64s": [5, 6], "default_int64": -7}),
        (WORDS, {"keys_strings": ["a", "b"], "values_strings": ["x", "y"]}),
        (WORDS, {"keys_strings": ["a", "b"], "values_floats": [0.5, 2.5]}),
        (WHOLE, {"keys_int64s": [1, 2], "values_strings": ["x", "y"], "default_string": "none"}),
        (WHOLE, {"keys_int64s": [1, 2], "values_int64s": [10, 20]}),
        (REAL, {"keys_floats": [1.5, float("nan")], "values_int64s": [1, 2]}),
    ],
)
def test_label_encoder(tmp_path: Path, x: np.ndarray, options: Any) -> None:
    check(single("LabelEncoder", x, options, version=2), tmp_path)


def test_no_number_as_a_key(tmp_path: Path) -> None:
    options = {"keys_floats": [1.5, float("nan")], "values_int64s": [1, 2]}
    assert single("LabelEncoder", REAL, options, version=4).run(tmp_path).tolist() == [1, 2, -1, -1]


def test_the_last_of_equal_keys_counts(tmp_path: Path) -> None:
    options = {"keys_int64s": [1, 2, 1], "values_int64s": [10, 20, 30]}
    assert single("LabelEncoder", WHOLE, options, version=4).run(tmp_path).tolist() == [[30, 20], [-1, 30]]


@pytest.mark.parametrize("x", [WORDS, np.int64([0, 1, 5])])
def test_classes_of_version_1(tmp_path: Path, x: np.ndarray) -> None:
    check(
        single("LabelEncoder", x, {"classes_strings": ["a", "b"], "default_string": "?"}, version=1), tmp_path
    )


def test_category_mapper(tmp_path: Path) -> None:
    options = {"cats_strings": ["a", "b"], "cats_int64s": [3, 4]}
    check(single("CategoryMapper", WORDS, {**options, "default_int64": 9}), tmp_path)
    check(single("CategoryMapper", np.int64([3, 8]), {**options, "default_string": "?"}), tmp_path)


@pytest.mark.parametrize(
    ("op", "x", "options"),
    [
        ("OneHotEncoder", WHOLE, {"cats_int64s": [1, 2, 3]}),
        ("OneHotEncoder", WORDS, {"cats_strings": ["b", "a"]}),
        ("OneHotEncoder", np.float32([1, 3]), {"cats_int64s": [1, 2, 3]}),
        ("Binarizer", np.float32([[0.2, 0.5], [0.7, -1]]), {"threshold": 0.5}),
        ("Scaler", np.float32([[1, 2], [3, 4]]), {"offset": [1.0, 2.0], "scale": [0.5, 3.0]}),
        ("Scaler", np.int64([[1, 2], [3, 4]]), {"offset": [1.0], "scale": [0.5]}),
        ("Imputer", np.float32([[1, np.nan], [3, 4]]), {"imputed_value_floats": [9.0, 8.0],
                                                        "replaced_value_float": float("nan")}),
        ("Imputer", WHOLE, {"imputed_value_int64s": [5], "replaced_value_int64": 1}),
        ("FeatureVectorizer", np.float32([[1, 2], [3, 4]]), {"inputdimensions": [2]}),
        ("LinearRegressor", np.float32([[1, 2], [3, 4]]), {"coefficients": [1.0, 2, 3, 4], "targets": 2,
                                                           "intercepts": [0.5, -1]}),
        ("LinearRegressor", np.float32([[1, 2], [3, 4]]), {"coefficients": [1.0, 2]}),
    ],
)  # fmt: skip
def test_numbers(tmp_path: Path, op: str, x: np.ndarray, options: Any) -> None:
    check(single(op, x, options, version=1), tmp_path)


@pytest.mark.parametrize("norm", ["MAX", "L1", "L2"])
def test_normalizer(tmp_path: Path, norm: str) -> None:
    x = np.float32([[1, 2, 5], [0, 0, 0], [4, 0.5, 3]])
    check(single("Normalizer", x, {"norm": norm}, version=1), tmp_path)


@pytest.mark.parametrize("how", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("names", [{"classlabels_ints": [3, 5, 9]}, {"classlabels_strings": ["a", "b", "c"]}])
def test_linear_classifier(tmp_path: Path, names: Any, how: str) -> None:
    rng = np.random.default_rng(0)
    options = {"coefficients": rng.standard_normal(12).tolist(), "intercepts": [0.1, 0.2, -0.3], **names}
    x = rng.standard_normal((5, 4)).astype(np.float32)
    check(single("LinearClassifier", x, {**options, "post_transform": how, "multi_class": 1}, 2, 1), tmp_path)


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


class Forest:
    """Random trees, in the attributes of versions 1 to 3."""

    def __init__(self, rng: np.random.Generator, modes: list[str], owner: str) -> None:
        self.rng, self.modes, self.owner = rng, modes, owner
        self.nodes: list[tuple[int, int, int, float, str, int, int, int]] = []
        self.leaves: list[tuple[int, int, int, float]] = []

    def grow(self, tree: int, depth: int, targets: list[int], least: float) -> int:
        """A subtree; the number of its root."""
        node = sum(1 for n in self.nodes if n[0] == tree)
        place = len(self.nodes)
        feature, split = int(self.rng.integers(0, 4)), float(self.rng.integers(-1, 2))
        if not depth or (node and self.rng.random() < 0.2):
            self.nodes.append((tree, node, 0, 0.0, "LEAF", 0, 0, 0))
            weights = self.rng.random(len(targets)) + least
            self.leaves += [(tree, node, t, float(w)) for t, w in zip(targets, weights, strict=True)]
            return node
        self.nodes.append((tree, node, 0, 0.0, "LEAF", 0, 0, 0))
        true = self.grow(tree, depth - 1, targets, least)
        false = self.grow(tree, depth - 1, targets, least)
        mode, missing = str(self.rng.choice(self.modes)), int(self.rng.integers(0, 2))
        self.nodes[place] = (tree, node, feature, split, mode, true, false, missing)
        return node

    def options(self) -> dict[str, Any]:
        names = "treeids nodeids featureids values modes truenodeids falsenodeids missing_value_tracks_true"
        columns = zip(*self.nodes, strict=True)
        made: dict[str, Any] = {f"nodes_{n}": list(v) for n, v in zip(names.split(), columns, strict=True)}
        names = "treeids nodeids ids weights"
        columns = zip(*self.leaves, strict=True)
        return made | {f"{self.owner}_{n}": list(v) for n, v in zip(names.split(), columns, strict=True)}


def rows(rng: np.random.Generator, has_gaps: bool) -> np.ndarray:
    x = rng.integers(-2, 3, (40, 4)).astype(np.float32)
    return np.where(rng.random(x.shape) < 0.2, np.float32(np.nan), x) if has_gaps else x


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("how", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_regression_trees(tmp_path: Path, how: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    forest = Forest(rng, MODES if seed % 2 else MODES[:1], "target")
    targets = 1 + seed % 3
    for tree in range(1 + seed):
        forest.grow(tree, seed % 5, list(range(targets)), -0.5)
    options = {**forest.options(), "n_targets": targets, "aggregate_function": how}
    if how == "SUM":
        options["base_values"] = [0.5] * targets
    check(single("TreeEnsembleRegressor", rows(rng, seed % 3 == 1), options), tmp_path)


@pytest.mark.parametrize("how", ["NONE", "SOFTMAX", "LOGISTIC"])
@pytest.mark.parametrize("seed", range(6))
def test_classification_trees(tmp_path: Path, seed: int, how: str) -> None:
    rng = np.random.default_rng(seed)
    forest = Forest(rng, MODES[:2], "class")
    for tree in range(3 + seed):
        forest.grow(tree, 3, [tree % 3] if seed % 2 else [0, 1, 2], -0.5)
    names = {"classlabels_strings": ["a", "b", "c"]} if seed % 3 else {"classlabels_int64s": [4, 5, 6]}
    case = single(
        "TreeEnsembleClassifier", rows(rng, False), {**forest.options(), **names, "post_transform": how}, 2
    )
    check(case, tmp_path)


@pytest.mark.parametrize("how", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("least", [0.0, -0.5])
@pytest.mark.parametrize("base", [None, [0.25]])
def test_one_score_for_two_classes(tmp_path: Path, base: Any, least: float, how: str) -> None:
    rng = np.random.default_rng(3)
    forest = Forest(rng, MODES[:1], "class")
    for tree in range(3):
        forest.grow(tree, 3, [0], least)
    options = {**forest.options(), "classlabels_int64s": [4, 5], "post_transform": how}
    if base is not None:
        options["base_values"] = base
    check(single("TreeEnsembleClassifier", rows(rng, False), options, 2), tmp_path)


@pytest.mark.parametrize(
    ("op", "options", "problem"),
    [
        ("Normalizer", {"norm": "L7"}, "it divides by 'L7'"),
        ("OneHotEncoder", {"zeros": 0, "cats_int64s": [1]}, "it fails where an element is in no category"),
        ("LabelEncoder", {"keys_floats": [1.0], "values_floats": [1.0, 2.0]}, "it has 1 keys and 2 values"),
        ("LabelEncoder", {"keys_int64s": [1], "values_floats": [1.0]}, "its keys are not of the type of"),
        (
            "LinearRegressor",
            {"coefficients": [1.0], "targets": 2},
            "are not those of 2 rows",
        ),
        (
            "LinearRegressor",
            {"coefficients": [1.0, 2.0], "post_transform": "PROBIT"},
            "scores by 'PROBIT'",
        ),
        (
            "LinearClassifier",
            {"coefficients": [1.0, 2.0], "classlabels_ints": [0, 1]},
            "no row of coefficients",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, op: str, options: Any, problem: str) -> None:
    with pytest.raises(UnsupportedOp, match=problem):
        single(op, np.ones((3, 2), np.float32), options, 1).lifted(tmp_path)


def test_trees_that_go_in_circles(tmp_path: Path) -> None:
    options = {"nodes_treeids": [0, 0], "nodes_nodeids": [0, 1], "nodes_featureids": [0, 0],
               "nodes_values": [0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF"], "nodes_truenodeids": [0, 0],
               "nodes_falsenodeids": [1, 0], "target_treeids": [0], "target_nodeids": [1], "target_ids": [0],
               "target_weights": [1.0], "n_targets": 1}  # fmt: skip
    with pytest.raises(UnsupportedOp, match="a tree of it is more than 128 steps deep"):
        single("TreeEnsembleRegressor", np.ones((3, 2), np.float32), options).lifted(tmp_path)


def test_a_class_without_votes(tmp_path: Path) -> None:
    forest = Forest(np.random.default_rng(3), MODES[:1], "class")
    forest.grow(0, 3, [1], 0.0)
    options = {**forest.options(), "classlabels_int64s": [4, 5]}
    with pytest.raises(UnsupportedOp, match="a class of it may have no vote"):
        single("TreeEnsembleClassifier", np.ones((3, 4), np.float32), options, 2).lifted(tmp_path)


@pytest.mark.parametrize("how", range(4))
@pytest.mark.parametrize("seed", range(4))
def test_trees_of_version_5(tmp_path: Path, seed: int, how: int) -> None:
    """Chains of inner nodes, each with a leaf on one side; some ask for members of a set."""
    rng = np.random.default_rng(seed)
    nodes: list[tuple[int, int, int, int, int, int]] = []
    splits, members, roots, leaves = [], [], [], 0
    for _ in range(1 + seed):
        roots.append(len(nodes))
        depth = int(rng.integers(1, 4))
        for step in range(depth):
            mode = int(rng.integers(0, 7 if seed % 2 else 1))
            if mode == 6:
                members += [*rng.permutation(5)[: rng.integers(1, 4)].tolist(), np.nan]
            splits.append(float(rng.integers(-1, 2)))
            last = step == depth - 1
            false = leaves + 1 if last else len(nodes) + 1
            nodes.append((int(rng.integers(0, 4)), mode, leaves, 1, false, int(last)))
            leaves += 1 + last
    names = ("featureids", "modes", "truenodeids", "trueleafs", "falsenodeids", "falseleafs")
    columns = zip(names, zip(*nodes, strict=True), strict=True)
    options: dict[str, Any] = {f"nodes_{n}": list(v) for n, v in columns}
    tensor = onnx.numpy_helper.from_array
    options["nodes_modes"] = tensor(np.array(options["nodes_modes"], np.uint8))
    options["nodes_splits"] = tensor(np.float32(splits))
    options["leaf_weights"] = tensor(rng.random(leaves).astype(np.float32))
    options |= {
        "leaf_targetids": [0] * leaves,
        "tree_roots": roots,
        "n_targets": 1,
        "aggregate_function": how,
    }
    if members:
        options["membership_values"] = tensor(np.float32(members))
    check(single("TreeEnsemble", rows(rng, False), options, version=5), tmp_path)
