"""Tessarr beside its peers: the same stores, the same operations, one run."""
