"""Contexts, their resources, and the caches among these."""
