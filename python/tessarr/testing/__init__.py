"""Support for tests of Tessarr, and of programs that use it.

`reference` is a slow, independent reader and writer: the oracle for the engine. `strategies`
generates arrays, metadata and keys for Hypothesis. `walk` executes a `tessarr.indexing.Selection`
one element at a time. Only these modules need Hypothesis and numcodecs.
"""
