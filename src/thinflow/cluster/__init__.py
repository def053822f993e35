"""Work on several machines: a scheduler and workers of Dask, results in a store that all of them reach.

Scheduling, moving tasks away from lost workers and the dashboard are Dask's; here is what it is given to do.
"""
