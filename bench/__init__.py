"""Benchmarks of Tessarr and other libraries: the same stores and operations in one run."""
