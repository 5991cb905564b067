// Values of one pixel, or mean and spread of a rectangle, for many rows.
import { readPart } from "./values.js";

const MOST_REQUESTS = 64;
const MOST_BYTES = 256 * 2 ** 20;
const SHARDS_AT_ONCE = 4;

// The rows around one that can be read at a fair cost, and what that costs. Whole shards, nearest first.
export function affordable(cube, shown, part, row, { isAll }) {
  const bands = [...new Set(shown.flatMap((band) => cube.namesOf(band)))];
  const rows = Math.max(...bands.map((band) => cube.layout(band).shardRows));
  const cost = (start, stop) => {
    const each = bands.map((band) => cube.costOf(band, part, start, stop));
    return { requests: sum(each.map(({ requests }) => requests)), bytes: sum(each.map(({ bytes }) => bytes)) };
  };
  const isFair = ({ requests, bytes }) => requests <= MOST_REQUESTS && bytes <= MOST_BYTES;
  const all = cost(0, cube.nRows);
  if (isAll || isFair(all)) return { start: 0, stop: cube.nRows, all };
  let start = row - (row % rows);
  let stop = Math.min(start + rows, cube.nRows);
  for (let grows = true; grows;) {
    const [lower, upper] = [Math.max(start - rows, 0), Math.min(stop + rows, cube.nRows)];
    grows = (lower < start || upper > stop) && isFair(cost(lower, upper));
    if (grows) [start, stop] = [lower, upper];
  }
  return { start, stop, all };
}

// Yield, shard by shard, one entry for each row: its time, and for each band its status and its values.
export async function readSeries(cube, bands, part, { start, stop }, { onRows, isOver }) {
  const rows = Math.max(...bands.flatMap((band) => cube.namesOf(band)).map((name) => cube.layout(name).shardRows));
  const starts = [];
  for (let from = start - (start % rows); from < stop; from += rows) starts.push(from);
  const work = async () => {
    for (let from = starts.shift(); from !== undefined && !isOver(); from = starts.shift()) {
      const [first, last] = [Math.max(from, start), Math.min(from + rows, stop)];
      const found = await rowsOf(cube, bands, part, first, last);
      if (!isOver()) onRows(found);
    }
  };
  await Promise.all(Array.from({ length: SHARDS_AT_ONCE }, work));
}

async function rowsOf(cube, bands, part, start, stop) {
  const layers = await Promise.all(bands.map((band) => readPart(cube, band, part, start, stop)));
  const times = await Promise.all(Array.from({ length: stop - start }, (_, index) => cube.time(start + index)));
  return times.map((time, index) => ({ row: start + index, time, values: layers.map((rows) => summary(rows[index])) }));
}

const MOST_COUNTED = 256; // different values: with more they are no classes

// Mean, standard deviation (of the population), extremes, number, and how often each value is there, of valid pixels.
export function summary({ pixels, mask, status }) {
  const found = { status, n: 0, mean: NaN, spread: NaN, min: NaN, max: NaN, counts: new Map() };
  if (status !== "ok") return found;
  let [min, max, mean, squares] = [Infinity, -Infinity, 0, 0];
  for (let index = 0; index < pixels.length; index++) {
    if (!mask[index]) continue;
    const value = pixels[index];
    found.n += 1;
    const away = value - mean; // Welford's sums keep their digits where values are large
    mean += away / found.n;
    squares += away * (value - mean);
    min = Math.min(min, value);
    max = Math.max(max, value);
    if (found.counts.size < MOST_COUNTED || found.counts.has(value)) found.counts.set(value, (found.counts.get(value) ?? 0) + 1);
  }
  return found.n ? Object.assign(found, { mean, spread: Math.sqrt(squares / found.n), min, max }) : found;
}

const sum = (values) => values.reduce((total, each) => total + each, 0);
