"""Tessarr in place of zarr-python: arrays, groups and functions with its semantics."""
