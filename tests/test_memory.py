"""Files are mapped, not read: what a command needs does not grow with the weights.

Each command runs in a process of its own that may not allocate more than `RLIMIT_DATA` lets it: pages of a
mapped file do not count there, copies of weights do.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from thinflow.formats import graphdef
from thinflow.ir.attrs import ShapeAttr
from thinflow.ir.graph import Graph
from thinflow.ir.types import FLOAT

pytest.importorskip("resource")
if not Path("/proc/self/status").exists():
    pytest.skip("only Linux tells a process its peak memory", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[1]
MB = 1 << 20
LAYERS, WIDTH = 50, 1024  # 4 MB each, 200 MB in all
ALLOWED_INSPECT = 120 * MB
"""Resident, with Python and libraries."""
ALLOWED_DATA = 150 * MB
"""Private memory of a transform: far less than the weights."""

CHILD = """
import resource, sys
resource.setrlimit(resource.RLIMIT_DATA, (int(sys.argv[1]),) * 2)
from thinflow.cli import main
code = main(sys.argv[2:])
from thinflow.bench.memory import peak_resident_bytes
print(peak_resident_bytes(), file=sys.stderr)
sys.exit(code)
"""


@pytest.fixture(scope="module")
def big_model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Dense layers with an Identity between any two."""
    graph = Graph()
    x = graph.add("Placeholder", name="x", attrs={"dtype": FLOAT, "shape": ShapeAttr((1, WIDTH))}).output()
    weights = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32)
    value = x
    for i in range(LAYERS):
        w = graph.constant(weights + np.float32(i), f"w{i}")
        product = graph.add("MatMul", [value, w], f"layer{i}", attrs={"T": FLOAT})
        value = graph.add("Identity", [product], f"identity{i}", attrs={"T": FLOAT}).output()
    path = tmp_path_factory.mktemp("big") / "big.pb"
    assert graphdef.save(graph, path) > 190 * MB
    yield path
    path.unlink()


def run_command(*arguments: str, data: int) -> int:
    """Peak resident bytes of a command that must succeed within `data` bytes of private memory."""
    path = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(data), *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"},  # threads reserve stacks
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return int(done.stderr.split()[-1])


def test_inspect(big_model: Path) -> None:
    peak = run_command("inspect", str(big_model), data=ALLOWED_INSPECT)
    print(f"\ninspect of {big_model.stat().st_size / MB:.0f} MB: peak {peak / MB:.0f} MB")
    assert peak <= ALLOWED_INSPECT


@pytest.mark.parametrize("transforms", ["remove_nodes(op=Identity)", "strip_unused_nodes fold_constants"])
def test_transform(big_model: Path, tmp_path: Path, transforms: str) -> None:
    target = tmp_path / "small.pb"
    interface = ("--inputs", "x", "--outputs", f"identity{LAYERS - 1}", "--no-verify")
    run_command("transform", str(big_model), str(target), "-t", transforms, *interface, data=ALLOWED_DATA)
    assert target.stat().st_size > 190 * MB
    target.unlink()


def test_the_limit_bites(big_model: Path) -> None:
    """Reading the file instead of mapping it would not do."""
    code = f"from pathlib import Path; print(len(Path({str(big_model)!r}).read_bytes()))"
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_DATA, ({ALLOWED_DATA},) * 2); "
    done = subprocess.run([sys.executable, "-c", limit + code], capture_output=True, text=True, check=False)
    assert "MemoryError" in done.stderr
