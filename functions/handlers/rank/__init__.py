"""The functions that rank scenes, at once or in rounds of the state machine."""
