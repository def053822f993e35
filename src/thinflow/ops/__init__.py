"""What every known op computes, one file per family. See `registry`."""
