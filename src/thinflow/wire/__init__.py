"""Bytes only: protobuf messages, flatbuffers, mapped files. Knows no graph."""
