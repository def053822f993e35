"""Devices: other machines that a model is sent to, run and measured on.

`base` says what every kind of device does, `finding` turns `ssh:pi@board` into one, and `kinds/` holds a file
for each kind. `runner.py` is what runs there: a program of one file, which knows numpy and LiteRT and nothing
of the rest here.
"""
