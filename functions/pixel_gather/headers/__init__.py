"""Headers of sources: kept, indexed and used again."""
