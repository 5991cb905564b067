"""Numbers of tags and GeoKeys are those of the specifications, as tifffile has them."""

import pytest
from tifffile import TIFF

from pixel_gather.io.geotiff.geo_keys import Key
from pixel_gather.io.geotiff.ifd import Tag

TAGS = {
    Tag.NEW_SUBFILE_TYPE: "NewSubfileType",
    Tag.IMAGE_WIDTH: "ImageWidth",
    Tag.IMAGE_LENGTH: "ImageLength",
    Tag.BITS_PER_SAMPLE: "BitsPerSample",
    Tag.COMPRESSION: "Compression",
    Tag.PHOTOMETRIC: "PhotometricInterpretation",
    Tag.FILL_ORDER: "FillOrder",
    Tag.STRIP_OFFSETS: "StripOffsets",
    Tag.ORIENTATION: "Orientation",
    Tag.SAMPLES_PER_PIXEL: "SamplesPerPixel",
    Tag.ROWS_PER_STRIP: "RowsPerStrip",
    Tag.STRIP_BYTE_COUNTS: "StripByteCounts",
    Tag.PLANAR_CONFIGURATION: "PlanarConfiguration",
    Tag.RESOLUTION_UNIT: "ResolutionUnit",
    Tag.PREDICTOR: "Predictor",
    Tag.COLOR_MAP: "ColorMap",
    Tag.TILE_WIDTH: "TileWidth",
    Tag.TILE_LENGTH: "TileLength",
    Tag.TILE_OFFSETS: "TileOffsets",
    Tag.TILE_BYTE_COUNTS: "TileByteCounts",
    Tag.SUB_IFDS: "SubIFDs",
    Tag.EXTRA_SAMPLES: "ExtraSamples",
    Tag.SAMPLE_FORMAT: "SampleFormat",
    Tag.JPEG_TABLES: "JPEGTables",
    Tag.YCBCR_SUBSAMPLING: "YCbCrSubSampling",
    Tag.MODEL_PIXEL_SCALE: "ModelPixelScaleTag",
    Tag.INTERGRAPH_MATRIX: "IntergraphMatrixTag",
    Tag.MODEL_TIEPOINT: "ModelTiepointTag",
    Tag.MODEL_TRANSFORMATION: "ModelTransformationTag",
    Tag.GEO_KEY_DIRECTORY: "GeoKeyDirectoryTag",
    Tag.GEO_DOUBLE_PARAMS: "GeoDoubleParamsTag",
    Tag.GEO_ASCII_PARAMS: "GeoAsciiParamsTag",
    Tag.GDAL_METADATA: "GDAL_METADATA",
    Tag.GDAL_NODATA: "GDAL_NODATA",
    Tag.MATTEING: "Matteing",
    Tag.DATA_TYPE: "DataType",
    Tag.TILE_DEPTH: "TileDepth",
}
KEYS = {
    Key.MODEL_TYPE: "GTModelTypeGeoKey",
    Key.RASTER_TYPE: "GTRasterTypeGeoKey",
    Key.CITATION: "GTCitationGeoKey",
    Key.GEODETIC_CRS: "GeographicTypeGeoKey",
    Key.GEODETIC_CITATION: "GeogCitationGeoKey",
    Key.GEODETIC_LINEAR_UNITS: "GeogLinearUnitsGeoKey",
    Key.ANGULAR_UNITS: "GeogAngularUnitsGeoKey",
    Key.SEMI_MAJOR_AXIS: "GeogSemiMajorAxisGeoKey",
    Key.INVERSE_FLATTENING: "GeogInvFlatteningGeoKey",
    Key.TO_WGS84: "GeogTOWGS84GeoKey",
    Key.PROJECTED_CRS: "ProjectedCSTypeGeoKey",
    Key.PROJECTED_CITATION: "PCSCitationGeoKey",
    Key.LINEAR_UNITS: "ProjLinearUnitsGeoKey",
    Key.LINEAR_UNIT_SIZE: "ProjLinearUnitSizeGeoKey",
}


@pytest.mark.parametrize("tag", Tag)
def test_tags_have_their_numbers(tag: Tag) -> None:
    """Each is known by its name."""
    assert TAGS[tag] in TIFF.TAGS.getall(int(tag), [])


@pytest.mark.long
@pytest.mark.parametrize("key", Key)
def test_geo_keys_have_their_numbers(key: Key) -> None:
    """Likewise."""
    assert TIFF.GEO_KEYS(int(key)).name == KEYS[key]
