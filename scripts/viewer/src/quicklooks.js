// Small averaged pictures of rows, from quicklooks.npz beside the arrays: an uncompressed ZIP file of NumPy arrays, of which
// only the directory at the end and the pictures on display are read.
const DESCRIPTOR_BYTES = 24;
const MOST_PICTURE_BYTES = 2 ** 20;

const ARRAYS = { int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array, uint32: Uint32Array, float32: Float32Array, float64: Float64Array };

export class Quicklooks {
  constructor(base) {
    this.url = new URL("quicklooks.npz", base).href;
    this.opened = this.open().catch(() => null);
    this.pictures = new Map();
  }

  async open() {
    const { bytes, start } = await partIn(await window.early.quicklooks); // its directory, and the last pictures
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
    return partIn(await fetch(this.url, { headers: { Range: range }, cache: "no-store" })); // others make parts of one file wait for each other
  }

  // Some bytes of an entry.
  async part(entry, from, to) {
    const content = entry.to - entry.after - entry.size;
    const [first, last] = [content + from, content + to];
    const { bytes, start } = await this.opened;
    if (first >= start) return bytes.slice(first - start, last - start);
    return (await this.read(`bytes=${first}-${last - 1}`)).bytes;
  }

  // Pixels of a measurement in a row, with their width and the distance between them; null if there is no picture.
  picture(cube, name, row) {
    const key = `${name}/${row}`;
    if (!this.pictures.has(key)) this.pictures.set(key, this.unpacked(cube, name, row).catch(() => null));
    return this.pictures.get(key);
  }

  async unpacked(cube, name, row) {
    const opened = await this.opened;
    const [pixels, rows] = [opened?.entries.get(`pixels/${name}.npy`), opened?.entries.get(`rows/${name}.npy`)];
    const Numbers = ARRAYS[cube.arrays[name].data_type];
    if (!pixels?.isStored || !rows?.isStored || !Numbers) return null;
    const { width, height } = cube;
    const step = Math.ceil(Math.max(width, height) / 128);
    const [columns, lines] = [Math.ceil(width / step), Math.ceil(height / step)];
    const size = columns * lines * Numbers.BYTES_PER_ELEMENT;
    const count = Math.floor(pixels.size / size);
    if (size > MOST_PICTURE_BYTES || !count) return null;
    const listed = await this.part(rows, rows.size - 8 * count, rows.size);
    const index = [...new BigInt64Array(listed.buffer)].indexOf(BigInt(row));
    if (index < 0) return null;
    const from = pixels.size - (count - index) * size;
    return { pixels: new Numbers((await this.part(pixels, from, from + size)).buffer), width: columns, height: lines, step };
  }
}

async function partIn(answer) {
  if (answer.status !== 206) throw new Error("no quicklooks");
  return { bytes: new Uint8Array(await answer.arrayBuffer()), start: Number(/bytes (\d+)-/.exec(answer.headers.get("Content-Range"))[1]) };
}

function lastOf(view, signature) {
  for (let at = view.byteLength - 22; at >= 0; at--) if (view.getUint32(at, true) === signature) return at;
  throw new Error("no ZIP file");
}
