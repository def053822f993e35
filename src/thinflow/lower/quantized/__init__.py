"""Planning of eight-bit layers, shared by all targets: they write operators of their own from it."""
