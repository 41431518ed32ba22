"""What is wanted, or known, of an array whatever its driver."""
