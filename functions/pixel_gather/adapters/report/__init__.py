"""The report as files: page, plots and text."""
