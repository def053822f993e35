"""Examples in help: lines of 80 columns that a shell reads as the commands that they are."""

from __future__ import annotations

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thinflow.cli import main
from thinflow.cli._commands import COMMANDS
from thinflow.cli._examples import folded_command, laid_out


def test_a_comment_goes_above_and_a_command_goes_on() -> None:
    short = "  thinflow run m.pb  # to see that it runs"
    assert laid_out(f"\n{short}\n") == short
    assert laid_out("  thinflow run m.pb --placement     # which engine", 40) == (
        "  # which engine\n  thinflow run m.pb --placement"
    )
    assert laid_out("  thinflow x --long value -t 'two words' --more", 30) == (
        "  thinflow x --long value \\\n    -t 'two words' --more"
    )


@given(
    st.lists(
        st.from_regex(r"\A(--?[a-z]+|[a-z.*]+|'[a-z #\"]*'|\"[a-z ']*\"|[a-z]+='[a-z ]+')\Z"),
        min_size=1,
        max_size=12,
    ),
    st.integers(8, 60),
)
def test_a_shell_reads_the_command_as_it_was(words: list[str], width: int) -> None:
    command = " ".join(words)
    lines = folded_command(command, "  ", width)
    # Where a line ends in a backslash, a shell puts the next one behind it.
    assert shlex.split("\n".join(lines).replace("\\\n", "")) == shlex.split(command)
    assert all(line.endswith(" \\") for line in lines[:-1])
    assert not lines[-1].endswith(" \\")


@pytest.mark.parametrize("verb", [v for v in COMMANDS if v != "saved_model_cli"])
def test_examples_fit_a_terminal(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["help", verb])
    told = capsys.readouterr()
    examples = (told.out + told.err).partition("examples:\n")[2].splitlines()
    assert examples
    # A word of its own may be as long as it is.
    long = [line for line in examples if len(line) > 80]
    assert [line for line in long if len(shlex.split(line.removesuffix("\\"))) > 1] == []
