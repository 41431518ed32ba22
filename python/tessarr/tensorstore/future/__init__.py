"""Futures, and the threads that fulfil them."""
