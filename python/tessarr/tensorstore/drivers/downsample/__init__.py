"""The driver ``downsample``."""
