// A row as a GeoTIFF without compression: raw values of the bands on display, one strip for each.
const [ASCII, SHORT, LONG, DOUBLE] = [2, 3, 4, 12];
const BYTES = { [ASCII]: 1, [SHORT]: 2, [LONG]: 4, [DOUBLE]: 8 };
const [UNSIGNED, SIGNED, FLOAT] = [1, 2, 3];
const KINDS = new Map([[Uint8Array, UNSIGNED], [Uint16Array, UNSIGNED], [Uint32Array, UNSIGNED], [Int8Array, SIGNED], [Int16Array, SIGNED], [Int32Array, SIGNED], [Float32Array, FLOAT], [Float64Array, FLOAT]]);
const [FIRST_GEOGRAPHIC, LAST_GEOGRAPHIC] = [4000, 4999]; // EPSG's codes of longitude and latitude, if the cube has no WKT

// `layers` are those of the bands. What is not valid keeps its stored value, which is nodata where there is one.
export async function geotiffOf(cube, bands, row, layers) {
  const { width, height } = cube.shown;
  const Numbers = new Set(layers.map(({ pixels }) => pixels.constructor)).size === 1 && KINDS.has(layers[0].pixels.constructor) ? layers[0].pixels.constructor : Float64Array;
  const isFormula = bands.some((band) => cube.formula(band));
  const strips = layers.map(({ pixels, mask }) => Numbers.from(pixels, (value, index) => (isFormula && !mask[index] ? NaN : value)));
  const [first] = bands.flatMap((band) => cube.namesOf(band));
  const nodata = isFormula ? [NaN] : await Promise.all(bands.map(async (band) => (await cube.validity(row, band)).nodata));
  const hasNodata = new Set(nodata.map(String)).size === 1 && (!Number.isNaN(nodata[0]) || KINDS.get(Numbers) === FLOAT);
  const tags = [
    [256, LONG, [width]],
    [257, LONG, [height]],
    [258, SHORT, bands.map(() => 8 * Numbers.BYTES_PER_ELEMENT)],
    [259, SHORT, [1]],
    [262, SHORT, [bands.length === 3 ? 2 : 1]],
    [273, LONG, bands.map(() => 0)],
    [277, SHORT, [bands.length]],
    [278, LONG, [height]],
    [279, LONG, strips.map(({ byteLength }) => byteLength)],
    [284, SHORT, [2]],
    [339, SHORT, bands.map(() => KINDS.get(Numbers))],
    ...await placeTags(cube, row, first),
    [42112, ASCII, text(metadata(cube, bands, await cube.time(row), await cube.coordinate("href", row, first)))],
    ...(hasNodata ? [[42113, ASCII, text(String(nodata[0]).toLowerCase())]] : []),
  ];
  return new Blob(written(tags, strips), { type: "image/tiff" });
}

// Where the row's pixels lie, and the code of its CRS; nothing that the cube does not say.
async function placeTags(cube, row, name) {
  const [transform, crs] = await Promise.all([cube.coordinate("transform", row, name), cube.coordinate("crs", row, name)]);
  if (!transform?.every(Number.isFinite)) return [];
  const [a, b, c, d, e, f] = [...transform].map((value, index) => (index % 3 === 2 ? value : value * cube.step));
  const found = [[34264, DOUBLE, [a, b, 0, c, d, e, 0, f, 0, 0, 0, 0, 0, 0, 0, 1]]];
  const code = Number(/^EPSG:(\d{4,5})$/.exec(crs)?.[1]);
  if (!code) return found;
  const wkt = cube.arrays.spatial_ref?.attributes.crs_wkt;
  const isGeographic = wkt ? /^GEOG/.test(wkt) : code >= FIRST_GEOGRAPHIC && code <= LAST_GEOGRAPHIC;
  const keys = [[1024, 0, 1, isGeographic ? 2 : 1], [1025, 0, 1, 1], [isGeographic ? 2048 : 3072, 0, 1, code]];
  return [...found, [34735, SHORT, [1, 1, 0, keys.length, ...keys.flat()]]];
}

function metadata(cube, bands, time, href) {
  const escaped = (value) => String(value).replace(/[&<>"]/g, (each) => `&#${each.codePointAt(0)};`);
  const items = bands.flatMap((band, sample) => {
    const { scale, offset } = cube.describe(band);
    const of = (name, value) => `<Item name="${name.toUpperCase()}" sample="${sample}" role="${name}">${escaped(value)}</Item>`;
    return [of("description", band), ...(scale === 1 && offset === 0 ? [] : [of("offset", offset), of("scale", scale)])];
  });
  if (time !== null) items.push(`<Item name="time">${new Date(time).toISOString()}</Item>`);
  if (href) items.push(`<Item name="href">${escaped(href)}</Item>`);
  return `<GDALMetadata>${items.join("")}</GDALMetadata>`;
}

const text = (value) => [...new TextEncoder().encode(value), 0];

// The file: its head, the directory, values that do not fit it, and the strips.
function written(tags, strips) {
  const even = (size) => size + (size % 2);
  const sizes = tags.map(([, kind, values]) => BYTES[kind] * values.length);
  const directory = 8 + 2 + 12 * tags.length + 4;
  const head = sizes.reduce((at, size) => (size > 4 ? even(at) + size : at), directory);
  const view = new DataView(new ArrayBuffer(Math.ceil(head / 8) * 8));
  const offsets = strips.map((_, index) => strips.slice(0, index).reduce((at, { byteLength }) => at + byteLength, view.byteLength));
  view.setUint32(0, 0x002a4949, true);
  view.setUint32(4, 8, true);
  view.setUint16(8, tags.length, true);
  let beyond = directory;
  tags.forEach(([tag, kind, values], index) => {
    const at = 10 + 12 * index;
    view.setUint16(at, tag, true);
    view.setUint16(at + 2, kind, true);
    view.setUint32(at + 4, values.length, true);
    let to = at + 8;
    if (sizes[index] > 4) {
      beyond = even(beyond);
      view.setUint32(to, beyond, true);
      to = beyond;
      beyond += sizes[index];
    }
    const put = { [ASCII]: "setUint8", [SHORT]: "setUint16", [LONG]: "setUint32", [DOUBLE]: "setFloat64" }[kind];
    (tag === 273 ? offsets : values).forEach((value, n) => view[put](to + n * BYTES[kind], value, true));
  });
  return [view.buffer, ...strips];
}
