"""Parts of both formats: registry, JSON, validation, chunk grids, key encodings, messages."""
