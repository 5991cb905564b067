"""What was gathered: coordinates, receipt, report."""
