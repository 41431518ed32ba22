"""S3, GCS and web servers: endpoints, credentials and error responses."""
