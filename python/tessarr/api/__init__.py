"""The public functions that open, create, save and manage arrays and groups."""
