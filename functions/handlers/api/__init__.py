"""What the functions behind the API share."""
