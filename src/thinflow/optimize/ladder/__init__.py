"""The ladder under a budget: every scheme, from the cheapest effort to the dearest, measured; the best that
fits is shipped.
"""
