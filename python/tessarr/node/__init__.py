"""Shared parts of arrays and groups: attributes, synchronizers, info tables, tree, HTML."""
