"""The driver ``array``."""
