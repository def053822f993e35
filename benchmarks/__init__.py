"""Speed, size and memory against their budgets: `python -m benchmarks`. Nothing here is a test."""
