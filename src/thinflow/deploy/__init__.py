"""Folders that build: a model, its labels, a small program for a platform that does what goes before and
behind it, and a self-test.

`contract.py` says what an app must know; `targets/` holds a file for each platform, with its texts in
`templates/`.
"""
