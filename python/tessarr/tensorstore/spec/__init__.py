"""What is to be opened or created, as JSON, by keywords or as a URL."""
