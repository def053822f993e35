"""Eight-bit integers instead of floats: observe ranges on calibration data, choose scales, rewrite a LiteRT program."""
