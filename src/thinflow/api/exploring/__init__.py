"""What makes an explorer's page of models: opening, running, measuring and comparing them.

What the page holds of one graph is made in `thinflow.explorer`.
"""
