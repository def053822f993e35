"""Names of other days."""

from __future__ import annotations

import pytest

from thinflow.errors import ParameterError
from thinflow.transforms import ALIASES, find, names, resolve


def test_every_alias_leads_somewhere() -> None:
    for alias, targets in ALIASES.items():
        assert alias not in names()
        assert [step.transform.name for step in resolve(alias)] == list(targets)


def test_an_alias_for_several_is_no_transform() -> None:
    with pytest.raises(
        ParameterError, match="stands for several: fuse_resize_pad_and_conv, fuse_resize_and_conv"
    ):
        find("fuse_convolutions")


def test_options_go_to_those_who_have_them() -> None:
    for pipeline in (
        "fuse_convolutions(explicit=true, ignore_errors=true)",
        [("fuse_convolutions", {"explicit": True})],
    ):
        steps = resolve(pipeline)
        assert [str(s.transform) for s in steps][:2] == ["fuse_resize_pad_and_conv", "fuse_resize_and_conv"]
        assert str(steps[2].transform) == "fuse_pad_and_conv(explicit=true)"
        assert len({s.ignore_errors for s in steps}) == 1
    with pytest.raises(ParameterError, match="has no parameter 'strange'"):
        resolve("fuse_convolutions(strange=1)")
