"""The handle of an open array, and what goes in and out of it."""
