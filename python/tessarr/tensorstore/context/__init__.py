"""Contexts, resources and caches."""
