"""Object stores and web servers: locations, requests and refusals."""
