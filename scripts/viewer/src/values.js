// Pixels with the mask of those that are valid: of a row on display, or of a part of some rows. A band is a measurement
// or a formula of some.
import { maskOf } from "./stretch.js";

export async function readRow(cube, band, row) {
  return combined(cube, band, async (name) => {
    const [pixels, validity] = await Promise.all([cube.slice(name, row), cube.validity(row, name)]);
    const status = cube.isLost(name, row) ? "gone" : validity.status;
    return { pixels, mask: maskOf(pixels, { ...validity, status }, { x: 0, y: 0, width: cube.shown.width, step: cube.step }), status };
  });
}

// One entry for each row from `start` on.
export async function readPart(cube, band, part, start, stop) {
  const size = part.width * part.height;
  const blocks = new Map(await Promise.all(cube.namesOf(band).map(async (name) => [name, await cube.part(name, part, start, stop)])));
  return Promise.all(Array.from({ length: stop - start }, (_, index) => combined(cube, band, async (name) => {
    const pixels = blocks.get(name).subarray(index * size, (index + 1) * size);
    const validity = await cube.validity(start + index, name);
    const status = cube.isLost(name, start + index) ? "gone" : validity.status;
    return { pixels, mask: maskOf(pixels, { ...validity, status }, { ...part, step: 1 }), status };
  })));
}

// The averaged picture of a row; null if there is none. A formula is computed of averages.
export async function readQuicklook(cube, band, row, quicklooks) {
  const pictures = new Map(await Promise.all(cube.namesOf(band).map(async (name) => [name, await quicklooks.picture(cube, name, row)])));
  if (![...pictures.values()].every(Boolean)) return null;
  const [{ width, height, step }] = pictures.values();
  const layer = await combined(cube, band, (name) => {
    const { pixels } = pictures.get(name);
    return { pixels, mask: maskOf(pixels, cube.likelyValidity(name), { x: 0, y: 0, width, step }), status: "ok" };
  });
  return { ...layer, width, height, step };
}

async function combined(cube, band, read) {
  const formula = cube.formula(band);
  if (!formula) return read(band);
  const layers = await Promise.all(formula.names.map(read));
  const scaled = formula.names.map((name, index) => {
    const { scale, offset } = cube.describe(name);
    return [name, Float64Array.from(layers[index].pixels, (value) => value * scale + offset)];
  });
  const pixels = formula.evaluate(Object.fromEntries(scaled));
  const mask = new Uint8Array(pixels.length);
  for (let index = 0; index < mask.length; index++) mask[index] = Number.isFinite(pixels[index]) && layers.every((layer) => layer.mask[index]) ? 1 : 0;
  return { pixels, mask, status: layers.find(({ status }) => status !== "ok")?.status ?? "ok" };
}
