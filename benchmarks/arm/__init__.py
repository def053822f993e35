"""LiteRT on Arm processors that QEMU plays: a folder with Python for them, and what models answer there."""
