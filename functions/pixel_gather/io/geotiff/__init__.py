"""GeoTIFFs read with ranged GETs and imagecodecs, wherever that gives exactly GDAL's pixels."""
