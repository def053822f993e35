"""ONNX models of one op: what ONNX Runtime answers, and what the op answers in TensorFlow's words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import thinflow
from thinflow import formats
from thinflow.analysis.shapes import infer_shapes
from thinflow.ir.graph import Graph
from thinflow.lift.graphs import lift


@dataclass
class Single:
    """One op.

    Attributes:
        fed: operands that are fed; None for one that is absent.
        constants: operands behind these.
        open_axes: axes of the first operand whose size the file leaves open.
    """

    op: str
    fed: Sequence[np.ndarray | None]
    constants: Sequence[np.ndarray | None] = ()
    options: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    opset: int = 20
    open_axes: Sequence[int] = ()
    domain_version: int = 1

    def bytes(self) -> bytes:
        import onnx

        helper = onnx.helper
        inits = {f"c{i}": a for i, a in enumerate(self.constants) if a is not None}
        operands = ["" if a is None else f"x{i}" for i, a in enumerate(self.fed)]
        operands += ["" if a is None else f"c{i}" for i, a in enumerate(self.constants)]
        results = [f"y{i}" for i in range(self.outputs)]
        domain, _, name = self.op.rpartition(".")
        infos = [
            helper.make_tensor_value_info(
                f"x{i}",
                helper.np_dtype_to_tensor_dtype(a.dtype),
                [f"n{k}" if not i and k in self.open_axes else n for k, n in enumerate(a.shape)],
            )
            for i, a in enumerate(self.fed)
            if a is not None
        ]
        graph = helper.make_graph(
            [helper.make_node(name, operands, results, domain=domain, **self.options)],
            "g",
            infos,
            [helper.make_empty_tensor_value_info(y) for y in results],
            [onnx.numpy_helper.from_array(np.asarray(a), n) for n, a in inits.items()],
        )
        versions = {"com.microsoft": 1, domain: self.domain_version, "": self.opset}
        imports = [helper.make_opsetid(d, version) for d, version in sorted(versions.items())]
        content: bytes = helper.make_model(graph, opset_imports=imports, ir_version=9).SerializeToString()
        return content

    @property
    def feed(self) -> dict[str, np.ndarray]:
        return {f"x{i}": a for i, a in enumerate(self.fed) if a is not None}

    def expected(self) -> list[np.ndarray]:
        """What ONNX Runtime answers."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        found: list[np.ndarray] = onnxruntime.InferenceSession(self.bytes(), options).run(None, self.feed)
        return found

    def defined(self) -> list[np.ndarray]:
        """What ONNX's own definition in Python answers."""
        import onnx
        from onnx.reference import ReferenceEvaluator

        found: list[np.ndarray] = ReferenceEvaluator(onnx.load_from_string(self.bytes())).run(None, self.feed)
        return found

    def lifted(self, folder: Path) -> Graph:
        """The op in TensorFlow's words."""
        path = folder / "single.onnx"
        path.write_bytes(self.bytes())
        graph = formats.load(path)
        infer_shapes(graph)
        made = lift(graph)
        infer_shapes(made)
        return made

    def run(self, folder: Path) -> np.ndarray:
        """What the interpreter answers, of the first output."""
        return next(iter(thinflow.run(self.lifted(folder), self.feed, engine="reference").values()))

    def check(
        self, folder: Path, *engines: str, tolerance: float = 3e-5, by: str = "runtime"
    ) -> Counter[str]:
        """Assert that the interpreter, and other engines, answer as ONNX Runtime; the lifted ops."""
        expected = self.expected() if by == "runtime" else self.defined()
        made = self.lifted(folder)
        for engine in ("reference", *engines):
            found = list(thinflow.run(made, self.feed, engine=engine).values())
            if engine == "litert" and not any(self.open_axes):
                # As a whole: nothing is left to the interpreter.
                assert thinflow.Session(made, engine=engine).reasons == {}
            for one, other in zip(expected, found, strict=True):
                assert one.shape == other.shape, (engine, one.shape, other.shape)
                assert one.dtype == other.dtype
                np.testing.assert_allclose(other, one, rtol=tolerance, atol=tolerance, err_msg=engine)
        return Counter(n.op for n in made if n.op not in {"Const", "Placeholder"})
