"""What all functions know of their deployment: its settings, its stores, and what it lets callers read."""
