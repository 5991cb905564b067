"""The routes of tables: those of points and zones, and large rankings."""

from functools import partial
from typing import Final

from handlers.api.route import FLAG, LIMIT_QUERY, Answer, Parameter, Route, list_query

_route = partial(Route, function="tables.answer_tables")
_IMAGES: Final = {
    "list": Parameter("Address of a list of the images."),
    "catalog": Parameter("Address of a catalog, instead; the deployment's, if neither is given."),
    "datetime": Parameter("Only scenes of a catalog of this time, such as 2024 or 2024-06/2024-08."),
    "where": Parameter("Only scenes that meet this, such as eo:cloud_cover<40."),
    "collections": Parameter("Only scenes of these, with commas."),
}
_AT_ONCE: Final = {
    200: Answer("The values, or the complete table that has them.", "Series | TableStatus"),
    202: Answer("Over 2,000 images, 20 s or 5 MB: a table job has started, or is running.", "TableStarted"),
}

ROUTES: Final = (
    _route(
        method="GET",
        path="/series",
        name="getSeries",
        summary="Read one point through all images, in the order of time.",
        query={
            "point": Parameter("Longitude and latitude, with a comma."),
            **_IMAGES,
            "by": Parameter("ndvi, or red,nir; all bands if not given."),
            "mask": Parameter("Pixels to drop, such as scl:3,8,9."),
            "bands": Parameter("Bands that the names in by stand for, such as red=B4,nir=B5."),
            "raw": Parameter("Leave scale and offset out.", FLAG),
        },
        answers=_AT_ONCE,
        problems=(422, 429, 503),
    ),
    _route(
        method="POST",
        path="/series",
        name="readSeries",
        summary="Read one point, or the mean in a polygon, through all images, in the order of time.",
        body="SeriesRequest",
        answers=_AT_ONCE,
        problems=(400, 422, 429, 503),
    ),
    _route(
        method="GET",
        path="/drill",
        name="drill",
        summary="Read one pixel of every file of a list, each with its bands as they are stored.",
        query={
            "point": Parameter("Longitude and latitude, with a comma."),
            "pixel": Parameter("Column and row instead, with a comma."),
            "list": Parameter("Address of a list of the files."),
            "bands": Parameter("Numbers of bands from 1, with commas; all if not given."),
        },
        answers={
            200: Answer("The pixels, or the complete table that has them.", "Drilled | TableStatus"),
            202: _AT_ONCE[202],
        },
        problems=(422, 429, 503),
    ),
    _route(
        method="POST",
        path="/tables",
        name="makeTable",
        summary="Start a table of points or zones, or find the one that the same request has started.",
        body="TableRequest",
        answers={
            202: Answer("Started, or running.", "TableStarted"),
            200: Answer("Made before.", "TableStatus"),
        },
        problems=(400, 422, 429, 503, 504),
    ),
    _route(
        method="POST",
        path="/tables/plan",
        name="planTable",
        summary="Price a table of points or zones, reading some headers and no pixel.",
        body="TableRequest",
        answers={200: Answer("The plan.", "TablePlan")},
        problems=(400, 422, 503, 504),
    ),
    _route(
        method="GET",
        path="/tables",
        name="listTables",
        summary="List tables and large rankings, the latest first.",
        query=list_query("Tables"),
        answers={200: Answer("One page.", "Tables")},
        problems=(422, 429),
    ),
    _route(
        method="GET",
        path="/tables/{id}",
        name="getTable",
        summary="Progress of a table or large ranking; at the end where it is.",
        answers={200: Answer("As it is now.", "TableStatus")},
        problems=(404, 429, 503, 504),
    ),
    _route(
        method="DELETE",
        path="/tables/{id}",
        name="stopTable",
        summary="Stop a table or large ranking; what it has read is kept.",
        answers={200: Answer("It has ended.", "TableLine")},
        problems=(404, 429),
    ),
    _route(
        method="POST",
        path="/tables/{id}/redrive",
        name="redriveTable",
        summary="Go on with a table or large ranking that failed, timed out or was stopped.",
        answers={202: Answer("Running.", "TableLine")},
        problems=(404, 409, 429),
    ),
    _route(
        method="POST",
        path="/tables/{id}/limit",
        name="limitTable",
        summary="Let a running table or large ranking have fewer workers, or more, until its round ends.",
        query=LIMIT_QUERY,
        answers={200: Answer("It runs with so many.", "TableLine")},
        problems=(404, 422, 429),
    ),
)
