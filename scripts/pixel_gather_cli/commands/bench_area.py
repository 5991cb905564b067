"""``pixel-gather bench area``: how fast the links of a box are answered, and folders are listed."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from pixel_gather.core.area import Area, check_box
from pixel_gather.core.errors import RequestError
from pixel_gather.io.event_loop import run
from pixel_gather.io.scenes.search_own_catalog import Catalog, open_catalog
from pixel_gather.io.store.object_store import folder_and_key, open_to_read
from pixel_gather_bench.area import (
    PUBLISHED_AREA,
    PUBLISHED_BOX,
    PUBLISHED_CLIENTS,
    PUBLISHED_HEAP,
    PUBLISHED_MORE_CLIENTS,
    PUBLISHED_POINT,
    PUBLISHED_POOL,
    PUBLISHED_SEQUENTIAL,
    answerer,
    find_links,
    measure_load,
    measure_pool,
    measure_request,
    serving,
    slow_store,
)
from pixel_gather_cli.json_output import json_option, print_result
from pixel_gather_cli.request_options import Numbers, store_options, stores_of


def _whole_numbers(*, most: int) -> Callable[[str], tuple[int, ...]]:
    """Return what reads whole numbers above 0, with commas between them."""

    def parse(text: str) -> tuple[int, ...]:
        texts = text.split(",")
        if not all(each.isdecimal() and 0 < int(each) <= most for each in texts):
            raise click.BadParameter(f"write whole numbers from 1 to {most:,}, with commas between them")
        return tuple(map(int, texts))

    return parse


@click.command("area")
@click.option("--catalog", required=True, metavar="FILE", help="What pixel-gather catalog wrote.")
@click.option(
    "--bbox", type=Numbers("W,S,E,N", kind=float), help="Box of each request.  [default: the published one]"
)
@click.option(
    "--clients",
    type=_whole_numbers(most=2_000),
    default="1,10,32,100,320",
    metavar="N,...",
    help="Clients at one time.  [default: 1,10,32,100,320]",
)
@click.option(
    "--pool",
    type=_whole_numbers(most=1_000),
    default="1,8,32,120",
    metavar="N,...",
    help="Workers that list 120 folders.  [default: 1,8,32,120]",
)
@click.option("--reference", is_flag=True, help="Compare with the figures published in 2017.")
@store_options
@json_option
def bench_area_command(**options: Any) -> int:
    """Measure how fast the links of a box are answered, by many clients at one time.

    A server on this machine answers GET /area from the catalog, one search at a time, as one warm function
    does. Then 120 folders of 13 images are really listed, from a server that takes 450 ms for each listing.

    \b
    pixel-gather bench area --catalog catalog.parquet --reference
    pixel-gather bench area --catalog catalog.parquet --bbox 12,55,13,56 --clients 1,320 --pool 32
    """
    area = Area(check_box(options["bbox"] or PUBLISHED_BOX, field="--bbox"))
    folder, key = folder_and_key(_href(options["catalog"]))
    catalog = run(open_catalog(open_to_read(folder, stores_of(options)), key))
    if not run(find_links(catalog, area)):
        raise RequestError("the catalog has no link in this box, so nothing is measured", field="bbox")
    found = _measure_all(catalog, area, options)
    print_result(found, _text(found, is_beside=options["reference"]), as_json=options["as_json"])
    return 1 if any(each["n_errors"] for each in found["clients"]) else 0


def _measure_all(catalog: Catalog, area: Area, options: dict[str, Any]) -> dict[str, Any]:
    west, south, _, _ = area.box
    with serving(answerer(catalog, area)) as port:
        url = f"http://127.0.0.1:{port}/area"
        measure_load(url, 1)  # the first search reads the items
        clients = [to_builtins(measure_load(url, n)) for n in options["clients"]]
    with slow_store() as store:
        pools = [(n, *measure_pool(store, n)) for n in options["pool"]]
    return {
        "n_scenes": catalog.header.n_scenes,
        "clients": clients,
        "point": to_builtins(measure_request(catalog, Area.of_point(west, south))),
        "area": to_builtins(measure_request(catalog, area)),
        "pool": [{"n_workers": n, "seconds": seconds, "n_links": links} for n, seconds, links in pools],
    }


def _text(found: dict[str, Any], *, is_beside: bool) -> str:
    lines = [f"catalog of {found['n_scenes']:,} scenes"]

    def add(what: str, ours: str, theirs: str) -> None:
        lines.append(f"{what:<22}{ours}")
        if is_beside:
            lines.append(f"{'  published in 2017':<22}{theirs}")

    for each in found["clients"]:
        n = each["n_clients"]
        ours = (
            f"{each['wall_s']:.3f} s, {each['n_links']:,} links, {each['nbytes'] / 1e6:.2f} MB, "
            f"{n / each['wall_s']:.1f} requests/s, slowest {each['slowest_s']:.3f} s, "
            f"{each['n_errors']} errors"
        )
        beyond = PUBLISHED_MORE_CLIENTS if n > max(PUBLISHED_CLIENTS) else "not measured"
        add(f"{n} clients", ours, PUBLISHED_CLIENTS.get(n, beyond))
    for name, theirs in (("point", PUBLISHED_POINT), ("area", PUBLISHED_AREA)):
        each = found[name]
        ours = (
            f"{1000 * each['seconds']:.2f} ms, {each['n_links']:,} links, peak {each['peak_nbytes']:,} B, "
            f"{each['n_held']:,} blocks held"
        )
        add(f"one {name}", ours, theirs)
    add("most memory", "; ".join(found["area"]["sites"]), PUBLISHED_HEAP)
    for each in found["pool"]:
        n = each["n_workers"]
        ours = f"{each['seconds']:.2f} s, {each['n_links']:,} links"
        add(f"{n} listing workers", ours, PUBLISHED_SEQUENTIAL if n == 1 else PUBLISHED_POOL)
    return "\n".join(lines)


def _href(name: str) -> str:
    return name if "://" in name else Path(name).absolute().as_uri()
