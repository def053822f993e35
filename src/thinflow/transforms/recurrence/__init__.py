"""Recurrent layers whose steps were written out one by one, as loops again.

`lanes` lays the steps side by side, `pieces` knows what they read of a sequence, `loop` writes the loop, and
`reroll_recurrence` is the transform.
"""
