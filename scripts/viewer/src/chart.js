// Draws a series as SVG: one line for each band, marks for rows without a value, a line at the row on display.
import { commonName } from "./bands.js";
import { inCss, sharesOf } from "./classes.js";
import { isGap, moment, number, toldApart } from "./words.js";

const NAMESPACE = "http://www.w3.org/2000/svg";
const EDGE = { left: 58, right: 16, top: 12, bottom: 44 };
const LETTER = 7; // width of a tick's letter
const MOST_BAR = 14;
const LEAST_TICKS = 2;
export const MOST_POINTS = 4000;
const MOST_DOTS = 500;
const ALONE_SHADE = 2; // half the width of the spread of a row between two gaps
const DAY = 86_400_000;
const MONTHS = [1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 2400, 6000, 12_000];

const LINES = { blue: 0, green: 1, red: 2, nir: 3 };

// The colour of a band's line: its own, if its name says one; else that which it has in the picture.
export const lineOf = (index, bands) => LINES[commonName(bands[index])] ?? (bands.length === 3 ? 2 - index : 0);

// Whether a value has a place on the axis: an infinite one has none.
const isKnown = ({ n, mean, spread = 0 }) => n > 0 && Number.isFinite(mean) && Number.isFinite(spread);

export function drawChart(svg, { rows, bands, row, isPart, hasTime, width, height: HEIGHT, classes, unit }) {
  svg.replaceChildren();
  svg.setAttribute("viewBox", `0 0 ${width} ${HEIGHT}`);
  const place = (each) => (hasTime ? each.time : each.row);
  // Later rows of a cube that has grown may have earlier times. A line goes forward in time.
  const drawn = rows.filter((each) => place(each) !== null).sort((one, other) => place(one) - place(other));
  if (!drawn.length) return () => null;
  const [first, last] = extremes(drawn.map(place));
  const valued = drawn.flatMap(({ values }) => values.filter(isKnown).flatMap(({ mean, spread }) => (isPart ? [mean - spread, mean + spread] : [mean])));
  let [low, high] = valued.length && !classes ? extremes(valued) : [0, 1];
  if (low === high) [low, high] = [low - 1, high + 1];
  const margin = classes ? 0 : (high - low) * 0.05;
  const values = ticks(low - margin, high + margin, 4);
  const labels = classes ? values.map((each) => `${Math.round(100 * each)} %`) : toldApart(values);
  const left = Math.max(EDGE.left, 16 + LETTER * Math.max(...labels.map(({ length }) => length)));
  const side = Math.min(MOST_BAR, Math.max(1, (0.8 * (width - left - EDGE.right)) / drawn.length));
  const aside = classes ? side / 2 : 0; // half of the first bar lies on this side of its date
  const x = (value) => left + aside + ((value - first) / (last - first || 1)) * (width - left - EDGE.right - 2 * aside);
  const y = (value) => HEIGHT - EDGE.bottom - ((value - low + margin) / (high - low + 2 * margin)) * (HEIGHT - EDGE.top - EDGE.bottom);
  const add = (name, attributes, text) => {
    const element = document.createElementNS(NAMESPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    svg.append(element);
    return element;
  };

  values.forEach((tick, index) => {
    add("path", { class: "grid", d: `M${left} ${y(tick).toFixed(1)}H${width - EDGE.right}` });
    add("text", { class: "tick y", x: left - 8, y: y(tick) + 4, "text-anchor": "end" }, labels[index]);
  });
  if (unit) add("text", { class: "tick", x: left, y: EDGE.top - 2 }, unit);
  const wanted = Math.max(2, Math.floor((width - left) / 110)); // a date takes 75
  let taken = 0; // what lies left of it is taken by labels
  for (const [value, text] of hasTime ? dates(first, last, wanted) : ticks(first, last, wanted).filter(Number.isInteger).map((each) => [each, number(each)])) {
    const half = (LETTER * text.length) / 2;
    const middle = Math.min(Math.max(x(value), left + half), width - half);
    if (middle - half < taken) continue;
    taken = middle + half + LETTER;
    add("path", { class: "axis", d: `M${x(value).toFixed(1)} ${HEIGHT - EDGE.bottom + 10}v5` });
    add("text", { class: "tick x", x: middle, y: HEIGHT - EDGE.bottom + 30, "text-anchor": "middle" }, text);
  }

  if (classes) {
    for (const each of thinned(drawn)) {
      const [found] = each.values;
      let base = 0;
      for (const { value, share } of found.n ? sharesOf(found).sort((one, other) => one.value - other.value) : []) {
        const colour = classes.get(value)?.colour ?? [128, 128, 128];
        add("rect", { class: "share", x: (x(place(each)) - side / 2).toFixed(1), width: side.toFixed(1), y: y(base + share).toFixed(1), height: (y(base) - y(base + share)).toFixed(1), fill: inCss(colour) });
        base += share;
      }
    }
  }
  (classes ? [] : bands).forEach((_, band) => {
    const line = lineOf(band, bands);
    const parts = unbroken(drawn, ({ values }) => isKnown(values[band]));
    const along = (each) => x(place(each));
    const at = ({ values }, side) => y(values[band].mean + side * values[band].spread).toFixed(1);
    const point = (each) => `${along(each).toFixed(1)} ${at(each, 0)}`;
    const shade = (part) => {
      const aside = part.length > 1 ? 0 : ALONE_SHADE; // a part of one row has no width
      const edge = (each, side, shift) => `${(along(each) + shift).toFixed(1)} ${at(each, side)}`;
      const up = [edge(part[0], 1, -aside), ...part.map((each) => edge(each, 1, aside))];
      const down = [edge(part[0], -1, -aside), ...part.map((each) => edge(each, -1, aside))].reverse();
      return `M${[...up, ...down].join("L")}Z`;
    };
    if (isPart && parts.length) add("path", { class: `spread band-${line}`, d: parts.map(shade).join("") });
    add("path", { class: `line band-${line}`, d: parts.map((part) => `M${part.map(point).join("L")}`).join("") });
    const all = parts.flat();
    const dotted = all.length <= MOST_DOTS ? all : parts.filter(({ length }) => length === 1).flat();
    if (dotted.length || !all.length) add("path", { class: `dots band-${line}`, d: dotted.map((each) => `M${point(each)}h0`).join("") });
  });

  const marks = (kind, chosen) => {
    const bottom = HEIGHT - EDGE.bottom;
    add("path", { class: kind, d: thinned(drawn.filter(chosen)).map((each) => `M${x(place(each)).toFixed(1)} ${bottom}v8`).join("") });
  };
  marks("empty", ({ values }) => values.every(({ status, n }) => status === "ok" && !n) || values.some(({ status }) => isGap(status)));
  marks("failed", ({ values }) => values.some(({ status }) => status !== "ok" && !isGap(status)));
  const current = drawn.find((each) => each.row === row);
  if (current) {
    add("path", { class: "now", d: `M${x(place(current)).toFixed(1)} ${EDGE.top}V${HEIGHT - EDGE.bottom}` });
    if (!classes) current.values.forEach((found, band) => isKnown(found) && add("circle", { class: `here band-${lineOf(band, bands)}`, cx: x(place(current)), cy: y(found.mean), r: 5 }));
  }
  const positions = drawn.map((each) => x(place(each)));
  return (position) => drawn[nearest(positions, position)].row;
}

function nearest(positions, position) {
  let best = 0;
  positions.forEach((each, index) => { if (Math.abs(each - position) < Math.abs(positions[best] - position)) best = index; });
  return best;
}

function extremes(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const each of values) [low, high] = [Math.min(low, each), Math.max(high, each)];
  return [low, high];
}

// The points of a line, in parts: it breaks where most rows between two points have no value.
function unbroken(rows, hasValue) {
  // Numbers of rows also count those that are still to be read. If times go back, numbers say nothing.
  const isInOrder = rows.every(({ row }, index) => !index || row > rows[index - 1].row);
  const points = rows.map((each, index) => ({ each, at: isInOrder ? each.row : index })).filter(({ each }) => hasValue(each));
  const every = Math.ceil(points.length / MOST_POINTS);
  const parts = [];
  let before = null;
  for (const { each, at } of thinned(points)) {
    const between = before === null ? 0 : at - before - 1;
    const isBroken = 2 * (between - every + 1) > between;
    if (before === null || isBroken) parts.push([]);
    parts.at(-1).push(each);
    before = at;
  }
  return parts;
}

function thinned(points) {
  const every = Math.ceil(points.length / MOST_POINTS);
  return every > 1 ? points.filter((_, index) => index % every === 0) : points;
}

export function ticks(low, high, wanted) {
  const rough = (high - low) / wanted;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const steps = [0.2, 0.5, 1, 2, 5, 10].map((each) => each * power);
  for (let size = steps.findIndex((each) => each >= rough); ; size -= 1) {
    const found = [];
    for (let each = Math.ceil(low / steps[size]) * steps[size]; each <= high + steps[size] * 1e-9; each += steps[size]) found.push(Number(each.toPrecision(12)));
    if (found.length >= LEAST_TICKS || !size) return found;
  }
}

function dates(first, last, wanted) {
  if (first === last) return [[first, moment(first).slice(0, 10)]];
  const days = (last - first) / DAY;
  if (days < 3) return ticks(first, last, wanted).map((each) => [each, moment(Math.round(each / 1000) * 1000).replace(" UTC", "").slice(5, 16)]);
  for (let size = MONTHS.findIndex((each) => days / 30.4 / each <= wanted); size >= 0 && days >= 60; size -= 1) {
    const found = beginnings(first, last, MONTHS[size]);
    if (found.length >= LEAST_TICKS) return found;
  }
  return ticks(first / DAY, last / DAY, wanted).filter(Number.isInteger).map((each) => [each * DAY, moment(each * DAY)]);
}

// The beginnings of every so many months between two times.
function beginnings(first, last, months) {
  const from = new Date(first);
  const found = [];
  for (let index = Math.ceil((from.getUTCFullYear() * 12 + from.getUTCMonth()) / months) * months; ; index += months) {
    const at = Date.UTC(Math.floor(index / 12), index % 12, 1);
    if (at > last) return found;
    if (at >= first) found.push([at, months % 12 ? moment(at).slice(0, 7) : moment(at).slice(0, 4)]);
  }
}
