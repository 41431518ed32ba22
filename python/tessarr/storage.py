"""The stores, by the module name that users of zarr-python know."""

from tessarr.stores import *  # noqa: F403 (the list is there)
from tessarr.stores import __all__  # noqa: F401
