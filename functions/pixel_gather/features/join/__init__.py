"""One array of many cubes."""
