"""What every budget needs: models, the command to measure, and the Python that has TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from benchmarks.lines import NeedsOracle
from benchmarks.processes import run

ROOT = Path(__file__).resolve().parents[1]
ORACLE = "THINFLOW_ORACLE_PYTHON"

# TensorFlow logs a lot, and looks for graphics cards that would not be a fair comparison.
_ORACLE_ENV = {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "", "TF_ENABLE_ONEDNN_OPTS": "1"}


@dataclass
class Bench:
    """One run of the benchmarks.

    Attributes:
        quick: fewer repeats and smaller models.
        folder: for files; deleted afterwards.
        venvs: where a Python with TensorFlow is looked for.
    """

    quick: bool
    folder: Path
    venvs: Sequence[str] = (".venv-oracle",)
    notes: list[str] = field(default_factory=list)

    @cached_property
    def thinflow(self) -> list[str]:
        """The command: the installed script if there is one next to this Python, else the module."""
        script = Path(sys.executable).parent / "thinflow"
        return [str(script)] if script.exists() else [sys.executable, "-m", "thinflow"]

    def model(self, name: str) -> Path:
        """A network of the zoo as a GraphDef file."""
        path = self.folder / f"{name}.pb"
        if not path.exists():
            run([*self.thinflow, "sample", name, str(path)])
        return path

    def images(self, name: str, count: int) -> Path:
        """Pictures to calibrate a network of the zoo with, as .npz."""
        path = self.folder / f"{name}_{count}.npz"
        if not path.exists():
            model = self.folder / f"{name}_again.pb"
            run(
                [
                    *self.thinflow,
                    "sample",
                    name,
                    str(model),
                    "--calibration",
                    str(path),
                    "--count",
                    str(count),
                ]
            )
        return path

    def interface(self, name: str) -> tuple[str, str]:
        """Names of the input and the output of a network of the zoo."""
        import thinflow

        graph = thinflow.load(self.model(name))
        return graph.inputs[0].name, graph.outputs[0].name

    @cached_property
    def oracle_python(self) -> str:
        """A Python that has TensorFlow.

        Raises:
            NeedsOracle: there is none.
        """
        candidates = [os.environ.get(ORACLE), *(str(ROOT / venv / "bin" / "python") for venv in self.venvs)]
        for python in filter(None, candidates):
            look = "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is None)"
            if os.path.exists(python) and subprocess.run([python, "-c", look], check=False).returncode == 0:
                return os.path.abspath(python)
        raise NeedsOracle

    def oracle(self, script: str, *args: object) -> list[str]:
        """The command that runs a script of benchmarks/oracle under TensorFlow."""
        path = ROOT / "benchmarks" / "oracle" / f"{script}.py"
        settings = [f"{name}={value}" for name, value in _ORACLE_ENV.items()]
        return ["/usr/bin/env", "-u", "PYTHONPATH", *settings, self.oracle_python, str(path), *map(str, args)]
