"""The HTML around data and scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.page_scripts import unpacked
from thinflow.errors import PagesUnavailable
from thinflow.pages import assets, shell
from thinflow.pages.shell import data_of

HOSTILE = "</script><script>alert(1)</script><!-- \"' & \x00 \u2028 ﷽ \udc80"


def test_data_comes_back() -> None:
    data = {"names": [HOSTILE, "a/b"], "numbers": [0, -1.5, 1e300]}
    assert unpacked(shell.packed(data)) == data


def test_the_same_data_gives_the_same_bytes() -> None:
    assert shell.packed({"a": 1}) == shell.packed({"a": 1})


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="JSON"):
        shell.packed({"a": float("nan")})


def test_without_scripts_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(assets, "FOLDER", tmp_path)
    assets.asset.cache_clear()
    with pytest.raises(PagesUnavailable, match=r"without the scripts.*explorer\.css") as error:
        shell.page("explorer", "title", {})
    assert "npm" in error.value.hint
    assets.asset.cache_clear()


@pytest.mark.parametrize("kind", ["explorer", "report"])
def test_no_name_gets_out_of_the_page(kind: str, tmp_path: Path, open_page: Callable[..., Any]) -> None:
    written = shell.page(kind, HOSTILE, EMPTY[kind] | {"title": HOSTILE})
    assert data_of(written)["title"].startswith("</script>")
    (tmp_path / "page.html").write_bytes(written)
    page = open_page(tmp_path / "page.html")
    assert "alert(1)" in page.title()
    page.get_by_text("alert(1)").first.wait_for()


EMPTY: dict[str, dict[str, Any]] = {
    "explorer": {"version": 1, "strings": [], "graphs": [], "notes": []},
    "report": {"verdict": "", "tone": "", "unfinished": "", "sections": [], "version": "", "data": None},
}
"""The least that the scripts of a page take."""
