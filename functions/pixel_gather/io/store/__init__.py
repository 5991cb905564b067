"""Objects on S3, by HTTP and on disk."""
