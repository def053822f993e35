"""Ops said as simpler TensorFlow ops, for targets that have no form of their own for them.

A formula of more than one op belongs here. A target keeps a rule of several operators where no TensorFlow op
says one of them, or where a measurement that the rule names shows that its own form is faster.
"""
