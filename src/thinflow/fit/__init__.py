"""Whether a network fits a microcontroller: flash, memory, instructions and time of its C.

`footprint.py` has what the C of a network takes, `work.py` and `instructions.py` what its layers cost on a
processor, `latency.py` the time, `chips.py` the table of chips, `micro.py` what TFLite Micro would take,
`remedies.py` what would make it fit. Figures that were measured, or come from elsewhere, lie in `data/` with
their sources.
"""
