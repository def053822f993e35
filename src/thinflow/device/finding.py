"""Devices by their addresses: `ssh:pi@board`, `adb:emulator-5554`, or the name of a profile."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

from thinflow.device import kinds
from thinflow.device.base import Device, Devices, Settings
from thinflow.errors import ParameterError, closest


@cache
def kind_names() -> tuple[str, ...]:
    """The kinds of devices: what addresses begin with."""
    found = (module.name for module in pkgutil.iter_modules(kinds.__path__))
    return tuple(sorted(name for name in found if not name.startswith("_")))


def kind(name: str) -> Any:
    """The module of a kind.

    Raises:
        ParameterError: there is none of that name.
    """
    if name not in kind_names():
        known = ", ".join(kind(k).ADDRESS for k in kind_names())
        raise ParameterError(
            f"'{name}' is no kind of device",
            hint=closest(name, kind_names()) or f"addresses are: {known}",
        )
    return importlib.import_module(f"{kinds.__name__}.{name}")


def find_device(address: str | Device, settings: Settings | None = None) -> Device:
    """The device of an address.

    Args:
        address: `KIND:where`, or a device, which is given back as it is.
        settings: how to use it.

    Raises:
        ParameterError: the address cannot be read, or the kind of device does not know a setting.
    """
    if not isinstance(address, str):
        if isinstance(address, Device):
            return address
        raise ParameterError(
            f"a {type(address).__name__} is no device", hint="give an address: ssh:pi@board, adb"
        )
    chosen = settings or Settings()
    name, _, where = address.strip().partition(":")
    module = kind(name)
    check_settings(name, chosen)
    made: Device = module.device(where, chosen)
    return made


_EVERYWHERE = ("name", "threads", "keep", "patience")


def check_settings(name: str, settings: Settings) -> None:
    """Refuse a setting that a kind of device does not know, instead of passing over it.

    Raises:
        ParameterError: it names the setting.
    """
    known = kind(name).KEYS
    # Given is what is not as it would be anyway.
    for field in fields(Settings):
        is_given = getattr(settings, field.name) != field.default
        if is_given and field.name not in _EVERYWHERE and field.name not in known:
            raise ParameterError(
                f"a device of the kind '{name}' has no setting '{field.name}'",
                hint=f"it has: {', '.join(known)}" if known else "leave it out",
            )


def find_devices(devices: Devices, **settings: Any) -> list[Device]:
    """The devices of some addresses, each once.

    Args:
        settings: as `Settings` has them; None or "" for what is not given. They are for devices that are
            given as addresses; one that only some of the kinds know goes to those.

    Raises:
        ParameterError: as for `find_device`, there is none, or no kind of device among them knows a setting.
    """
    listed: Sequence[Any] = (
        [devices] if isinstance(devices, str) or not isinstance(devices, Sequence) else devices
    )
    if not listed or listed == [None]:
        raise ParameterError("no device is given", hint="give an address: ssh:pi@board, adb")
    given = {name: value for name, value in settings.items() if value not in (None, "", False, ())}
    found: dict[str, Device] = {}
    used = set(_EVERYWHERE)
    for item in listed:
        known = _known(item)
        used |= known & set(given)
        chosen = {n: v for n, v in given.items() if n in known or n in _EVERYWHERE}
        made = find_device(item, replace(Settings(), **chosen))
        # Twice the same would be one row twice.
        found.setdefault(made.name, made)
    for name in given:
        if name not in used:
            raise ParameterError(
                f"none of the devices has a setting '{name}'", hint="leave it out, or name another device"
            )
    return list(found.values())


def _known(item: str | Device) -> set[str]:
    """Settings that a device of that address knows."""
    return set(kind(item.strip().partition(":")[0]).KEYS) if isinstance(item, str) else set()
