// Reads a cube: its metadata, windows of a row, series of a pixel, coordinates of rows.
import { FetchStore, get, open, root, slice, withMaybeConsolidatedMetadata, withRangeCoalescing } from "zarrita";
import { isNamedClasses, redGreenBlue } from "./bands.js";
import { chunkBytes } from "./codecs.js";
import { parseFormula } from "./formula.js";
import { moment } from "./words.js";
import { MOST_CHUNK_BYTES } from "./zstd.js";

const MOST_GAP_BYTES = 128 * 1024; // reading this much in vain takes less time than one more request
const MOST_BLOCK_BYTES = 64 * 2 ** 20;
const MOST_CACHED_BYTES = 256 * 2 ** 20;
const MOST_CANVAS_PIXELS = 2 ** 24;
const BUSY = [429, 500, 502, 503, 504];
const PAUSES_MS = [250, 750, 2000];
const NO_TIME = -(2n ** 63n);

export class CubeError extends Error {}

export async function openCube(base) {
  const files = new FetchStore(base, { useSuffixRequest: true, fetch: fetchPart });
  let content;
  try {
    const early = await window.early?.metadata.catch(() => null);
    content = early?.ok ? new Uint8Array(await early.arrayBuffer()) : await files.get("/zarr.json");
  } catch (error) {
    throw new CubeError(`The cube beside this page cannot be read: ${error.message}`);
  }
  if (content === undefined) throw new CubeError("No cube lies beside this page: there is no zarr.json.");
  const metadata = JSON.parse(new TextDecoder().decode(content));
  if (!metadata.consolidated_metadata) {
    throw new CubeError("The cube beside this page is not finished. Its gather still runs, or was stopped.");
  }
  const lost = new Set();
  const store = {
    get: async (key, options) => (key === "/zarr.json" ? content : files.get(key, options)),
    getRange: async (key, range, options) => {
      const found = await files.getRange(key, range, options);
      if (found === undefined) lost.add(key);
      return found;
    },
  };
  const ranged = withRangeCoalescing(store, { coalesceSize: MOST_GAP_BYTES });
  return new Cube(await withMaybeConsolidatedMetadata(ranged, { format: "v3" }), metadata, lost);
}

// A store that is busy, or a line that broke, is asked again.
async function fetchPart(request) {
  let answer;
  for (const pause of [...PAUSES_MS, null]) {
    try {
      answer = await fetch(request.clone());
      if (!BUSY.includes(answer.status) || pause === null) break;
    } catch (error) {
      if (pause === null || error.name === "AbortError") throw error;
    }
    await new Promise((resolve) => { setTimeout(resolve, pause); });
  }
  if (request.headers.has("Range") && answer.status === 200) {
    throw new CubeError("This server sends whole files where parts are asked for. Serve the cube from one that answers byte ranges.");
  }
  return answer;
}

class Cube {
  constructor(store, { attributes, consolidated_metadata: { metadata } }, lost) {
    this.root = root(store);
    this.lost = lost; // keys of objects that are not there
    this.formulas = new Map();
    this.attributes = attributes;
    this.by = reducedBy(attributes); // what each row was reduced of, such as the scenes of a month
    this.arrays = { ...metadata, ...bandsOf(metadata, attributes) };
    this.measurements = Object.keys(this.arrays).filter((name) => isMeasurement(this.arrays[name]));
    if (!this.measurements.length) throw new CubeError("The cube beside this page has no measurement.");
    const first = this.arrays[this.measurements[0]];
    [this.nRows, this.height, this.width] = first.shape;
    this.dim = first.dimension_names[0];
    this.step = Math.ceil(Math.sqrt((this.height * this.width) / MOST_CANVAS_PIXELS));
    this.shown = { width: Math.ceil(this.width / this.step), height: Math.ceil(this.height / this.step) };
    this.opened = new Map();
    this.blocks = new Map();
    this.columns = new Map();
  }

  get hasTime() { return "time" in this.arrays; }

  describe(band) {
    if (!(band in this.arrays)) return { dtype: "float32", scale: 1, offset: 0, isScaled: false, real: (value) => value, unit: "" };
    const { attributes, data_type: dtype, fill_value: fill } = this.arrays[band];
    const unit = [undefined, "1"].includes(attributes.units) ? "" : attributes.units;
    const { scale_factor: scale = 1, add_offset: offset = 0 } = attributes;
    return { dtype, scale, offset, isScaled: scale !== 1 || offset !== 0, real: (value) => value * scale + offset, unit, hasNodata: "_FillValue" in attributes, fill };
  }

  // A band that is no measurement, as a formula of some; null for a measurement or a text that is no formula.
  formula(band) {
    if (this.measurements.includes(band)) return null;
    if (!this.formulas.has(band)) this.formulas.set(band, parseFormula(band, this.measurements));
    return this.formulas.get(band);
  }

  // The measurements that a band is made of.
  namesOf(band) { return this.formula(band)?.names ?? [band]; }

  // The measurements of a picture in true colour; null if nothing says which they are.
  get trueColour() {
    const said = Object.fromEntries(this.amounts.map((name) => [name, this.arrays[name].attributes.color_interpretation]));
    return redGreenBlue(this.amounts, said);
  }

  // Measurements that can be mixed as colours: classes cannot.
  get amounts() {
    return this.measurements.filter((name) => !isNamedClasses(name) && !("flag_values" in this.arrays[name].attributes));
  }

  // Whether the object that holds a row's pixels was asked for and is not there. Chunks without shards may be absent.
  isLost(name, row) {
    const { shardRows, isSharded } = this.layout(name);
    const start = `/${this.stored(name)}/c/${Math.floor(row / shardRows)}/`;
    return isSharded && [...this.lost].some((key) => key.startsWith(start));
  }

  // Name of the array that has a measurement: its own, or the one with an axis of bands.
  stored(name) { return this.arrays[name].axis?.name ?? name; }

  array(name) {
    if (!this.opened.has(name)) {
      this.checkChunks(name);
      this.opened.set(name, open.v3(this.root.resolve(this.stored(name)), { kind: "array" }).catch((error) => { throw notReadable(name, error); }));
    }
    return this.opened.get(name);
  }

  checkChunks(name) {
    const { chunkShape } = this.layout(name);
    const mebibytes = (chunkBytes(chunkShape, this.arrays[name].data_type) ?? 0) / 2 ** 20;
    if (mebibytes > MOST_CHUNK_BYTES / 2 ** 20) {
      throw new CubeError(`${name} has chunks of ${Math.ceil(mebibytes).toLocaleString("en")} MiB. This page reads chunks of at most ${MOST_CHUNK_BYTES / 2 ** 20} MiB.`);
    }
  }

  // Whether a row's pixels are here already, or on their way.
  hasSlice(name, row) {
    const rows = this.rowsAtOnce(name);
    return this.blocks.has(`${name}/${row - (row % rows)}`);
  }

  // Rows of the chunk that holds a row are read together, so that playing reads every chunk once.
  async slice(name, row) {
    const { bytes } = this.layout(name);
    const rows = this.rowsAtOnce(name);
    const start = row - (row % rows);
    const key = `${name}/${start}`;
    let block = this.blocks.get(key);
    this.blocks.delete(key); // the latest is last, and the first is dropped
    block ??= this.block(name, start, Math.min(start + rows, this.nRows));
    this.blocks.set(key, block);
    block.catch(() => this.blocks.delete(key));
    const size = this.shown.width * this.shown.height;
    while (this.blocks.size > 3 && this.blocks.size * rows * size * bytes > MOST_CACHED_BYTES) {
      this.blocks.delete(this.blocks.keys().next().value);
    }
    return (await block).subarray((row - start) * size, (row - start + 1) * size);
  }

  rowsAtOnce(name) {
    const { chunkRows, bytes } = this.layout(name);
    return chunkRows * this.shown.width * this.shown.height * bytes > MOST_BLOCK_BYTES ? 1 : chunkRows;
  }

  // Some of the rows that are read together with a row, evenly spread. To look at them takes no further request.
  rowsBeside(name, row, most) {
    const rows = this.rowsAtOnce(name);
    const start = row - (row % rows);
    const n = Math.min(rows, this.nRows - start);
    const length = Math.min(n, most);
    return Array.from({ length }, (_, index) => start + Math.floor((index * (n - 1)) / Math.max(length - 1, 1)));
  }

  async block(name, start, stop) {
    const step = this.step === 1 ? null : slice(null, null, this.step);
    return this.pixels(name, [slice(start, stop), step, step]);
  }

  async pixels(name, selection) {
    const array = await this.array(name);
    const { axis } = this.arrays[name];
    const [rows, ...onMap] = selection;
    try {
      return numbers((await get(array, axis ? [rows, axis.at, ...onMap] : selection)).data);
    } catch (error) {
      throw notReadable(name, error);
    }
  }

  layout(name) {
    const { chunk_grid: grid, codecs, data_type: dtype } = this.arrays[name];
    const [shardRows, shardHeight, shardWidth] = grid.configuration.chunk_shape;
    const sharding = codecs.find((each) => each.name === "sharding_indexed");
    const chunkShape = sharding?.configuration.chunk_shape ?? grid.configuration.chunk_shape;
    const [chunkRows, chunkHeight, chunkWidth] = chunkShape;
    return { isSharded: Boolean(sharding), shardRows, shardHeight, shardWidth, chunkShape, chunkRows, chunkHeight, chunkWidth, bytes: Number(/\d+$/.exec(dtype)?.[0] ?? 8) / 8 };
  }

  // What reading a part of some rows costs: requests and decoded bytes.
  costOf(name, part, start, stop) {
    const layout = this.layout(name);
    const count = (low, high, size) => Math.ceil(high / size) - Math.floor(low / size);
    const rows = count(start, stop, layout.chunkRows) * layout.chunkRows;
    const lines = count(part.y, part.y + part.height, layout.chunkHeight) * layout.chunkHeight;
    const columns = count(part.x, part.x + part.width, layout.chunkWidth) * layout.chunkWidth;
    const shards = count(start, stop, layout.shardRows)
      * count(part.y, part.y + part.height, layout.shardHeight) * count(part.x, part.x + part.width, layout.shardWidth);
    return { requests: (layout.isSharded ? 2 : 1) * shards, bytes: rows * lines * columns * layout.bytes };
  }

  async part(name, part, start, stop) {
    return this.pixels(name, [slice(start, stop), slice(part.y, part.y + part.height), slice(part.x, part.x + part.width)]);
  }

  // A coordinate's value of one row and, if it differs between them, one measurement. Reads the chunk that holds it.
  async coordinate(name, row, measurement) {
    if (!(name in this.arrays)) return undefined;
    const chunk = await this.coordinates(name, row);
    const others = this.arrays[name].shape.slice(1);
    const values = others.reduce((product, each) => product * each, 1);
    const start = (row - chunk.start) * values;
    const isEach = ["measurement", "band"].includes(this.arrays[name].dimension_names[1]);
    const perMeasurement = isEach ? values / this.measurements.length : values;
    const from = start + (isEach ? this.measurements.indexOf(measurement) * perMeasurement : 0);
    return perMeasurement === 1 ? at(chunk.data, from) : Array.from({ length: perMeasurement }, (_, each) => at(chunk.data, from + each));
  }

  async coordinates(name, row) {
    const rows = this.arrays[name].chunk_grid.configuration.chunk_shape[0];
    const start = row - (row % rows);
    const key = `${name}/${start}`;
    if (!this.columns.has(key)) {
      const read = async () => {
        const others = this.arrays[name].shape.slice(1).map(() => null);
        try {
          const { data } = await get(await this.array(name), [slice(start, Math.min(start + rows, this.nRows)), ...others]);
          return { start, data };
        } catch (error) {
          this.columns.delete(key);
          throw notReadable(name, error);
        }
      };
      this.columns.set(key, read());
      if (this.columns.size > 64) this.columns.delete(this.columns.keys().next().value);
    }
    return this.columns.get(key);
  }

  // The moment of a row in milliseconds; null if it has none.
  async time(row) {
    const value = this.hasTime ? await this.coordinate("time", row) : NO_TIME;
    return value === NO_TIME ? null : Number(value / 1000n);
  }

  // A moment of a row as text. Months and years have no day.
  named(milliseconds) {
    return moment(milliseconds).slice(0, { month: 7, year: 4 }[this.by]);
  }

  // Where the pixels of a row come from: its file, or how many files were reduced to it.
  async origin(row, measurement) {
    if (!this.by) return this.coordinate("href", row, measurement);
    const [used, failed] = await Promise.all(["sources_used", "sources_failed"].map((name) => this.coordinate(name, row, measurement)));
    return `${used} read${Number(failed) ? `, ${failed} failed` : ""}`;
  }

  async status(row, measurement) {
    const code = await this.coordinate("status", row, measurement);
    if (code === undefined) return "ok";
    const { flag_values: values, flag_meanings: names } = this.arrays.status.attributes;
    return names.split(" ")[values.indexOf(Number(code))] ?? "not_gathered"; // the fill value, in rows that only fill up a shard
  }

  // What tells valid pixels as long as the coordinates of a row are on their way.
  likelyValidity(measurement) {
    const { hasNodata, fill } = this.describe(measurement);
    return { status: "ok", nodata: hasNodata ? Number(numberOf(fill)) : NaN, left: 0, top: 0, right: this.width, bottom: this.height };
  }

  // What tells a row's valid pixels: its status, its nodata and the edges of its source.
  async validity(row, measurement) {
    const edges = ["inside_x_start", "inside_y_start", "inside_x_stop", "inside_y_stop"];
    const of = (name) => this.coordinate(name, row, measurement);
    const [status, own, ...inside] = await Promise.all([this.status(row, measurement), of("nodata"), ...edges.map(of)]);
    const { hasNodata, fill } = this.describe(measurement);
    const nodata = own ?? (hasNodata ? numberOf(fill) : NaN);
    const [left, top, right, bottom] = inside[0] === undefined ? [0, 0, this.width, this.height] : inside;
    return { status, nodata: Number(nodata), left, top, right, bottom };
  }
}

// The bands of an array with an axis of them, described as if each had an array of its own.
function bandsOf({ bands: whole }, attributes) {
  if (whole?.dimension_names?.[1] !== "band") return {};
  const without = (lengths) => lengths.toSpliced(1, 1);
  const cut = (configuration) => ({ configuration: { ...configuration, chunk_shape: without(configuration.chunk_shape) } });
  const codecs = whole.codecs.map((each) => (each.name === "sharding_indexed" ? { ...each, ...cut(each.configuration) } : each));
  const described = { ...whole, codecs, shape: without(whole.shape), dimension_names: without(whole.dimension_names), chunk_grid: cut(whole.chunk_grid.configuration) };
  const names = JSON.parse(attributes.pixel_gather).report.measurements;
  return Object.fromEntries(names.map((name, at) => [name, { ...described, axis: { name: "bands", at } }]));
}

// A gather's record has it in its template. Copies of joined cubes tell it themselves, and joined cubes in their kind.
function reducedBy({ pixel_gather: told, pixel_gather_join: joined }) {
  const text = told ?? joined;
  const record = typeof text === "string" ? JSON.parse(text) : {};
  return (record.template ?? record.kind ?? record).reduce?.by ?? null;
}

function isMeasurement({ shape, dimension_names: dims }) {
  return shape.length === 3 && dims?.[1] === "y" && dims[2] === "x";
}

function at(data, index) {
  return typeof data.get === "function" ? data.get(index) : data[index];
}

function numbers(data) {
  if (data instanceof BigInt64Array || data instanceof BigUint64Array) return Float64Array.from(data, Number);
  return typeof data.get === "function" ? Uint8Array.from(data) : data;
}

function numberOf(fill) {
  const named = { NaN, Infinity, "-Infinity": -Infinity };
  return typeof fill === "string" && fill in named ? named[fill] : Number(fill);
}

function notReadable(name, error) {
  for (let cause = error; cause; cause = cause.cause) if (cause instanceof CubeError) return cause;
  const said = [error?.message ?? error, error?.cause?.message].filter(Boolean).join(": ");
  if (/complex/i.test(said)) return new CubeError(`${name} has complex numbers. This page cannot show them.`);
  const codec = /Unknown codec: (\S+)/.exec(said)?.[1];
  if (codec) return new CubeError(`${name} is compressed by ${codec}. This page reads blosc, zstd, deflate and uncompressed pixels. In Python, pixel_gather.open_cube opens the cube.`);
  return new CubeError(`${name} cannot be read: ${said}`);
}
