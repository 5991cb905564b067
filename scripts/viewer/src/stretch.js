// Turns pixels into colours: valid pixels, percentiles, linear stretch, colour map. Invalid pixels become transparent.

const MOST_SAMPLES = 2 ** 18; // to sort them takes some 20 ms
const PERCENTILES = [2, 98];
const MIDDLE_OF_CLEAR = 40; // a percentile that is no cloud, mostly
const FAR = 4; // times the distance of percentile 2 from the middle
const ROUNDS = 3;
const MIDDLE = 128;

// A byte for each pixel: 1 if it is valid. The pixels are every `step`-th from column x and line y on.
export function maskOf(pixels, { status, nodata, left, top, right, bottom }, { x, y, width, step }) {
  const mask = new Uint8Array(pixels.length);
  if (status !== "ok") return mask;
  const [first, last] = [Math.max(Math.ceil((left - x) / step), 0), Math.min(Math.ceil((right - x) / step), width)];
  const lines = pixels.length / width;
  for (let line = Math.max(Math.ceil((top - y) / step), 0); line < lines && y + line * step < bottom; line++) {
    for (let index = line * width + first; index < line * width + last; index++) {
      const value = pixels[index];
      if (value === value && value !== nodata) mask[index] = 1;
    }
  }
  return mask;
}

// Percentiles 2 and 98 of the clear part of a sorted sample, between neighbours by linear interpolation; all values
// if most of them are equal. Clouds are bright, and would make the land dark. They are cut off in colours and in whole
// numbers. Fractions are mostly quantities without clouds. stretch.py has the same rule.
export function limitsOf(sample, { inColour = false } = {}) {
  if (!sample) return null;
  const hasClouds = inColour || !(sample instanceof Float32Array || sample instanceof Float64Array);
  const clear = hasClouds ? clearPart(sample) : sample;
  const [low, high] = PERCENTILES.map((each) => percentile(clear, each));
  return low < high ? [low, high] : [sample[0], sample[sample.length - 1]];
}

// Sorted values without those that lie far above most others.
function clearPart(sample) {
  for (let round = 0; round < ROUNDS; round++) {
    const [low, middle] = [PERCENTILES[0], MIDDLE_OF_CLEAR].map((each) => percentile(sample, each));
    const fence = middle + FAR * (middle - low);
    let clear = sample.length;
    while (sample[clear - 1] > fence) clear--;
    if (middle <= low || clear === sample.length) break;
    sample = sample.subarray(0, clear);
  }
  return sample;
}

function validIn({ mask }) {
  let n = 0;
  for (let index = 0; index < mask.length; index++) n += mask[index];
  return n;
}

// The valid pixels of some rows, or one in so many of them, sorted. Infinite ones have no place on a scale.
export function sampleOf(layers) {
  const n = layers.reduce((sum, each) => sum + validIn(each), 0);
  if (!n) return null;
  const every = Math.ceil(n / MOST_SAMPLES);
  const sample = new layers[0].pixels.constructor(Math.ceil(n / every));
  let valid = 0;
  for (const { pixels, mask } of layers) {
    for (let index = 0; index < mask.length; index++) {
      if (mask[index] && valid++ % every === 0) sample[(valid - 1) / every] = pixels[index];
    }
  }
  sample.sort();
  let [first, last] = [0, sample.length];
  while (first < last && sample[first] === -Infinity) first++;
  while (first < last && sample[last - 1] === Infinity) last--;
  return first < last ? sample.subarray(first, last) : null;
}

function percentile(sorted, each) {
  const place = (each / 100) * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

// 0 to 255 for each pixel, between two limits.
function levelsOf(pixels, [low, high]) {
  const levels = new Uint8Array(pixels.length);
  if (!(low < high)) return levels.fill(MIDDLE);
  const span = high - low;
  for (let index = 0; index < pixels.length; index++) {
    const share = (pixels[index] - low) / span;
    levels[index] = share >= 1 ? 255 : share > 0 ? share * 255 + 0.5 : 0;
  }
  return levels;
}

// Fill RGBA bytes from one layer through a colour map or the colours of classes, or from three as red, green and blue.
export function paint(bytes, layers, limits, map, classes) {
  bytes.fill(0);
  if (classes) return paintClasses(bytes, layers[0], classes);
  const levels = layers.map(({ pixels }, band) => levelsOf(pixels, limits[band]));
  const [red, green, blue] = levels.length === 3 ? levels : [levels[0], levels[0], levels[0]];
  const [reds, greens, blues] = levels.length === 3 ? [SAME, SAME, SAME] : [0, 1, 2].map((band) => map.filter((_, index) => index % 3 === band));
  const mask = layers.map((layer) => layer.mask).reduce((all, each) => all.map((is, index) => is & each[index]));
  for (let index = 0, to = 0; index < mask.length; index++, to += 4) {
    if (!mask[index]) continue;
    bytes[to] = reds[red[index]];
    bytes[to + 1] = greens[green[index]];
    bytes[to + 2] = blues[blue[index]];
    bytes[to + 3] = 255;
  }
}

const SAME = Uint8Array.from({ length: 256 }, (_, index) => index);

function paintClasses(bytes, { pixels, mask }, classes) {
  for (let index = 0; index < mask.length; index++) {
    const found = mask[index] ? classes.get(pixels[index]) : undefined;
    if (found) bytes.set([...found.colour, 255], index * 4);
    else if (mask[index]) bytes.set([128, 128, 128, 255], index * 4); // a class that no sampled row has
  }
}
