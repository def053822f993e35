"""Networks as C on processors that QEMU plays: instructions, flash, memory and stack."""
