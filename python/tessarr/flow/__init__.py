"""Flows: hierarchy operations as generators without I/O; `tessarr.flow.run` executes them."""
