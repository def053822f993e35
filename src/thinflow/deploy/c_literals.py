"""Names and literals of C for a contract."""

from __future__ import annotations

from thinflow.deploy.contract import Contract


def c_string(text: str) -> str:
    """A literal of C whose bytes are the text in UTF-8."""
    # In octal, as a hexadecimal escape takes all digits behind it; ?? begins trigraphs.
    parts = (
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\?' else f"\\{byte:03o}"
        for byte in text.encode("utf-8", "replace")
    )
    return f'"{"".join(parts)}"'


class Ports:
    """Names of inputs and outputs in C, as the network's header has them."""

    def __init__(self, contract: Contract) -> None:
        self.inputs = _numbered("input", len(contract.inputs))
        self.outputs = _numbered("output", len(contract.outputs))
        self.main = self.inputs[contract.inputs.index(contract.main_input)]


def _numbered(word: str, count: int) -> list[str]:
    return [word] if count == 1 else [f"{word}_{n}" for n in range(count)]
