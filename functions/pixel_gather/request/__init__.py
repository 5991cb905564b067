"""What the caller asks for."""
