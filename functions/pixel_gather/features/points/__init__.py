"""The values of images under points."""
