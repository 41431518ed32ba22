"""Transactions: staged changes that one commit stores."""
