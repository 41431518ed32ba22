"""The driver ``stack``."""
