"""Pictures of pixels: how values become colours."""
