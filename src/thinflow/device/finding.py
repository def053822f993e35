"""Devices by their addresses: `ssh:pi@board`, `adb:emulator-5554`, or the name that a project gives one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

from thinflow.device import kinds
from thinflow.device.base import Device, Devices, Settings
from thinflow.device.profiles import Profile, find_profile, profile_names
from thinflow.errors import ParameterError, closest

_EVERYWHERE = ("name", "threads", "keep", "patience")
"""Settings of every kind."""


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


def find_device(address: str | Device, settings: Settings | None = None, **given: Any) -> Device:
    """The device of an address.

    Args:
        address: `KIND:where`, the name of a device in the nearest thinflow.toml, or a device, which is given
            back as it is.
        settings: in the place of those of the file.
        given: single ones, see `Settings`; the others stay as they are.

    Raises:
        ParameterError: the address cannot be read, or the kind of device does not know a setting.
    """
    if not isinstance(address, str):
        if isinstance(address, Device):
            return address
        raise ParameterError(
            f"a {type(address).__name__} is no device", hint="give an address: ssh:pi@board, adb"
        )
    profile = _profile(address)
    chosen = replace(settings or profile.settings, **given)
    name, _, where = profile.address.strip().partition(":")
    module = kind(name)
    _check(name, chosen)
    made: Device = module.device(where, chosen)
    return made


def _profile(address: str) -> Profile:
    """The profile of a name; an address is one without settings.

    Raises:
        ParameterError: it is neither.
    """
    if address.strip().partition(":")[0] in kind_names():
        return Profile(address, Settings())
    found = find_profile(address)
    if found is not None:
        return found
    known = [kind(name).ADDRESS for name in kind_names()]
    names = profile_names()
    hint = closest(address, [*names, *kind_names()])
    named = f"; thinflow.toml names {', '.join(names)}" if names else "; or name one in thinflow.toml"
    raise ParameterError(
        f"'{address}' is no device", hint=hint or f"addresses are: {', '.join(known)}{named}"
    )


def _check(name: str, settings: Settings) -> None:
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
    listed: list[str | Device] = []
    if isinstance(devices, Sequence) and not isinstance(devices, str):
        listed += devices
    else:
        listed.append(devices)
    if not listed:
        raise ParameterError("no device is given", hint="give an address: ssh:pi@board, adb")
    given = {name: value for name, value in settings.items() if value not in (None, "", False, ())}
    found: dict[str, Device] = {}
    used = set(_EVERYWHERE)
    for item in listed:
        known = _known(item)
        used |= known & set(given)
        made = find_device(item, **{n: v for n, v in given.items() if n in known or n in _EVERYWHERE})
        # Twice the same would be one row twice.
        found.setdefault(made.name, made)
    # Passed over in silence, it would be taken to have worked.
    for name in given:
        if name not in used:
            raise ParameterError(
                f"none of the devices has a setting '{name}'", hint="leave it out, or name another device"
            )
    return list(found.values())


def find_one(devices: Devices) -> Device:
    """The one device of some addresses.

    Raises:
        ParameterError: as for `find_devices`, or there are several.
    """
    found = find_devices(devices)
    if len(found) > 1:
        named = " and ".join(device.name for device in found)
        raise ParameterError(f"one device is used, and there are {named}", hint="give one of them")
    return found[0]


def _known(item: str | Device) -> set[str]:
    """Settings that a device of that address knows."""
    if not isinstance(item, str):
        return set()
    return set(kind(_profile(item).address.strip().partition(":")[0]).KEYS)
