// What lies under the pointer: values of all bands, where it is, when it was.
import { nameOf } from "./bands.js";
import { $ } from "./elements.js";
import { degreesInWords, mapPlace } from "./readout.js";
import { readRow } from "./values.js";
import { valueText } from "./words.js";

const REST_MS = 200; // a pointer that rests so long asks for the bands that are not on display
const MOST_BANDS = 12;
const MOST_BYTES = 8 * 2 ** 20;

export class Probe {
  constructor(cube, earth) {
    Object.assign(this, { cube, earth, row: 0, layers: new Map(), classes: null, timer: null, ticket: 0 });
  }

  // Take what is on display: the layer of each band.
  take(row, bands, layers, classes) {
    if (row !== this.row) this.layers.clear();
    bands.forEach((band, index) => this.layers.set(band, layers[index]));
    Object.assign(this, { row, classes, bands });
    this.tell();
  }

  point(pixel) {
    this.pixel = pixel;
    this.tell();
    clearTimeout(this.timer);
    if (pixel) this.timer = setTimeout(() => this.readOthers(), REST_MS);
  }

  async readOthers() {
    const { cube, row } = this;
    const isSmall = (name) => cube.hasSlice(name, row) || cube.rowsAtOnce(name) * cube.width * cube.height * cube.layout(name).bytes <= MOST_BYTES;
    const others = cube.measurements.slice(0, MOST_BANDS).filter((name) => !this.layers.has(name) && isSmall(name));
    const ticket = ++this.ticket;
    const layers = await Promise.all(others.map((name) => readRow(cube, name, row))).catch(() => []);
    if (ticket !== this.ticket || row !== this.row) return;
    layers.forEach((layer, index) => this.layers.set(others[index], layer));
    this.tell();
  }

  tell() {
    const { cube, earth, layers, pixel } = this;
    $("probe").classList.toggle("empty", !pixel);
    if (!pixel) { $("probe").textContent = "Point at the picture to read its values."; return; }
    const step = cube.step;
    const index = Math.floor(pixel.y / step) * cube.shown.width + Math.floor(pixel.x / step);
    const part = { ...pixel, width: 1, height: 1 };
    const values = [...layers].map(([band, layer]) => `${nameOf(band)} ${this.valueOf(band, layer, index)}`);
    const places = [`column ${pixel.x}, line ${pixel.y}`, mapPlace(cube, part), earth && degreesInWords(earth, part)].filter(Boolean);
    $("probe").textContent = `${values.join(" · ")} — ${$("label").textContent} — ${places.join(" · ")}`;
  }

  valueOf(band, { mask, pixels, status }, index) {
    if (status !== "ok") return status.replaceAll("_", " ");
    if (!mask[index]) return "nodata";
    const found = this.classes && band === this.bands[0] ? this.classes.get(pixels[index])?.name : null;
    return found ? `${pixels[index]}, ${found}` : valueText(pixels[index], this.cube.describe(band));
  }
}
