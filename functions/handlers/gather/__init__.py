"""The functions that plan, fill, finish, start and describe gathers."""
