// Turns pixels into colours: percentiles, linear stretch, colour map. Invalid pixels become transparent.
import { isInside, isValid } from "./cube.js";

const MOST_SAMPLES = 2_000_000;
const PERCENTILES = [2, 98];
const MIDDLE = 128;

// The values of all valid pixels of a row's window.
export function validValues(pixels, validity, { width, step }) {
  if (validity.status !== "ok") return new Float64Array(0);
  const found = new Float64Array(pixels.length);
  let n = 0;
  for (let index = 0; index < pixels.length; index++) {
    const value = pixels[index];
    if (isValid(value, validity) && isInside(validity, (index % width) * step, Math.floor(index / width) * step)) found[n++] = value;
  }
  return found.subarray(0, n);
}

// Percentiles 2 and 98, between neighbours by linear interpolation; all values if most of them are equal.
export function limitsOf(values) {
  if (!values.length) return null;
  const every = Math.ceil(values.length / MOST_SAMPLES);
  const sorted = (every === 1 ? values.slice() : values.filter((_, index) => index % every === 0)).sort();
  const [low, high] = PERCENTILES.map((each) => percentile(sorted, each));
  if (low < high) return [low, high];
  return [sorted[0], sorted[sorted.length - 1]];
}

export function percentile(sorted, each) {
  const place = (each / 100) * (sorted.length - 1);
  const below = Math.floor(place);
  const above = Math.min(below + 1, sorted.length - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (place - below);
}

export function level(value, [low, high]) {
  if (!(low < high)) return MIDDLE;
  return Math.round(Math.min(Math.max((value - low) / (high - low), 0), 1) * 255);
}

// Fill RGBA bytes from one layer through a colour map, or from three as red, green and blue.
export function paint(bytes, layers, limits, map, { width, step }) {
  bytes.fill(0);
  if (layers.some(({ validity }) => validity.status !== "ok")) return;
  const n = layers[0].pixels.length;
  for (let index = 0; index < n; index++) {
    const x = (index % width) * step;
    const y = Math.floor(index / width) * step;
    if (!layers.every(({ pixels, validity }) => isValid(pixels[index], validity) && isInside(validity, x, y))) continue;
    const to = index * 4;
    if (layers.length === 1) {
      const from = level(layers[0].pixels[index], limits[0]) * 3;
      bytes[to] = map[from];
      bytes[to + 1] = map[from + 1];
      bytes[to + 2] = map[from + 2];
    } else {
      for (let band = 0; band < 3; band++) bytes[to + band] = level(layers[band].pixels[index], limits[band]);
    }
    bytes[to + 3] = 255;
  }
}
