"""Transactions: changes that are staged, and made together or not at all."""
