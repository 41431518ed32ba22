"""What is done to a hierarchy, as generators without input or output (see `tessarr.flow.run`)."""
