"""A folder that was made for a platform, and its self-test."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from thinflow.deploy.folder import read_contract, read_manifest
from thinflow.deploy.targets import find
from thinflow.ir.brief import brief_repr
from thinflow.ir.notebook import table_html
from thinflow.typing import FilePath


@brief_repr
@dataclass(frozen=True)
class Deployment:
    """The result of `deploy`: a folder that builds, for one platform.

        made = thinflow.deploy("model.tflite", "app", target="linux")
        print(made.test())

    Attributes:
        path: of the folder.
        target: the platform.
        name: of the program or package in it.
        files: paths in it, sorted.
        size_bytes: of them together.
        model: path of the model in it; of C, of its source.
        answer: to the self-test's sample, in words.
        origin: of that sample: a file's name, or "made up".
        proof: what the model was compared with when it was converted; "" for a folder that was opened again.
        notes: what else to know.
        contract: the content of its model.json.
    """

    path: str
    target: str
    name: str
    files: tuple[str, ...]
    size_bytes: int
    model: str = ""
    answer: str = ""
    origin: str = ""
    proof: str = ""
    notes: tuple[str, ...] = ()
    contract: Mapping[str, object] = field(default_factory=dict, repr=False)

    @classmethod
    def open(cls, path: FilePath) -> Deployment:
        """A folder that was made before.

        Raises:
            FormatError: it is none, or its files are damaged.
        """
        folder = Path(path)
        manifest = read_manifest(folder)
        contract = read_contract(folder / manifest.assets)
        files = tuple(sorted(name for name in manifest.files if (folder / name).is_file()))
        return cls(
            os.fspath(path),
            manifest.target,
            manifest.name,
            files,
            sum((folder / name).stat().st_size for name in files),
            os.path.normpath(Path(manifest.assets) / contract["file"]).replace(os.sep, "/"),
            contract["self_test"]["answer"],
            contract["self_test"]["origin"],
            contract=contract,
        )

    def test(self) -> str:
        """Build the folder and run its self-test: the sample in, the expected answer out. What it printed.

        Raises:
            EngineUnavailable: a tool for that is not here.
            VerificationError: it does not build, or answers otherwise.
        """
        return find(self.target).test(Path(self.path).resolve())

    @property
    def verdict(self) -> str:
        """One sentence."""
        return f"{self.path}: {find(self.target).title[:1].lower()}{find(self.target).title[1:]}"

    @property
    def next(self) -> str:
        """The command to try next."""
        return find(self.target).next(self.path)

    @property
    def after_test(self) -> str:
        """The command to try once the self-test has passed."""
        return find(self.target).after_test(self.path, self.model, self.contract)

    def lines(self) -> list[str]:
        """All of it for reading."""
        found = [f"made {self.verdict}", f"  {self.model}: {self.proof}" if self.proof else f"  {self.model}"]
        if self.answer:
            found.append(f"  self-test: a sample, {self.origin}, and its answer: {self.answer}")
        return [*found, *(f"  {note}" for note in self.notes)]

    def data(self) -> dict[str, Any]:
        """For machines."""
        return {
            "path": self.path,
            "target": self.target,
            "name": self.name,
            "files": list(self.files),
            "size_bytes": self.size_bytes,
            "model": self.model,
            "answer": self.answer,
            "origin": self.origin,
            "proof": self.proof,
            "notes": list(self.notes),
            "contract": dict(self.contract),
        }

    def _repr_html_(self) -> str:
        return table_html(self.verdict, [(name,) for name in self.files], ("file",))
