"""Low-level programs: operators in running order on tensors, what every target writes."""
