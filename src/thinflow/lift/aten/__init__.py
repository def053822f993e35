"""Lifting rules for ATen's ops, which exported PyTorch programs are written in."""
