// Small averaged pictures of rows, from quicklooks.npz beside the arrays: an uncompressed ZIP file of NumPy arrays, of which
// only the directory at the end and the pictures on display are read.
const DESCRIPTOR_BYTES = 24;
const MOST_PICTURE_BYTES = 2 ** 20;

const ARRAYS = { int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };

export class Quicklooks {
  constructor(base) {
    this.url = new URL("quicklooks.npz", base).href;
    this.opening = null;
    if (window.early.quicklooks) this.opened(); // its directory is on its way
    this.pictures = new Map();
    this.rows = new Map();
  }

  opened() {
    this.opening ??= this.open().catch(() => null);
    return this.opening;
  }

  async open() {
    const { bytes, start } = await (window.early.quicklooks ? partIn(window.early.quicklooks) : this.read("bytes=-65536")); // its directory, and the last pictures
    const view = new DataView(bytes.buffer);
    const end = lastOf(view, 0x06054b50);
    const entries = new Map();
    let at = view.getUint32(end + 16, true) - start;
    const directory = at + start;
    let before = null;
    for (let left = view.getUint16(end + 10, true); left > 0 && at >= 0; left--) {
      const [size, name, extra, comment] = [view.getUint32(at + 24, true), ...[28, 30, 32].map((each) => view.getUint16(at + each, true))];
      const entry = { size, from: view.getUint32(at + 42, true), isStored: view.getUint16(at + 10, true) === 0, to: directory, after: view.getUint16(at + 8, true) & 8 ? DESCRIPTOR_BYTES : 0 };
      if (before) before.to = entry.from;
      before = entry;
      entries.set(new TextDecoder().decode(bytes.subarray(at + 46, at + 46 + name)), entry);
      at += 46 + name + extra + comment;
    }
    return { bytes, start, entries };
  }

  async read(range) {
    return partIn(fetch(this.url, { headers: { Range: range }, cache: "no-store" })); // others make parts of one file wait for each other
  }

  // Some bytes of an entry.
  async part(entry, from, to) {
    const { first, last } = this.at(entry, from, to);
    const { bytes, start } = await this.opened();
    if (first >= start) return bytes.slice(first - start, last - start);
    return (await this.read(`bytes=${first}-${last - 1}`)).bytes;
  }

  at(entry, from, to) {
    const content = entry.to - entry.after - entry.size;
    return { first: content + from, last: content + to };
  }

  // The pictures of a link's row, which first.js has asked for because the link says where they are.
  take(cube, { row, bands }) {
    const { digest, pictures } = window.early;
    const names = namesOf(cube, bands);
    if (digest !== digestOf(cube) || pictures.length !== names.length) return;
    names.forEach((name, index) => {
      const found = partIn(pictures[index]).then(({ bytes }) => pictureOf(cube, name, bytes));
      this.pictures.set(`${name}/${row}`, found.catch(() => this.unpacked(cube, name, row)).catch(() => null));
    });
  }

  // What a link says of the pictures of a row: the digest of the cube's pixels, and the place of each. Null if one has none.
  async link(cube, bands, row) {
    const digest = digestOf(cube);
    const names = namesOf(cube, bands);
    if (!digest || names.length > MOST_PICTURES || names.some((each) => !cube.arrays[each])) return null;
    const places = await Promise.all(names.map((each) => this.place(cube, each, row).catch(() => null)));
    if (!places.every(Boolean)) return null;
    return `${digest}:${places.map(({ pixels, from, to }) => this.at(pixels, from, to)).map(({ first, last }) => `${first}-${last - 1}`).join(",")}`;
  }

  // Pixels of a measurement in a row, with their width and the distance between them; null if there is no picture.
  picture(cube, name, row) {
    const key = `${name}/${row}`;
    if (!this.pictures.has(key)) this.pictures.set(key, this.unpacked(cube, name, row).catch(() => null));
    return this.pictures.get(key);
  }

  async unpacked(cube, name, row) {
    const place = await this.place(cube, name, row);
    return place && pictureOf(cube, name, await this.part(place.pixels, place.from, place.to));
  }

  // Where a picture is in its entry; null if there is none.
  async place(cube, name, row) {
    const opened = await this.opened();
    const [pixels, rows] = [opened?.entries.get(`pixels/${name}.npy`), opened?.entries.get(`rows/${name}.npy`)];
    const shape = shapeOf(cube, name);
    if (!pixels?.isStored || !rows?.isStored || !shape) return null;
    const count = Math.floor(pixels.size / shape.size);
    if (shape.size > MOST_PICTURE_BYTES || !count) return null;
    if (!this.rows.has(name)) this.rows.set(name, this.part(rows, rows.size - 8 * count, rows.size));
    const index = [...new BigInt64Array((await this.rows.get(name)).buffer)].indexOf(BigInt(row));
    const from = pixels.size - (count - index) * shape.size;
    return index < 0 ? null : { pixels, from, to: from + shape.size };
  }
}

// The measurements of bands, each once.
const namesOf = (cube, bands) => [...new Set(bands.flatMap((band) => cube.namesOf(band)))];

function shapeOf(cube, name) {
  const Numbers = ARRAYS[cube.arrays[name].data_type];
  const { width, height } = cube;
  const step = Math.ceil(Math.max(width, height) / 128);
  const [columns, lines] = [Math.ceil(width / step), Math.ceil(height / step)];
  return Numbers && { Numbers, step, width: columns, height: lines, size: columns * lines * Numbers.BYTES_PER_ELEMENT };
}

function pictureOf(cube, name, bytes) {
  const { Numbers, step, width, height, size } = shapeOf(cube, name);
  if (bytes.length !== size) throw new Error("no picture");
  return { pixels: new Numbers(bytes.slice().buffer), width, height, step };
}

// The beginning of the digest of all pixels, which says whether a link is of this version of the cube; "" if none is known.
function digestOf({ attributes }) {
  try {
    return JSON.parse(attributes.pixel_gather).report.digest.slice(0, 12);
  } catch {
    return "";
  }
}

async function partIn(asked) {
  const answer = await asked;
  if (answer.status !== 206) throw new Error("no quicklooks");
  return { bytes: new Uint8Array(await answer.arrayBuffer()), start: Number(/bytes (\d+)-/.exec(answer.headers.get("Content-Range"))[1]) };
}

function lastOf(view, signature) {
  for (let at = view.byteLength - 22; at >= 0; at--) if (view.getUint32(at, true) === signature) return at;
  throw new Error("no ZIP file");
}
