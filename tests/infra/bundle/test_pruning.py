"""The files of wheels that the Lambda packages leave out."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from infra.bundle.pruning import RULES, Rule, prune


@dataclass(frozen=True)
class Case:
    """Names of files of a wheel that are kept, and of others, with blanks between them."""

    id: str
    stay: str
    go: str


CASES: Final = (
    Case("commands", "rasterio/windows.py", "bin/rio rasterio/rio/main.py"),
    Case(
        "metadata",
        "zarr-3.dist-info/METADATA zarr-3.dist-info/entry_points.txt",
        "zarr-3.dist-info/RECORD obstore-1.dist-info/sboms/a.json zarr-3.dist-info/METADATA.old",
    ),
    Case("tests", "zarr/testing/store.py", "numpy/tests/test_a.py regex/tests/data/a.txt"),
    Case("sources", "a/b.py a/b.so", "a/b.pyi a/b.pyx a/b.pxd a/b.pxi a/b.c a/b.h"),
    Case("typing", "", "a/py.typed numpy/_core/lib/libnpymath.a"),
    Case(
        "codecs",
        "imagecodecs/_imcd.abi3.so imagecodecs/_shared.abi3.so imagecodecs/_shared_cython.abi3.so "
        "imagecodecs/_blosc.abi3.so imagecodecs/_imagecodecs.py "
        "imagecodecs.libs/libzstd-1a2b.so.1 imagecodecs/_jpegxl.abi3.so "
        "imagecodecs/_jpeg8.abi3.so imagecodecs.libs/libjpeg-1a2b.so.8 "
        "imagecodecs.libs/libjxl-1a2b.so.0.12.0 imagecodecs.libs/libjxl_cms-1a2b.so.0.12.0 "
        "imagecodecs.libs/libjxl_threads-1a2b.so.0.12.0 "
        "imagecodecs.libs/libbrotlicommon-1a2b.so.1.2.0 imagecodecs.libs/liblcms2-1a2b.so.2.0.19",
        "imagecodecs/_blosc2.abi3.so imagecodecs/_zlibng.abi3.so imagecodecs/_jpegls.abi3.so "
        "imagecodecs.libs/libblosc2-1a2b.so.3 imagecodecs.libs/libaom-1a2b.so.3 "
        "imagecodecs.libs/libjxl_simd-1a2b.so.0 imagecodecs/licenses/LICENSE-aom",
    ),
    Case(
        "numpy",
        "numpy/_core/_multiarray_umath.cpython-313.so numpy/testing/__init__.py",
        "numpy/_core/_simd.cpython-313.so numpy/_core/_umath_tests.cpython-313.so numpy/f2py/rules.py",
    ),
    Case(
        "rasterio",
        "rasterio/_features.cpython-313.so rasterio/proj_data/proj.db "
        "rasterio/gdal_data/gdalvrt.xsd rasterio.libs/libgdal-1a2b.so.38",
        "rasterio/_example.cpython-313.so rasterio/shutil.cpython-313.so "
        "rasterio/gdal_data/epsg.wkt pyparsing/core.py pyparsing-3.dist-info/METADATA",
    ),
    Case(
        "pillow",
        "PIL/Image.py PIL/_imaging.cpython-313.so pillow.libs/libjpeg-1a2b.so.62 "
        "pillow.libs/libtiff-1a2b.so.6",
        "PIL/_avif.cpython-313.so PIL/_imagingft.cpython-313.so pillow.libs/libavif-1a2b.so.16",
    ),
    Case(
        "powertools",
        "aws_lambda_powertools/event_handler/openapi/swagger_ui/html.py",
        "aws_lambda_powertools/event_handler/openapi/swagger_ui/swagger-ui-bundle.min.js",
    ),
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_prune_leaves_out_what_its_rules_say(tmp_path: Path, case: Case) -> None:
    """Empty folders are left out as well."""
    for name in f"{case.stay} {case.go}".split():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    prune(tmp_path)

    assert {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()} == set(
        case.stay.split()
    )
    assert all(any(path.iterdir()) for path in tmp_path.rglob("*") if path.is_dir())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.paths)
def test_prune_has_an_example_of_every_rule(rule: Rule) -> None:
    """Every rule has an example that only this rule leaves out."""
    others = re.compile("|".join(f"(?:{other.paths})" for other in RULES if other != rule))

    assert [
        name
        for case in CASES
        for name in case.go.split()
        if re.fullmatch(rule.paths, name) and not others.fullmatch(name)
    ]
