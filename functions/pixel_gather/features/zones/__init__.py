"""Statistics of images in polygons."""
