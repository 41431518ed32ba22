"""Futures, and the threads that run their work."""
