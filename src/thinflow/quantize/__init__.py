"""Eight-bit integers instead of floats: observe ranges, choose scales, rewrite a LiteRT program."""
