"""Arduino: a library with the network and a sketch that asks it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

from thinflow.deploy.c_target import CTarget
from thinflow.deploy.contract import Contract
from thinflow.deploy.folder import read_contract
from thinflow.deploy.targets import target
from thinflow.deploy.tools import called, require_tool
from thinflow.errors import EngineUnavailable
from thinflow.lower.c.names import identifier
from thinflow.lower.c.processors import PROCESSORS

_ON_COMPUTER = """On this computer, with make and a C++ compiler, and without a board:

```sh
make -C extras/computer test
{feed} | make -s -C extras/computer run
```"""
_ON_BOARDS_ALONE = (
    "Its kernels are for a {cpu} and run on no computer: without `--cpu` of `thinflow deploy` the sketch is"
    " tested on one, too."
)


@target
class Arduino(CTarget):
    """An Arduino library with a sketch, which a computer runs as well."""

    name = "arduino"
    templates: ClassVar[tuple[str, ...]] = ("c", "arduino")
    assets = "extras"
    built: ClassVar[tuple[str, ...]] = ("build",)
    layout = "arduino"
    left_out = ("examples/",)
    # Boards have all kinds of processors; this is C for any of 32 bits, for registers as small ones have.
    cpu = "cortex-m3"
    limit: ClassVar[str] = (
        "not built here: in the tests of thinflow such sketches run on a computer, beside the small Arduino.h"
        " that the folder brings; none was ever compiled by Arduino's own tools or run on a board:"
        " `arduino-cli compile` does that"
    )

    def values(self, contract: Contract) -> Mapping[str, str]:
        found = super().values(contract)
        text = _ON_COMPUTER if PROCESSORS[found["cpu"]].is_portable else _ON_BOARDS_ALONE
        return {**found, "on_computer": text.format_map(found)}

    def files(self, contract: Contract) -> Mapping[str, str | bytes]:
        found = dict(super().files(contract))
        header, upper = f"src/{contract.name}.h", identifier(contract.name).upper()
        # Sketches hand no flags to libraries; what nobody calls the linker leaves out.
        asked = (
            f"#define {upper}_H\n#define {upper}_SELFTEST /* the linker drops it where nobody calls it */\n"
        )
        found[header] = str(found[header]).replace(f"#define {upper}_H\n", asked, 1)
        return found

    def test(self, folder: Path) -> str:
        """Build library and sketch for this computer, and run the sketch's self-test."""
        make = require_tool("make", "install make and a C++ compiler (Debian: apt-get install make g++)")
        require_tool("c++", "install a C++ compiler (Debian: apt-get install g++)")
        cpu = _cpu(folder)
        if not PROCESSORS[cpu].is_portable:
            raise EngineUnavailable(
                f"its kernels are for a {cpu}, and the self-test runs on a computer",
                hint="let the board run it: the sketch begins with it; or deploy without --cpu",
            )
        return called([make, "-s", "-C", "extras/computer", "test"], folder, "make -C extras/computer test")

    def next(self, folder: str) -> str:
        if PROCESSORS[_cpu(Path(folder))].is_portable:
            return super().next(folder)
        return f"cd {folder} && arduino-cli compile --fqbn BOARD --library . examples/*"


def _cpu(folder: Path) -> str:
    """The processor that the network in a folder is for."""
    return str(read_contract(folder / Arduino.assets)["c"]["cpu"])
