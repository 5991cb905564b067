"""Writes the report of a suite to its folder: page, text, data, and figures as PNG and SVG."""

from pathlib import Path

from pixel_gather.features.report.report_files import make_comparison_files
from pixel_gather_bench.figures.draw import put_figures
from pixel_gather_bench.suite.records import runs_in


def write_suite_report(folder: Path, *, with_published: bool) -> None:
    """Draw the best run of each configuration. An earlier report is overwritten.

    Args:
        folder: The suite's folder, with at least one record.
        with_published: Whether the figures published in 2018 are shown as well.

    Raises:
        RequestError: The folder holds no suite.
    """
    runs = runs_in(folder)
    plots = put_figures(runs, folder, with_published=with_published)
    title = folder.absolute().name
    files = make_comparison_files(runs, plots=plots, title=title, with_published=with_published)
    for name, content in files.items():
        (folder / name).write_bytes(content)
