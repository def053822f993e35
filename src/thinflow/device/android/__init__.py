"""Android devices: the calls of `adb`, LiteRT's benchmark_model there, and what it prints."""
