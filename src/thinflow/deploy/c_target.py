"""Targets without a runtime: the network is plain C, in the layout of files that their build systems want."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Mapping
from typing import Any, ClassVar

from thinflow.deploy.c_code import c_values, require_c_steps
from thinflow.deploy.contract import PICTURE, SOUND, Contract, PlainC
from thinflow.deploy.targets import Target
from thinflow.errors import ParameterError
from thinflow.errors.plain_text import markdown_code, one_line
from thinflow.fit.cross import FLAGS
from thinflow.lower.c.layouts import arranged
from thinflow.lower.c.names import identifier
from thinflow.program.amounts import bytes_text, ms_text

_STACK_OF_APP = 3072
"""Bytes: the app's own functions take some hundreds (GCC's -fstack-usage); the rest is for the C library and
interrupts, which use the same stack."""
_SHOWN_CHIPS = 6
_CONVERT = {
    1: "convert('L')",
    3: "convert('RGB')",
    4: "convert('RGBA')",
}


class CTarget(Target):
    """See `Target`.

    Attributes:
        layout: of the network's files, as `convert` has it.
        network: the folder that they go to; "" for the app's own.
        left_out: files of the layout that the app has others for, as far as their paths begin so.
        cpu: that kernels are chosen for unless another is asked for.
        cpus: those that it can be asked for; () for any that is no computer's.
    """

    is_c = True
    has_open_batch = False
    layout: ClassVar[str] = "files"
    network: ClassVar[str] = ""
    left_out: ClassVar[tuple[str, ...]] = ()
    cpu: ClassVar[str] = "cortex-m4"
    cpus: ClassVar[tuple[str, ...]] = ()

    def require_cpu(self, cpu: str) -> None:
        """Refuse a processor that there are no such boards of.

        Raises:
            ParameterError: it is one.
        """
        known = self.cpus or ("generic", *FLAGS)
        if cpu not in known:
            raise ParameterError(
                f"{self.name} is not made for the processor '{cpu}'", hint=f"give one of {', '.join(known)}"
            )

    def check(self, contract: Contract) -> None:
        """Raises ParameterError where a picture would be resized twice."""
        require_c_steps(contract)

    def values(self, contract: Contract) -> Mapping[str, str]:
        c = c_of(contract)
        return {
            **c_values(contract),
            "cpu": c.cpu,
            "stack": str(stack_of(c)),
            "needs": "\n".join(f"- {line}" for line in needs_lines(c)),
            "proof": one_line(c.proof),
            "feed": feed_command(contract, self.assets),
            "module": identifier(contract.name).upper(),
            "limit_text": f"{self.limit}.",
            "more_sources": "".join(f" src/{contract.name}_{kind}.c" for kind in _more_sources(contract)),
            "selftest_more": _selftest_more(contract),
        }

    def files(self, contract: Contract) -> Mapping[str, str | bytes]:
        c = c_of(contract)
        found = arranged(c.files, contract.name, self.layout)
        # Layouts that are folders have its name in front.
        plain = {path.removeprefix(f"{contract.name}/"): text for path, text in found.items()}
        front = f"{self.network}/" if self.network else ""
        return {f"{front}{path}": text for path, text in plain.items() if not path.startswith(self.left_out)}

    def after_test(self, folder: str, model: str, contract: Mapping[str, Any]) -> str:
        # The model that it was made of may be anywhere; how it gets onto the board is told there.
        return f"cat {shlex.quote(os.path.join(folder, 'README.md'))}"

    def model_file(self, contract: Contract) -> str:
        """Path of the network's source."""
        return next(path for path in self.files(contract) if path.endswith(f"/{contract.name}.c"))


def c_of(contract: Contract) -> PlainC:
    """The C of a contract that has some."""
    assert contract.c is not None, "the model was made C for such a target"
    return contract.c


def stack_of(c: PlainC) -> int:
    """Bytes for the stack: what the network takes, and the app around it."""
    return math.ceil((c.fit.footprint.stack_bytes + _STACK_OF_APP) / 1024) * 1024


def needs_lines(c: PlainC) -> list[str]:
    """What the network takes, and which chips hold it."""
    fit, it = c.fit, c.fit.footprint
    known = "compiled" if it.is_compiled else "estimated"
    outside = it.ram_bytes - it.arena_bytes
    lines = [
        f"flash: {it.flash_bytes:,} bytes, {it.weights_bytes:,} of them weights ({known})",
        f"RAM: {fit.ram_bytes:,} bytes: arena {it.arena_bytes:,}, inputs, outputs and state {outside:,},"
        f" stack {it.stack_bytes:,} ({known})",
    ]
    if it.instructions is not None:
        time = (
            f", about {ms_text(fit.latency.ms)} at {fit.clock_mhz:g} MHz" if fit.latency is not None else ""
        )
        lines.append(f"a run: {it.instructions:,.0f} instructions{time}")
    names = [one.chip.name for one in fit.holding]
    more = f" and {len(names) - _SHOWN_CHIPS} more" if len(names) > _SHOWN_CHIPS else ""
    held = f": {', '.join(names[:_SHOWN_CHIPS])}{more}" if names else ""
    lines.append(f"{len(names)} of {len(fit.chips)} chips of `thinflow fit`'s table hold it{held}")
    return lines


def needs_note(c: PlainC) -> str:
    """The same in a few words."""
    fit = c.fit
    return f"{bytes_text(fit.flash_bytes)} of flash, {bytes_text(fit.ram_bytes)} of RAM on {c.cpu}"


def _more_sources(contract: Contract) -> list[str]:
    """Of what comes in."""
    return [kind for kind in (PICTURE, SOUND) if contract.main_input.kind == kind]


def feed_command(contract: Contract, assets: str) -> str:
    """A command that prints the bytes that an app is asked about."""
    main = contract.main_input
    if main.picture is not None and main.kind == PICTURE:
        p = main.picture
        return (
            'python3 -c "import sys; from PIL import Image; sys.stdout.buffer.write('
            f"Image.open('picture.jpg').{_CONVERT[p.channels]}.resize(({p.width}, {p.height})).tobytes())\""
        )
    if main.kind == SOUND and main.sound is not None:
        count = main.sound.samples
        return (
            'python3 -c "import sys, wave; sys.stdout.buffer.write('
            f"wave.open('sound.wav').readframes({count}).ljust({2 * count}, b'\\0'))\""
        )
    files = " ".join(f"{assets}/selftest/input_{n}.bin" for n in range(len(contract.inputs)))
    return f"cat {files}"


def _selftest_more(contract: Contract) -> str:
    c = c_of(contract)
    kind = {PICTURE: "prepares a picture", SOUND: "prepares a sound"}.get(contract.main_input.kind, "")
    first = f"It {kind}, which has to give the very bytes that were fed when this was made" if kind else ""
    exact = (
        "runs the network on it, whose answer has to be LiteRT's"
        if c.has_test
        else "runs the network on it; LiteRT has no such kernels, so its answer is compared in words only"
    )
    return f"{first or 'It takes stored numbers'}, and {exact} ({markdown_code(contract.test.answer)})."
