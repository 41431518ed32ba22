"""What both formats share: extension registry, JSON, validation, chunk grids, keys and messages."""
