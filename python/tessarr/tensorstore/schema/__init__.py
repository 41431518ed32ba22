"""Schemas: constraints on arrays without regard to their driver."""
