"""What tests of Tessarr, and of programs on top of it, stand on.

`reference` is a slow, independent reader and writer: the oracle for the engine. `strategies`
generates arrays, metadata and keys for Hypothesis. `walk` carries out a
`tessarr.indexing.Selection` one element at a time. Hypothesis and numcodecs are needed
only here.
"""
