"""JSON of specs: read with the place of every fault, shown, and recalled."""
