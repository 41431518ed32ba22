"""The drivers ``zarr3`` and ``zarr``."""
