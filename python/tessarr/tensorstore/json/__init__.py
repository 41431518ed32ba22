"""JSON of specs: parsing, formatting, and errors with JSON paths."""
