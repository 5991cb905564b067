"""Rank scenes by what their pixels show in an area, and say how sure each rank is. Pure but for reading."""
