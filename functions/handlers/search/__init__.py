"""The function that searches the deployment's catalog."""
