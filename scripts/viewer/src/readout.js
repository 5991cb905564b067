// The series as text: facts about the row on display, and a table for other programs.
import { nameOf } from "./bands.js";
import { sharesOf } from "./classes.js";
import { number, reason, toldApart, valueText, withUnit } from "./words.js";

export const isRectangle = ({ width, height }) => width * height > 1;

// Pairs of name and fact. `found` is the row's entry of the series, if it has been read.
export function factsOf(cube, bands, part, found, { label, classes, earth }) {
  const facts = [[isRectangle(part) ? "rectangle" : "pixel", placeInWords(part)]];
  const map = mapPlace(cube, part);
  if (map) facts.push([cube.attributes["proj:code"] ?? "on the map", map]);
  if (earth) facts.push(["longitude, latitude", degreesInWords(earth, part)]);
  facts.push(["row", label]);
  bands.forEach((band, index) => facts.push([nameOf(band), found ? valueInWords(found.values[index], cube.describe(band), part, classes) : "…"]));
  if (found) facts.push(["status", statusInWords(bands, found.values)]);
  return facts;
}

export async function csvOf(cube, bands, part, series) {
  const isPart = isRectangle(part);
  const columns = bands.flatMap((band) => [
    ...(isPart ? ["mean", "std", "min", "max", "n_valid"].map((each) => `${band}_${each}`) : [band]), `${band}_status`, `${band}_href`,
  ]);
  const lines = [["row", "time", ...columns].map(quoted).join(",")];
  for (const { row, time, values } of series) {
    const cells = [row, time === null ? "" : new Date(time).toISOString()];
    for (const [index, { status, n, mean, spread, min, max }] of values.entries()) {
      const hrefs = await Promise.all(cube.namesOf(bands[index]).map((name) => cube.coordinate("href", row, name)));
      const href = hrefs.filter(Boolean).join(" ");
      const figures = (isPart ? [mean, spread, min, max] : [mean]).map((each) => (n ? each : ""));
      cells.push(...figures, ...(isPart ? [n] : []), status, href);
    }
    lines.push(cells.map(quoted).join(","));
  }
  return `${lines.join("\n")}\n`;
}

function statusInWords(bands, values) {
  const failed = values.map(({ status }, index) => ({ band: bands[index], status })).filter(({ status }) => status !== "ok");
  const name = (band) => (bands.length > 1 ? `${band} ` : "");
  return failed.map(({ band, status }) => `${name(band)}${status.replaceAll("_", " ")}. ${reason(status)}`).join(" ") || "ok";
}

function placeInWords({ x, y, width, height }) {
  if (width * height === 1) return `column ${x}, line ${y}`;
  return `columns ${x} to ${x + width - 1}, lines ${y} to ${y + height - 1} (${width} × ${height} pixels)`;
}

// Longitude and latitude of the centre of a part, with as many digits as tell pixels apart.
export function degreesInWords(earth, { x, y, width, height }) {
  const digits = Math.max(2, Math.min(6, Math.ceil(-Math.log10(earth.metresPerPixel / 111_195))));
  return earth.at(x + width / 2, y + height / 2).map((each, axis) => (axis ? each : ((each + 540) % 360) - 180).toFixed(digits)).join(", ");
}

// Map coordinates of the centre of a part, if all rows share a grid.
export function mapPlace(cube, part) {
  const transform = cube.attributes["spatial:transform"];
  if (!transform) return null;
  const [column, line] = [part.x + part.width / 2, part.y + part.height / 2];
  const [a, b, c, d, e, f] = transform;
  const digits = Math.max(0, Math.min(8, Math.ceil(-Math.log10(Math.abs(a) || Math.abs(b))) + 1));
  return `${(a * column + b * line + c).toFixed(digits)}, ${(d * column + e * line + f).toFixed(digits)}`;
}

function valueInWords(found, described, part, classes) {
  if (found.status !== "ok") return "no value";
  if (!found.n) return isRectangle(part) ? "no valid pixel" : "nodata";
  const valid = `${number(found.n)} of ${number(part.width * part.height)} pixels valid`;
  if (classes) {
    const named = sharesOf(found).map(({ value, share }) => `${classes.get(value)?.name ?? value}${isRectangle(part) ? ` ${(100 * share).toFixed(1)} %` : ` (${value})`}`);
    return isRectangle(part) ? `most: ${named.slice(0, 4).join(", ")}${named.length > 4 ? ", …" : ""}, ${valid}` : named[0];
  }
  if (!isRectangle(part)) return valueText(found.mean, described);
  const { mean, spread, min, max } = inReals(found, described);
  const stored = described.isScaled ? ` (stored ${number(found.mean)})` : "";
  return `mean ${withUnit(number(mean), described.unit)}${stored}, standard deviation ${number(spread)}, ${toldApart([min, max]).join(" to ")}, ${valid}`;
}

// A summary in what the stored values mean, by scale and offset.
export function inReals(found, { isScaled, real, scale }) {
  if (!isScaled || !found.n) return found;
  const [min, max] = [real(found.min), real(found.max)].sort((a, b) => a - b);
  return { ...found, mean: real(found.mean), spread: found.spread * Math.abs(scale), min, max };
}

// Text as a cell. A leading = + - @ would make it a formula in spreadsheets; hrefs are the sources' own words.
function quoted(value) {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
