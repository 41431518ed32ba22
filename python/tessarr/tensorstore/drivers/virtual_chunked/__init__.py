"""The driver ``virtual_chunked``."""
