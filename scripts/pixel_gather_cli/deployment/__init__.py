"""Talks to a deployment on AWS."""
