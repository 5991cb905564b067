"""The zip packages of the functions, made without Docker."""
