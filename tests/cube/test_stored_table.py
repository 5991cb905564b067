"""The list of a finished cube's sources, as a later gather of them sees it."""

from pathlib import Path

from obstore.store import LocalStore

from pixel_gather.io.cube.stored_cube import StoredCube
from pixel_gather.io.cube.stored_table import StoredTable
from support.undrawn import gather_undrawn

SERIES = Path(__file__).parents[1] / "data/series/files/stactools-noaa-cdr"
FILES = [each.as_uri() for each in sorted(SERIES.glob("heat_content_anomaly_0-2000*.tif"))]


def test_sources_that_were_read_are_sampled(tmp_path: Path) -> None:
    """The others are sampled only if none was read."""
    missing = (tmp_path / "no.tif").as_uri()
    request = {"sources": [missing, *FILES[:3]], "window": {"pixels": [0, 0, 40, 30]}}
    gather_undrawn(request, to=tmp_path / "cube")
    table = StoredTable(StoredCube(LocalStore(tmp_path / "cube"), place="here"), band_numbers={})

    assert table.n_sources == 4
    assert [each.href for each in table.spread(4, band=None)] == FILES[:3]
    assert [each.href for each in table.spread(2, band=None)] == [FILES[0], FILES[2]]
