"""Stores that change one aspect of another store."""
