"""From shard results to coordinates, figures and the report."""
