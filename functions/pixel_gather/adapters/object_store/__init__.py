"""Reads and writes objects on S3, by HTTP and on disk."""
