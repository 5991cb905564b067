"""The world as the steps see it: each module implements ports on top of one library."""
