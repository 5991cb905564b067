"""What the functions behind the state machine share."""
