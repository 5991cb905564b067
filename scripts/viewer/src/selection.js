// What is selected, its series of all rows, and the chart of it.
import { drawChart, lineOf, MOST_POINTS } from "./chart.js";
import { $, made, say } from "./elements.js";
import { csvOf, factsOf, isRectangle } from "./readout.js";
import { affordable, readSeries } from "./series.js";
import { bytes, isGap, number } from "./words.js";

const MOST_OFTEN_MS = 200; // many shards may arrive at once

export class Selection {
  constructor(cube, view) {
    this.cube = cube;
    this.view = view;
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
    const of = isWhole ? `${number(nRows)} rows` : `Rows ${number(start)} to ${number(stop - 1)} of ${number(nRows)}`;
    const thinned = done > MOST_POINTS ? `The chart draws one row in ${Math.ceil(done / MOST_POINTS)}. ` : "";
    $("extent").textContent = done < stop - start
      ? `${number(done)} read of ${of} …`
      : `${isWhole ? "All " : ""}${of} are read. ${thinned}Click the chart to go to a row.`;
  }

  // The chart, its legend and the facts of the row on display.
  draw() {
    const { bands, cube, series, view } = this;
    if (!view.part) return;
    const isPart = isRectangle(view.part);
    $("lines").replaceChildren(...this.legend(isPart));
    const width = Math.max($("chart").clientWidth, 280);
    this.rowAt = drawChart($("chart"), { rows: series, bands, row: view.row, isPart, hasTime: cube.hasTime, width });
    this.readOut();
  }

  legend(isPart) {
    const item = (mark, text) => made("span", {}, made("i", { className: `of-${mark}` }), text);
    const items = this.bands.map((band, index) => item(lineOf(index, this.bands), isPart ? `${band}: mean, and one standard deviation to each side` : band));
    const has = (chosen) => this.series.some(({ values }) => values.some(chosen));
    if (has(({ status }) => status !== "ok" && !isGap(status))) items.push(item("failed", "not read"));
    if (has(({ status, n }) => isGap(status) || (status === "ok" && !n))) items.push(item("empty", "no valid pixel"));
    return items;
  }

  readOut() {
    const { bands, cube, view: { part, row } } = this;
    const found = this.series.find((each) => each.row === row);
    const facts = factsOf(cube, bands, part, found, `${$("label").textContent} (${number(row)})`);
    const source = made("code", { textContent: "…" });
    const rows = [...facts, ["source", source]].flatMap(([name, fact]) => [made("dt", { textContent: name }), made("dd", {}, fact)]);
    $("readout").replaceChildren(...rows);
    Promise.all(bands.map((band) => cube.coordinate("href", row, band))).then((hrefs) => { source.textContent = [...new Set(hrefs)].join("\n"); }, say);
  }

  async save() {
    const text = await csvOf(this.cube, this.bands, this.view.part, this.series);
    const link = made("a", { href: URL.createObjectURL(new Blob([text], { type: "text/csv" })), download: `${$("name").textContent}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }
}
