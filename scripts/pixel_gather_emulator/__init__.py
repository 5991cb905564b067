"""AWS on this machine: the real stack, deployed into an emulator, without Docker or an account."""
