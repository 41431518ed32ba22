"""The handle of an open array: reads, writes and copies of elements."""
