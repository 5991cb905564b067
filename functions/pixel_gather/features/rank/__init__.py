"""Scenes in order by what their pixels show in an area."""
