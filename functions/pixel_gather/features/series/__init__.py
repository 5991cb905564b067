"""The values of many images at one place, by time."""
