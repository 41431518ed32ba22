"""Batches: reads that start together and share their requests."""
