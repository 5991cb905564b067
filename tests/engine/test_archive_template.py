"""The first gather of an archive says how all others are made."""

import asyncio
import json
from typing import Any

import numpy as np
import pytest

from pixel_gather.core.errors import RequestError, StoreError
from pixel_gather.core.model.source import CubeRow, Source
from pixel_gather.core.plan.cube_template import CubeTemplate
from pixel_gather.core.request.request import GatherRequest, parse_request
from pixel_gather.core.stores import StoredObject
from pixel_gather.engine.archive import order_bands, pin_archive, read_archive
from support.fakes import FakeReader, FakeTable, table_of
from support.plans import planned

A = np.zeros((1, 8, 8), "uint8")
PLAN = planned(FakeReader({"a": A}), table_of("a"))
KEY = "landsat.archive.json"


class Folder:
    """A folder of cubes in memory."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}

    async def read_object(self, key: str) -> StoredObject | None:
        """Return a file."""
        content = self.files.get(key)
        return None if content is None else StoredObject(content=content, etag="1", modified_at=0.0)

    async def put_object(self, key: str, content: bytes, *, replaces: str | None) -> str | None:
        """Put a file that is not there."""
        assert replaces is None
        if key in self.files:
            return None
        self.files[key] = content
        return "1"


def request(**more: Any) -> GatherRequest:
    """Return a request of an archive."""
    given = {"sources": "l.csv", "window": "centre", "output": {"archive": "landsat"}}
    return parse_request(given | more)


PLAIN = parse_request({"sources": "l.csv", "window": "centre"})


def template_in(folder: Folder) -> CubeTemplate | None:
    """Return what an archive prescribes."""
    return asyncio.run(read_archive(request(), folder))


def test_first_gather_of_an_archive_is_free_and_the_second_is_not() -> None:
    """The second one gets what the first has put. A third that comes late is told so."""
    folder = Folder()

    assert template_in(folder) is None
    assert asyncio.run(pin_archive(request(), PLAN, folder)) is True
    assert template_in(folder) == CubeTemplate.of(PLAN, is_aligned=False)
    assert asyncio.run(pin_archive(request(), PLAN, folder)) is False
    assert json.loads(folder.files[KEY])["digest"] == PLAN.digest


def test_archive_is_aligned_if_its_first_gather_wants_one_grid() -> None:
    """Its cubes can then be joined with x and y."""
    folder = Folder()

    asyncio.run(pin_archive(request(grid="same"), PLAN, folder))

    assert template_in(folder) == CubeTemplate.of(PLAN, is_aligned=True)


def test_gathers_without_an_archive_read_and_put_nothing() -> None:
    """Gathers without a folder for the archive do not, either."""
    folder = Folder()

    assert asyncio.run(read_archive(PLAIN, folder)) is None
    assert asyncio.run(read_archive(request(), None)) is None
    assert asyncio.run(pin_archive(PLAIN, PLAN, folder)) is True
    assert asyncio.run(pin_archive(request(), PLAN, None)) is True
    assert folder.files == {}


@pytest.mark.parametrize(
    "content", [b"", b"\xff", b"[]", b"{}", b'{"format": 1}', b'{"format": 1, "template": {}}']
)
def test_damaged_archive_is_an_error_that_names_its_file(content: bytes) -> None:
    """It is not taken for none: its cubes would not fit one another."""
    folder = Folder()
    folder.files[KEY] = content

    with pytest.raises(StoreError, match=rf"{KEY}: the archive's file is damaged"):
        template_in(folder)


def test_another_layout_than_that_of_the_first_gather_is_refused() -> None:
    """It would be ignored. A file of an earlier version does not say which layout it was."""
    folder = Folder()
    asyncio.run(pin_archive(request(), PLAN, folder))
    asked = request(output={"archive": "landsat", "layout": "series"})

    with pytest.raises(RequestError, match=r"^output\.layout: the cube has the layout balanced; .* series"):
        asyncio.run(read_archive(asked, folder))
    assert template_in(folder) is not None
    content = json.loads(folder.files[KEY])
    folder.files[KEY] = json.dumps(content | {"layout": {"chunk": 7}}).encode()
    with pytest.raises(StoreError, match="the archive's file is damaged"):
        template_in(folder)
    del content["layout"]
    folder.files[KEY] = json.dumps(content).encode()
    assert asyncio.run(read_archive(asked, folder)) == template_in(folder)


def test_archive_of_a_later_version_is_refused() -> None:
    """The error names both formats."""
    folder = Folder()
    asyncio.run(pin_archive(request(), PLAN, folder))
    folder.files[KEY] = json.dumps(json.loads(folder.files[KEY]) | {"format": 2}).encode()

    with pytest.raises(StoreError, match="it has format 2; this version reads 1"):
        template_in(folder)


def test_list_is_read_in_the_order_of_the_archives_bands() -> None:
    """A list with others is refused. Without an archive it stays as it is."""

    def scene(**hrefs: str) -> CubeRow:
        return CubeRow(
            time_us=None, sources=tuple(Source(href=at, band=name, scene="s") for name, at in hrefs.items())
        )

    table = FakeTable((scene(red="a", nir="b"),), bands=("red", "nir"))
    template = CubeTemplate.of(planned(FakeReader({"a": A, "b": A}), table), is_aligned=False)
    turned = FakeTable((scene(nir="c", red="d"), scene(nir="e", red="f")), bands=("nir", "red"))

    found = order_bands(turned, template)

    assert found.bands == ("red", "nir")
    assert [[each.href for each in row.sources if each] for row in found.rows(0, 2)] == [
        ["d", "c"],
        ["f", "e"],
    ]
    assert order_bands(turned, None) is turned
    with pytest.raises(RequestError, match="the cube's are red, nir"):
        order_bands(FakeTable((scene(blue="a"),), bands=("blue",)), template)
    assert order_bands(table_of("a"), CubeTemplate.of(PLAN, is_aligned=False)).bands == ()
