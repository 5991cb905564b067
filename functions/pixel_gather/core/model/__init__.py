"""Values that all steps share: sources, windows, statuses, outcomes."""
