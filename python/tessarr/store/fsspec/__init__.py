"""Stores on file systems of fsspec."""
