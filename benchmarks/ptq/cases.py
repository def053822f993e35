"""What is compared: the trained networks here, and the keyword networks of a folder beside the project."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from benchmarks.bench import ROOT
from benchmarks.ptq import data
from thinflow import Graph

Array = np.ndarray[Any, Any]

MODELS = Path(__file__).parent / "models"
CALIBRATION, TEST = 200, 500
KEYWORD_CALIBRATION = 60
"""Clips that make ranges, as many of each word; all others judge."""


@dataclass(frozen=True)
class Case:
    """A network up to its logits, for one sample, and samples [count, ...].

    Attributes:
        source: what other tools convert: the file that it came from, or what is left of it without the front
            that makes features of sound.
    """

    name: str
    graph: Graph
    source: Path
    calibration: Array
    x: Array
    y: Array


def trained() -> list[str]:
    """Names of the networks in this folder."""
    return sorted(path.stem for path in MODELS.glob("*.keras"))


def trained_case(name: str) -> Case:
    """One of them, with samples that it was not trained with."""
    path = MODELS / f"{name}.keras"
    test = data.drawn_for(name, TEST, data.TEST)
    calibration = data.drawn_for(name, CALIBRATION, data.CALIBRATION)
    return Case(name, up_to_logits(path), path, calibration.x, test.x, test.y)


def up_to_logits(path: Path, **ends: Any) -> Graph:
    """A network without its softmax, for one sample."""
    graph = thinflow.load(path, **ends)
    (result,) = graph.outputs
    if result.node.op == "Softmax":
        graph.outputs = [result.node.inputs[0]]
    return graph


# ----------------------------------------------------------------------------------------- keyword networks


def shared() -> Path:
    """The folder that models and data of others are in; they are no part of the project."""
    return Path(os.environ.get("THINFLOW_SHARED") or ROOT.parent / "shared")


def keywords() -> list[str]:
    """Names of the keyword networks; none where they or their clips are missing."""
    there = any((shared() / "data" / "kws").glob("*.wav"))
    return sorted(path.stem for path in (shared() / "models").glob("kws_*.pb")) if there else []


def keyword_case(name: str, folder: Path) -> Case:
    """The part of a keyword network behind its features, with the features of all clips.

    What makes them of sound stays float in every tool that takes it at all.
    """
    source = shared() / "models" / f"{name}.pb"
    whole = thinflow.load(source)
    features = next(node for node in whole if node.op == "Mfcc").output()
    graph = up_to_logits(source, inputs=[features.name])
    part = folder / f"{name}.pb"
    thinflow.save(graph, part)
    whole.outputs = [features]
    x, y = clips(whole)
    calibrates = _some_of_each(y, KEYWORD_CALIBRATION // len(set(y)))
    return Case(name, graph, part, x[calibrates], x[~calibrates], y[~calibrates])


def clips(front: Graph) -> tuple[Array, Array]:
    """Features of all clips and numbers of their words, in the order of file names."""
    session, name = thinflow.Session(front), front.inputs[0].name
    words = (shared() / "models" / "kws_labels.txt").read_text("utf-8").split()
    paths = sorted((shared() / "data" / "kws").glob("*.wav"))
    x = [session.run(None, {name: np.array(path.read_bytes(), object)})[0] for path in paths]
    y = [words.index(path.name.partition("_")[0]) for path in paths]
    return np.concatenate(x), np.array(y)


def _some_of_each(y: Array, count: int) -> Array:
    """A mask of `count` samples of each class, drawn by a seed."""
    rng, chosen = np.random.default_rng(0), np.zeros(len(y), bool)
    for kind in np.unique(y):
        chosen[rng.permutation(np.flatnonzero(y == kind))[:count]] = True
    return chosen
