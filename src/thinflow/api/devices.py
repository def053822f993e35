"""Other machines that models are run on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from thinflow.device.base import Device, Devices


def open_device(
    address: str,
    *,
    name: str = "",
    threads: Sequence[int] = (),
    python: str = "",
    folder: str = "",
    binary: str = "",
    delegate: str = "",
    cpus: str = "",
    keep: bool = False,
    patience: float = 300.0,
) -> Device:
    """A device for `benchmark`, `verify`, `evaluate` and `optimize`, with settings besides its address.

    Nothing of it is touched until it is measured.

        board = thinflow.open_device("ssh:pi@board", keep=True)
        thinflow.benchmark("model.tflite", device=[board, "local"])

    Args:
        address: "ssh:[user@]host[:port]", "adb[:serial]", "local" for this machine, or the name of a table
            `[device.NAME]` in the nearest thinflow.toml, whose settings count where they are not given here.
        name: what tables call it; default: its address.
        threads: numbers of threads to try there; default: those that are asked for everywhere.
        python: the interpreter there that has numpy and ai-edge-litert; default: one in a folder of its own.
        folder: where files are kept there; default: where the system keeps such.
        binary: LiteRT's benchmark_model for the device, a file on this machine.
        delegate: what runs operators there: "xnnpack", "gpu", "nnapi" and the like.
        cpus: the CPUs to run on: "4-7", or a mask such as "f0".
        keep: leave there what was sent, so that it need not be sent again.
        patience: seconds to wait for an answer, or for another run to end.

    Raises:
        ParameterError: the address cannot be read, or the kind of device does not know a setting.
    """
    from thinflow.device.finding import find_devices

    (found,) = find_devices(
        address,
        name=name,
        threads=tuple(threads),
        python=python,
        folder=folder,
        binary=binary,
        delegate=delegate,
        cpus=cpus,
        keep=keep,
        patience=patience,
    )
    return found


def open_devices(devices: Devices, **settings: object) -> list[Device]:
    """The devices of a list, with settings for those of them that know them; see `open_device`."""
    from thinflow.device.finding import find_devices

    return find_devices(devices, **settings)
