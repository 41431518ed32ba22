"""Drivers of the TensorStore interface: a folder or a module for each driver."""
