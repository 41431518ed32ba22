"""What arrays and groups share: attributes, synchronizers, info tables, tree and HTML views."""
