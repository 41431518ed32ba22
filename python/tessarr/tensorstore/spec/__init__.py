"""Specs: what to open or create, from JSON, keywords or a URL."""
