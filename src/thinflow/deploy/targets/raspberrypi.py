"""A Raspberry Pi: the C++ program of Linux, with what is said and done otherwise on a Pi."""

from __future__ import annotations

from thinflow.deploy.targets import target
from thinflow.deploy.targets.linux import Linux


@target
class RaspberryPi(Linux):
    """The C++ program of linux for a Raspberry Pi of 64 bits, with a unit for systemd."""

    name = "raspberrypi"
    templates = ("linux", "raspberrypi")
    built = ("build", "build-pi")
