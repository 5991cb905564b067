// What is selected, its series of all rows, and the chart of it.
import { nameOf } from "./bands.js";
import { drawChart, lineOf, MOST_POINTS } from "./chart.js";
import { inCss } from "./classes.js";
import { save } from "./download.js";
import { $, made, say } from "./elements.js";
import { csvOf, factsOf, inReals, isRectangle } from "./readout.js";
import { affordable, readSeries } from "./series.js";
import { bytes, isGap, number, shownHref } from "./words.js";

const MOST_OFTEN_MS = 200; // many shards may arrive at once

export class Selection {
  constructor(cube, view, earth) {
    this.cube = cube;
    this.view = view;
    this.earth = earth;
    this.classes = null; // of the band on display
    this.bands = view.bands;
    this.series = [];
    this.ticket = 0;
    this.rowAt = () => null;
  }

  mark(part) {
    $("mark").hidden = !part;
    if (!part) return;
    const { width, height } = this.cube;
    const place = { left: (part.x + part.width / 2) / width, top: (part.y + part.height / 2) / height, width: part.width / width, height: part.height / height };
    for (const [side, share] of Object.entries(place)) $("mark").style[side] = `${100 * share}%`;
  }

  // Read the series of a part of the window, or drop the selection.
  async select(part, { isAll = false } = {}) {
    const { cube, view } = this;
    view.part = part;
    this.mark(part);
    $("hint").hidden = Boolean(part);
    $("chart-frame").hidden = !part;
    this.series = [];
    this.bands = [...view.bands];
    const ticket = ++this.ticket;
    if (!part) { $("readout").replaceChildren(); return; }
    const rows = affordable(cube, this.bands, part, view.row, { isAll });
    $("all").hidden = rows.start === 0 && rows.stop === cube.nRows;
    $("all").textContent = `Read all rows (${number(rows.all.requests)} requests, up to ${bytes(rows.all.bytes)})`;
    document.documentElement.dataset.series = "reading";
    await this.read(part, rows, ticket).catch((error) => { if (ticket === this.ticket) this.fail(error); });
  }

  async read(part, rows, ticket) {
    let timer = null;
    const isOver = () => ticket !== this.ticket;
    const draw = () => {
      timer = null;
      if (isOver()) return;
      this.series.sort((a, b) => a.row - b.row);
      this.tellExtent(rows);
      this.draw();
    };
    const onRows = (found) => {
      this.series.push(...found);
      timer ??= setTimeout(draw, MOST_OFTEN_MS);
    };
    draw();
    await readSeries(this.cube, this.bands, part, rows, { isOver, onRows });
    clearTimeout(timer);
    draw();
    if (!isOver()) document.documentElement.dataset.series = "drawn";
  }

  // Rows of other shards may still arrive: they draw nothing more.
  fail(error) {
    this.ticket += 1;
    say(error);
    $("extent").textContent = this.series.length ? `Only ${number(this.series.length)} rows are read. ${error.message}` : `No row is read. ${error.message}`;
    document.documentElement.dataset.series = "failed";
  }

  tellExtent({ start, stop }) {
    const { nRows } = this.cube;
    const done = this.series.length;
    const isWhole = stop - start === nRows;
    if (done === 1 && isWhole) {
      $("extent").textContent = "The chart holds the only row.";
      return;
    }
    const of = isWhole ? `${number(nRows)} rows` : `Rows ${number(start)} to ${number(stop - 1)} of ${number(nRows)}`;
    const thinned = done > MOST_POINTS ? `The chart draws one row in ${Math.ceil(done / MOST_POINTS)}. ` : "";
    $("extent").textContent = done < stop - start
      ? `${number(done)} read of ${of} …`
      : `${isWhole ? "All " : ""}${of} are in the chart. ${thinned}Click it to go to a row.`;
  }

  // The chart, its legend and the facts of the row on display.
  draw() {
    const { bands, cube, view } = this;
    if (!view.part) return;
    const isPart = isRectangle(view.part);
    $("lines").replaceChildren(...this.legend(isPart));
    const { clientWidth, clientHeight } = $("chart");
    const size = { width: Math.max(clientWidth, 240), height: Math.max(clientHeight, 120) };
    const units = new Set(bands.map((band) => cube.describe(band).unit));
    const unit = units.size === 1 ? [...units][0] : "";
    this.rowAt = drawChart($("chart"), { rows: this.reals(), bands, row: view.row, isPart, hasTime: cube.hasTime, classes: this.classes, unit, ...size });
    this.readOut();
  }

  // The series in what its stored values mean. Classes have no scale.
  reals() {
    const described = this.bands.map((band) => this.cube.describe(band));
    if (this.classes || !described.some(({ isScaled }) => isScaled)) return this.series;
    return this.series.map((each) => ({ ...each, values: each.values.map((found, index) => inReals(found, described[index])) }));
  }

  legend(isPart) {
    const item = (mark, text) => made("span", {}, made("i", { className: `of-${mark}` }), text);
    const items = this.classes ? classItems(this.classes, this.series) : this.bands.map((band, index) => item(lineOf(index, this.bands), isPart ? `${nameOf(band)}: mean, and one standard deviation to each side` : nameOf(band)));
    const has = (chosen) => this.series.some(({ values }) => values.some(chosen));
    if (has(({ status }) => status !== "ok" && !isGap(status))) items.push(item("failed", "not read"));
    if (has(({ status, n }) => isGap(status) || (status === "ok" && !n))) items.push(item("empty", "no valid pixel"));
    return items;
  }

  readOut() {
    const { bands, cube, view: { part, row } } = this;
    const found = this.series.find((each) => each.row === row);
    const { classes, earth } = this;
    const label = cube.hasTime ? `${$("label").textContent} (${number(row)})` : number(row);
    const facts = factsOf(cube, bands, part, found, { label, classes, earth });
    const source = made("code", { textContent: "…" });
    const rows = [...facts, [cube.by ? "sources" : "source", source]].flatMap(([name, fact]) => [made("dt", { textContent: name }), made("dd", {}, fact)]);
    $("readout").replaceChildren(...rows);
    Promise.all(bands.flatMap((band) => cube.namesOf(band)).map((name) => cube.origin(row, name))).then((origins) => { source.textContent = [...new Set(origins)].map(shownHref).join("\n"); }, say);
  }

  async save() {
    const text = await csvOf(this.cube, this.bands, this.view.part, this.reals());
    save(new Blob([text], { type: "text/csv" }), `${$("name").textContent}.csv`);
  }
}

// The classes that some row of the series has.
function classItems(classes, series) {
  const seen = new Set(series.flatMap(({ values }) => values.flatMap(({ counts }) => [...counts.keys()])));
  return [...classes].filter(([value]) => seen.has(value)).map(([, { name, colour }]) => swatch(name, colour));
}

export function swatch(name, colour) {
  const box = made("b", { className: "swatch" });
  box.style.background = inCss(colour);
  return made("span", {}, box, name);
}
