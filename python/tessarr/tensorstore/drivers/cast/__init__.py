"""The driver ``cast``."""
