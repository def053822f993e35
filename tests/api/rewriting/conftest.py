"""What the tests of plug-ins share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from thinflow.rewrite import rule


@pytest.fixture
def forgotten() -> Iterator[None]:
    """Transforms registered in a test are gone after it."""
    before = dict(rule._registry)
    yield
    for name in set(rule._registry) - set(before):
        if not rule._registry[name].__module__.startswith("thinflow."):
            del rule._registry[name]
