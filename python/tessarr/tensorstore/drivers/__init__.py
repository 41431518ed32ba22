"""What stands behind handles: a folder, or a module, for each driver."""
