"""The page view.html as it is stored: small, strict, in the report's colours, and built from its source."""

import base64
import hashlib
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import imagecodecs
import numpy as np
import pytest

from build_viewer import SOURCE, build_viewer
from cube.test_bounded_codecs import zstd_bomb
from infra.node_tools import node_environment, node_modules
from pixel_gather.io.cube.written_report import BUILT_PAGE, view_page
from pixel_gather.io.pictures.theme import DARK, LIGHT

_MOST_NBYTES = 150_000
"""It lies beside every cube."""

_DECODE = """
import { readFileSync } from "node:fs";
import { decodeBlosc } from "./src/blosc.js";
const differing = [];
for (const { name, encoded, decoded } of JSON.parse(readFileSync(process.argv[1]))) {
  const found = Buffer.from(decodeBlosc(new Uint8Array(Buffer.from(encoded, "base64")))).toString("base64");
  if (found !== decoded) differing.push(name);
}
console.log(JSON.stringify(differing));
"""

_REFUSE = """
import { readFileSync } from "node:fs";
import { decodeBlosc } from "./src/blosc.js";
import { decodeZstd } from "./src/zstd.js";
const decoders = { blosc: decodeBlosc, zstd: decodeZstd };
const told = {};
for (const { name, decoder, encoded, most } of JSON.parse(readFileSync(process.argv[1]))) {
  try {
    const decoded = decoders[decoder](new Uint8Array(Buffer.from(encoded, "base64")), most);
    told[name] = Buffer.from(decoded).toString("base64");
  } catch (error) {
    told[name] = error.message;
  }
}
console.log(JSON.stringify({ told, mebibytes: process.resourceUsage().maxRSS / 1024 }));
"""


def test_page_is_small_and_allows_only_itself() -> None:
    """Its policy names its own origin, and the digests of its two scripts and its one style."""
    page = view_page().decode()
    script, style = (re.findall(f"<{each}>(.*?)</{each}>", page, re.DOTALL) for each in ("script", "style"))

    def digest(content: str) -> str:
        return f"'sha256-{base64.standard_b64encode(hashlib.sha256(content.encode()).digest()).decode()}'"

    assert len(page.encode()) < _MOST_NBYTES
    assert (len(script), len(style)) == (2, 1)
    policy = re.findall('http-equiv="Content-Security-Policy" content="([^"]+)"', page)
    digests = f"script-src {digest(script[0])} {digest(script[1])}; style-src {digest(style[0])}"
    assert policy == [f"default-src 'self'; {digests}; base-uri 'none'; form-action 'none'"]
    assert not re.search(r"\seval\(|new Function|https?://(?!www\.w3\.org/2000/svg)", "".join(script))


@pytest.mark.parametrize("name", ["zarrita", "@zarrita/storage", "fzstd"])
def test_page_has_the_licence_of_each_package(name: str) -> None:
    """All are MIT, which asks for that."""
    version = json.loads((SOURCE / "package-lock.json").read_text())["packages"][f"node_modules/{name}"][
        "version"
    ]
    licences = view_page().decode().partition("<!-- Licences")[2]

    assert f"=== {name} {version} ===\n\nMIT License" in licences
    assert licences.count("Permission is hereby granted") == 3


def test_page_has_the_colours_of_the_report() -> None:
    """Light and dark, from the same theme."""
    style = (SOURCE / "src" / "view.css").read_text()
    wanted = set(re.findall(r"var\(--figure-(\w+)\)", style))

    for theme, times in ((LIGHT, 1), (DARK, 2)):
        for name in wanted:
            assert style.count(f"--figure-{name}: {getattr(theme, name)};") >= times, name


@pytest.mark.slow
def test_page_is_built_from_its_source(tmp_path: Path) -> None:
    """After a change in scripts/viewer, run ``python -m scripts.build_viewer``."""
    built = tmp_path / "view.html"

    build_viewer(built)

    assert built.read_bytes() == BUILT_PAGE.read_bytes()


@pytest.mark.long
def test_decoder_gives_back_what_c_blosc_has_encoded(tmp_path: Path) -> None:
    """Every inner codec, shuffle and size of values; blocks with remainders; noise, which is only copied."""
    random = np.random.default_rng(1)
    cases = []
    for itemsize in (1, 2, 4, 8, 16):
        for n_values in (1, 7, 4_096, 40_001):
            ramp = np.repeat(np.arange(-(-n_values * itemsize // 16), dtype="<u4"), 4).tobytes()[
                : n_values * itemsize
            ]
            noise = random.bytes(n_values * itemsize)
            mixed = (ramp[: len(ramp) // 2] + noise)[: len(ramp)]
            for kind, content in (("noise", noise), ("mixed", mixed)):
                for compressor in ("lz4", "zstd"):
                    for shuffle in ("noshuffle", "shuffle", "bitshuffle"):
                        encoded = imagecodecs.blosc_encode(
                            content,
                            level=5,
                            compressor=compressor,
                            shuffle=shuffle,
                            typesize=itemsize,
                            numthreads=1,
                        )
                        cases.append(
                            (f"{itemsize} {n_values} {kind} {compressor} {shuffle}", encoded, content)
                        )
    text = [
        {
            "name": name,
            **{
                key: base64.standard_b64encode(part).decode()
                for key, part in (("encoded", encoded), ("decoded", decoded))
            },
        }
        for name, encoded, decoded in cases
    ]
    assert _run_in_node(_DECODE, text, tmp_path) == []


@pytest.mark.slow
def test_decoders_refuse_what_unpacks_to_more_than_its_chunk(tmp_path: Path) -> None:
    """Zstandard that says its size, that does not, that looks far back; Blosc; Zstandard inside of Blosc."""
    small = b"pixels of a chunk " * 50
    whole = bytes(imagecodecs.zstd_encode(small))
    lying = bytearray(imagecodecs.blosc_encode(bytes(1 << 16), compressor="zstd", numthreads=1))
    lying[4:8] = (1 << 31).to_bytes(4, "little")
    inner = bytes(
        imagecodecs.blosc_encode(small * 20, level=5, compressor="zstd", shuffle="noshuffle", typesize=1)
    )
    start = int.from_bytes(inner[16:20], "little") + 4
    bomb = zstd_bomb(says_its_size=False)
    nested = inner[: start - 4] + len(bomb).to_bytes(4, "little") + bomb
    streamed = _stream(small)
    cases = [
        ("sound", "zstd", whole, len(small)),
        ("sound stream", "zstd", streamed, len(small)),
        ("bomb", "zstd", zstd_bomb(says_its_size=True), 1 << 20),
        ("stream", "zstd", bomb, 1 << 20),
        ("far back", "zstd", b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00", 1 << 20),
        ("blosc", "blosc", bytes(lying), 1 << 20),
        ("nested", "blosc", nested, 1 << 20),
    ]
    text = [
        {"name": name, "decoder": decoder, "encoded": base64.b64encode(encoded).decode(), "most": most}
        for name, decoder, encoded, most in cases
    ]

    answer = _run_in_node(_REFUSE, text, tmp_path)

    expected = dict.fromkeys((name for name, *_ in cases), "a chunk unpacks to more than its array says")
    expected |= dict.fromkeys(("sound", "sound stream"), base64.b64encode(small).decode())
    assert answer["told"] == expected
    assert answer["mebibytes"] < 250


def _stream(content: bytes) -> bytes:
    """Return a frame of one raw block that does not say its size (RFC 8878, section 3.1.1)."""
    return b"\x28\xb5\x2f\xfd\x00\x38" + (1 | len(content) << 3).to_bytes(3, "little") + content


def _run_in_node(script: str, cases: Any, folder: Path) -> Any:
    """Return what a script tells about a JSON file."""
    (folder / "cases.json").write_text(json.dumps(cases))
    node_modules(SOURCE)
    told = subprocess.run(  # noqa: S603 # the lines above
        ["node", "--input-type=module", "-e", script, str(folder / "cases.json")],  # noqa: S607 # node_environment says which
        cwd=SOURCE,
        env=node_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)
