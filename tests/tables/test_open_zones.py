"""A table as a Dataset over features and times."""

from pathlib import Path

import numpy as np
import pytest

from pixel_gather import StoreError, open_table, open_zones, points, zones

DEMO = Path(__file__).parents[1] / "data/demo"
SOURCES = str(DEMO / "sources.csv")


@pytest.fixture(scope="module")
def fields(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The table of the demonstration's fields."""
    to = tmp_path_factory.mktemp("fields") / "fields.parquet"
    zones(str(DEMO / "fields.geojson"), SOURCES, to=to, id="field", statistics="mean,count")
    return to


def test_a_dataset_has_the_values_of_the_table(fields: Path) -> None:
    """Each where its feature and time are. Of two images of one time, the first with a value."""
    found = open_zones(fields)

    lines = open_table(fields)
    assert found["mean"].dims == ("geometry", "time")
    assert list(found) == ["mean", "count", "valid"]
    assert found.geometry.attrs == {"crs": "EPSG:4326"}
    assert found.sizes == {"geometry": 4, "time": 4}
    for number, key in enumerate(found["id"].values):
        of_feature = lines[lines["id"] == key]
        for at, time in enumerate(found["time"].values):
            same = of_feature[of_feature["time"].dt.tz_localize(None) == time]["mean"].dropna()
            value = found["mean"].values[number, at]
            assert value == same.iloc[0] if len(same) else np.isnan(value)
    assert {shape.geom_type for shape in found.geometry.values} == {"Polygon"}


def test_some_features_and_columns_are_opened_alone(fields: Path) -> None:
    """By their ids and names."""
    found = open_zones(fields, ids=["san juan"], columns=["mean"])

    assert list(found) == ["mean"]
    assert found["id"].values.tolist() == ["san juan"]


def test_points_have_a_dataset_and_repeated_ids_have_none(tmp_path: Path) -> None:
    """As nothing tells two features of one id apart."""
    at = {"lon": -105.27, "lat": 40.01}
    points([{"n": 1, **at}], SOURCES, to=tmp_path / "one.parquet", id="n")
    points([{"n": 1, **at}, {"n": 1, **at}], SOURCES, to=tmp_path / "two.parquet", id="n")

    assert open_zones(tmp_path / "one.parquet").geometry.values[0].coords[0] == (-105.27, 40.01)
    with pytest.raises(StoreError, match="an id repeats"):
        open_zones(tmp_path / "two.parquet")
