"""iOS and macOS: a Swift package, on LiteRT's CompiledModel."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from thinflow.deploy.contract import PICTURE, Contract
from thinflow.deploy.end_types import require_types
from thinflow.deploy.targets import Target, target
from thinflow.deploy.tools import called
from thinflow.errors import EngineUnavailable

LITERT = "2.3.0"
"""The branch of LiteRT's Swift package is `release/` and this."""


@target
class IOS(Target):
    """A Swift package for iOS and macOS, on LiteRT."""

    name = "ios"
    assets = "Sources/Resources"
    built = (".build", ".swiftpm", "Package.resolved", "DerivedData")
    has_open_batch = False
    limit: ClassVar[str] = (
        "not built here: such Swift was parsed and never compiled or run, which takes Xcode on a Mac: `swift"
        " test` does that"
    )

    def check(self, contract: Contract) -> None:
        """Raises UnsupportedOp where this package's Swift has no numbers for what goes in or comes out."""
        require_types(contract, ("float32", "int32", "int16", "int8", "uint8"), "the Swift of this target")

    def values(self, contract: Contract) -> Mapping[str, str]:
        # Modules and types share one space of names in Swift: a module called as a type in it hides that.
        pure = "`Sources/Picture.swift`" if contract.main_input.kind == PICTURE else "`Sources/Tensor.swift`"
        return {
            "module": "".join(part[:1].upper() + part[1:] for part in contract.name.split("_")) + "Model",
            "litert": LITERT,
            "origin": contract.test.origin,
            "pure": pure,
            "limit": f"{self.limit[:1].upper()}{self.limit[1:]}.",
        }

    def test(self, folder: Path) -> str:
        """Build the package and run its self-test, on a Mac."""
        # Swift runs on Linux as well, but the binaries of LiteRT's package are for Apple's systems.
        swift = shutil.which("swift")
        if swift is None or sys.platform != "darwin":
            raise EngineUnavailable(
                "the self-test needs a Mac with Xcode, whose `swift test` runs it",
                hint=f"on a Mac: cd {folder} && swift test",
            )
        return called([swift, "test"], folder, "swift test")

    def next(self, folder: str) -> str:
        return f"cd {folder} && swift test"
