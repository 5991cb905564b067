// Joins the page's controls with the cube. One object, `view`, says what is shown; `show` draws it.
import { drawChart, lineOf, MOST_POINTS } from "./chart.js";
import { gradient, MAPS } from "./colours.js";
import { CubeError, openCube } from "./cube.js";
import { fromLink, toLink } from "./link.js";
import { affordable, readSeries } from "./series.js";
import { limitsOf, maskOf, paint } from "./stretch.js";
import { bytes, moment, number, reason } from "./words.js";

const COLOURS = [["red", "#f00"], ["green", "#0f0"], ["blue", "#00f"]];
const $ = (id) => document.getElementById(id);
const made = (name, properties = {}, ...children) => {
  const element = Object.assign(document.createElement(name), properties);
  element.append(...children);
  return element;
};

function chooseTheme() {
  const page = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (page.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const name = () => { $("theme").textContent = isDark() ? "Light" : "Dark"; };
  $("theme").hidden = false;
  $("theme").addEventListener("click", () => { page.dataset.theme = isDark() ? "light" : "dark"; name(); });
  prefersDark.addEventListener("change", name);
  name();
}

function say(error) {
  $("message").hidden = false;
  $("message").textContent = error instanceof CubeError ? error.message : `This page failed: ${error?.message ?? error}`;
  document.documentElement.dataset.state = "failed";
}

async function start() {
  chooseTheme();
  const folder = decodeURIComponent(new URL(".", location.href).pathname).replace(/\/$/, "");
  if (location.protocol === "file:") {
    throw new CubeError(`A browser lets no page read files of this machine's folders. Run this command to see the cube:\n\npixel-gather view '${folder.replaceAll("'", "'\\''")}'`);
  }
  const cube = await openCube(new URL(".", location.href).href);
  const name = document.querySelector('meta[name="cube"]')?.content || folder.split("/").pop() || "Cube";
  $("name").textContent = name;
  document.title = `${name} – Pixel Gather`;
  new Page(cube).start();
}

class Page {
  constructor(cube) {
    this.cube = cube;
    const [first] = cube.measurements;
    const defaults = { row: 0, bands: [first], map: "grey", stretch: "kept", limits: null, part: null, skips: false };
    this.view = { ...defaults, ...fromLink(location.hash, cube, Object.keys(MAPS)) };
    this.rgb = this.view.bands.length === 3 ? this.view.bands : threeOf(cube.measurements);
    this.one = this.view.bands.length === 1 ? this.view.bands[0] : first;
    this.series = [];
    this.isPlaying = false;
    this.drawing = null;
    this.isStale = false;
    this.seriesOf = 0;
  }

  start() {
    const { cube } = this;
    const { dtype } = cube.describe(cube.measurements[0]);
    const many = cube.measurements.length > 1 ? `${cube.measurements.length} measurements: ${cube.measurements.slice(0, 8).join(", ")}${cube.measurements.length > 8 ? ", …" : ""}` : cube.measurements[0];
    const place = cube.attributes["spatial:transform"] ? (cube.attributes["proj:code"] ?? "on one grid") : "rows lie on grids of their own";
    $("facts").textContent = `${number(cube.nRows)} rows · ${cube.height} × ${cube.width} pixels of ${dtype} · ${many} · ${place}${cube.step > 1 ? ` · one pixel in ${cube.step} is shown along each side` : ""}`;
    const { width, height } = cube.shown;
    Object.assign($("pixels"), { width, height });
    $("stage").style.aspectRatio = `${cube.width} / ${cube.height}`;
    $("stage").style.width = `min(100%, ${(72 * cube.width) / cube.height}vh)`;
    $("row").max = cube.nRows - 1;
    $("kinds").hidden = cube.measurements.length < 3;
    for (const each of Object.keys(MAPS)) $("map").append(made("option", { value: each, textContent: each }));
    this.fillControls();
    this.listen();
    $("app").hidden = false;
    this.show();
    if (this.view.part) this.select(this.view.part);
  }

  fillControls() {
    const { view } = this;
    document.querySelector(`[name=kind][value=${view.bands.length === 3 ? "rgb" : "one"}]`).checked = true;
    const isRgb = view.bands.length === 3;
    $("bands").replaceChildren(...view.bands.map((band, index) => {
      const id = `band-${index}`;
      const select = made("select", { id }, ...this.cube.measurements.map((each) => made("option", { value: each, textContent: each, selected: each === band })));
      select.addEventListener("change", () => this.chooseBands(view.bands.map((each, place) => (place === index ? select.value : each))));
      return made("div", { className: "field", hidden: this.cube.measurements.length === 1 }, made("label", { htmlFor: id, textContent: isRgb ? COLOURS[index][0] : "Pixels of" }), select);
    }));
    $("map").value = view.map;
    $("map").parentElement.hidden = isRgb;
    $("stretch").value = view.stretch;
    $("skips").checked = view.skips;
    this.fillLimits();
  }

  fillLimits() {
    const { view } = this;
    const isFixed = view.stretch === "fixed";
    const limits = this.shownLimits ?? view.limits;
    $("retake").hidden = view.stretch === "row";
    if ($("limits").contains(document.activeElement)) return;
    $("limits").replaceChildren(...view.bands.map((band, index) => {
      const bar = made("div", { className: "bar" });
      bar.style.background = view.bands.length === 3 ? `linear-gradient(to right, #000, ${COLOURS[index][1]})` : gradient(MAPS[view.map]);
      const pair = limits?.[index];
      const ends = [0, 1].map((end) => {
        if (!isFixed) return made("span", { textContent: pair ? number(pair[end]) : "–" });
        const input = made("input", { type: "number", step: "any", value: pair ? Number(pair[end].toPrecision(7)) : "", ariaLabel: `${band}, ${end ? "upper" : "lower"} end` });
        input.addEventListener("change", () => {
          if (!Number.isFinite(input.valueAsNumber)) return;
          view.limits = (view.limits ?? view.bands.map(() => [0, 1])).map((each, place) => (place === index ? each.with(end, input.valueAsNumber) : each));
          this.show();
        });
        return input;
      });
      return made("div", {}, bar, made("div", { className: "ends" }, ...ends));
    }));
  }

  chooseBands(bands) {
    Object.assign(this.view, { bands, limits: null });
    if (bands.length === 3) this.rgb = bands; else [this.one] = bands;
    this.shownLimits = null;
    this.fillControls();
    this.show();
    if (this.view.part) this.select(this.view.part);
  }

  listen() {
    const { view, cube } = this;
    const on = (id, event, act) => $(id).addEventListener(event, act);
    on("kinds", "change", (event) => this.chooseBands(event.target.value === "rgb" ? this.rgb : [this.one]));
    on("map", "change", () => { view.map = $("map").value; this.show(); });
    on("stretch", "change", () => {
      view.stretch = $("stretch").value;
      view.limits = view.stretch === "fixed" ? (this.shownLimits ?? null) : null;
      this.show();
    });
    on("retake", "click", () => { view.limits = null; this.show(); });
    on("skips", "change", () => { view.skips = $("skips").checked; this.show(); });
    on("row", "input", () => { this.stop(); this.goTo(Number($("row").value)); });
    on("previous", "click", () => { this.stop(); this.step(-1); });
    on("next", "click", () => { this.stop(); this.step(1); });
    on("play", "click", () => (this.isPlaying ? this.stop() : this.play()));
    on("clear", "click", () => this.select(null));
    on("all", "click", () => this.select(view.part, { isAll: true }));
    on("csv", "click", () => this.save());
    on("copy", "click", () => this.copy());
    on("tools", "change", (event) => $("stage").classList.toggle("draws", event.target.value === "part"));
    on("stage", "keydown", (event) => this.press(event));
    on("chart", "click", (event) => {
      const row = this.rowAt?.(event.clientX - $("chart").getBoundingClientRect().left);
      if (row !== null && row !== undefined) { this.stop(); this.goTo(row); }
    });
    addEventListener("hashchange", () => {
      Object.assign(view, { limits: null, part: null }, fromLink(location.hash, cube, Object.keys(MAPS)));
      this.fillControls();
      this.show();
      this.select(view.part);
    });
    new ResizeObserver(() => this.draw()).observe($("chart"));
    this.listenToPointer();
  }

  listenToPointer() {
    const stage = $("stage");
    let from = null;
    const at = (event) => {
      const box = stage.getBoundingClientRect();
      const index = (share, count) => Math.min(Math.max(Math.floor(share * count), 0), count - 1);
      return {
        x: index((event.clientX - box.left) / box.width, this.cube.width),
        y: index((event.clientY - box.top) / box.height, this.cube.height),
      };
    };
    const spanned = (event) => {
      const to = at(event);
      const draws = event.pointerType === "mouse" || stage.classList.contains("draws");
      if (!draws) return { ...to, width: 1, height: 1 };
      return { x: Math.min(from.x, to.x), y: Math.min(from.y, to.y), width: Math.abs(to.x - from.x) + 1, height: Math.abs(to.y - from.y) + 1 };
    };
    stage.addEventListener("pointerdown", (event) => {
      if (event.button || !event.isPrimary) return;
      from = at(event);
      if (event.pointerType === "mouse" || stage.classList.contains("draws")) stage.setPointerCapture(event.pointerId);
    });
    stage.addEventListener("pointermove", (event) => { if (from) this.mark(spanned(event)); });
    stage.addEventListener("pointerup", (event) => {
      if (!from) return;
      const part = spanned(event);
      from = null;
      this.select(part);
    });
    stage.addEventListener("pointercancel", () => { from = null; this.mark(this.view.part); });
  }

  press(event) {
    const { cube, view } = this;
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const part = view.part ?? { x: Math.floor(cube.width / 2), y: Math.floor(cube.height / 2), width: 1, height: 1 };
    if (event.key in moves) {
      const [right, down] = moves[event.key];
      const size = { width: part.width + (event.shiftKey ? right : 0), height: part.height + (event.shiftKey ? down : 0) };
      const width = Math.min(Math.max(size.width, 1), cube.width - part.x);
      const height = Math.min(Math.max(size.height, 1), cube.height - part.y);
      const moved = event.shiftKey || !view.part ? [0, 0] : [right, down];
      const x = Math.min(Math.max(part.x + moved[0], 0), cube.width - width);
      const y = Math.min(Math.max(part.y + moved[1], 0), cube.height - height);
      this.select({ x, y, width, height });
    } else if (event.key === "PageDown" || event.key === "PageUp") {
      this.stop();
      this.step(event.key === "PageDown" ? 1 : -1);
    } else if (event.key === " ") {
      if (this.isPlaying) this.stop(); else this.play();
    } else if (event.key === "Escape") {
      this.select(null);
    } else {
      return;
    }
    event.preventDefault();
  }

  // Drawing a row. While one is read, only the latest wish is kept.
  async show() {
    this.isStale = true;
    this.drawing ??= this.drawUntilFresh();
    return this.drawing;
  }

  async drawUntilFresh() {
    document.documentElement.dataset.state = "reading";
    try {
      while (this.isStale) {
        this.isStale = false;
        await this.drawRow({ ...this.view });
      }
      $("message").hidden = true;
      document.documentElement.dataset.state = "drawn";
    } catch (error) {
      this.stop();
      say(error);
    } finally {
      this.drawing = null;
    }
  }

  async drawRow({ row, bands, map, stretch, limits }) {
    const { cube, view } = this;
    const layers = await Promise.all(bands.map(async (band) => {
      const [pixels, validity] = await Promise.all([cube.slice(band, row), cube.validity(row, band)]);
      const mask = maskOf(pixels, validity, { width: cube.shown.width, step: cube.step });
      return { pixels, mask, status: validity.status };
    }));
    const time = await cube.time(row);
    if (this.isStale && !this.isPlaying && (view.row !== row || view.bands !== bands)) return;
    let shown = stretch === "row" ? null : limits;
    if (!shown) {
      const own = layers.map(({ pixels, mask }) => limitsOf(pixels, mask));
      shown = own.every(Boolean) ? own : null;
      if (shown && stretch !== "row") view.limits = shown;
    }
    this.shownLimits = shown;
    const context = $("pixels").getContext("2d");
    const image = context.createImageData(cube.shown.width, cube.shown.height);
    paint(image.data, layers, shown ?? bands.map(() => [0, 1]), MAPS[map]);
    context.putImageData(image, 0, 0);
    this.tell(row, time, layers);
    this.fillLimits();
    this.draw();
    this.tellSource(row, bands[0]);
    history.replaceState(null, "", toLink(view));
  }

  tell(row, time, layers) {
    const label = time === null ? `Row ${number(row)}` : moment(time);
    $("row").value = row;
    $("row").setAttribute("aria-valuetext", `${label}, row ${row + 1} of ${this.cube.nRows}`);
    $("label").textContent = label;
    $("count").textContent = `row ${number(row)} (0 to ${number(this.cube.nRows - 1)})`;
    const failed = layers.map(({ status }) => status).find((each) => each !== "ok");
    $("status").textContent = failed ? failed.replaceAll("_", " ") : "";
    $("why").hidden = !failed;
    $("why").replaceChildren(...(failed ? [made("strong", {}, made("span", { textContent: failed.replaceAll("_", " ") })), made("span", { textContent: reason(failed) })] : []));
    $("pixels").setAttribute("aria-label", `Pixels of ${label}`);
  }

  async tellSource(row, band) {
    try {
      const href = (await this.cube.coordinate("href", row, band)) ?? "";
      if (this.view.row === row) $("href").textContent = href;
    } catch (error) {
      say(error);
    }
  }

  goTo(row) {
    this.view.row = row;
    return this.show();
  }

  // Go to the next row before or behind; past the ends when playing. With `skips`, to the next that was read.
  async step(by, { wraps = false } = {}) {
    const { cube, view } = this;
    let { row } = view;
    for (let tried = 0; tried < cube.nRows; tried++) {
      row += by;
      if (row < 0 || row >= cube.nRows) {
        if (!wraps) return;
        row = (row + cube.nRows) % cube.nRows;
      }
      if (!view.skips) break;
      const statuses = await Promise.all(view.bands.map((band) => cube.status(row, band)));
      if (statuses.every((each) => each === "ok")) break;
    }
    await this.goTo(row);
  }

  async play() {
    this.isPlaying = true;
    $("play").textContent = "Pause";
    $("play").setAttribute("aria-pressed", "true");
    const pause = (milliseconds) => new Promise((resolve) => { setTimeout(resolve, milliseconds); });
    while (this.isPlaying) {
      const began = performance.now();
      await this.step(1, { wraps: true });
      const ahead = this.view.row + this.cube.layout(this.view.bands[0]).chunkRows;
      if (ahead < this.cube.nRows) for (const band of this.view.bands) this.cube.slice(band, ahead).catch(() => null);
      await pause(Math.max(0, 1000 / Number($("speed").value) - (performance.now() - began)));
    }
  }

  stop() {
    this.isPlaying = false;
    $("play").textContent = "Play";
    $("play").setAttribute("aria-pressed", "false");
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
    history.replaceState(null, "", toLink(view));
    $("hint").hidden = Boolean(part);
    $("chart-frame").hidden = !part;
    this.series = [];
    const ticket = ++this.seriesOf;
    if (!part) { $("readout").replaceChildren(); return; }
    const bands = [...view.bands];
    this.seriesBands = bands;
    const { start, stop, all } = affordable(cube, bands, part, view.row, { isAll });
    const isWhole = start === 0 && stop === cube.nRows;
    $("all").hidden = isWhole;
    $("all").textContent = `Read all rows (${number(all.requests)} requests, up to ${bytes(all.bytes)})`;
    const tellExtent = () => {
      const done = this.series.length;
      const of = isWhole ? `${number(cube.nRows)} rows` : `Rows ${number(start)} to ${number(stop - 1)} of ${number(cube.nRows)}`;
      $("extent").textContent = done < stop - start ? `${number(done)} read of ${of} …` : `${isWhole ? "All " : ""}${of} are read. ${done > MOST_POINTS ? `The chart draws one row in ${Math.ceil(done / MOST_POINTS)}. ` : ""}Click the chart to go to a row.`;
    };
    let drawing = null;
    const drawSeries = () => {
      drawing = null;
      if (ticket !== this.seriesOf) return;
      this.series.sort((a, b) => a.row - b.row);
      tellExtent();
      this.draw();
    };
    document.documentElement.dataset.series = "reading";
    tellExtent();
    this.draw();
    try {
      await readSeries(cube, bands, part, { start, stop }, {
        isOver: () => ticket !== this.seriesOf,
        onRows: (rows) => {
          this.series.push(...rows);
          drawing ??= setTimeout(drawSeries, 200); // many shards may arrive at once
        },
      });
      if (ticket !== this.seriesOf) return;
      clearTimeout(drawing);
      drawSeries();
      document.documentElement.dataset.series = "drawn";
    } catch (error) {
      if (ticket === this.seriesOf) say(error);
    }
  }

  // The chart, its legend and the values of the row on display.
  draw() {
    const { cube, view } = this;
    const { part } = view;
    if (!part) return;
    const bands = this.seriesBands ?? view.bands;
    const isPart = part.width * part.height > 1;
    const items = bands.map((band, index) => made("span", {}, made("i", { className: `of-${lineOf(index, bands)}` }), isPart ? `${band}: mean, and one standard deviation to each side` : band));
    const has = (chosen) => this.series.some(({ values }) => values.some(chosen));
    if (has(({ status }) => status !== "ok" && status !== "absent")) items.push(made("span", {}, made("i", { className: "of-failed" }), "not read"));
    if (has(({ status, n }) => status === "absent" || (status === "ok" && !n))) items.push(made("span", {}, made("i", { className: "of-empty" }), "no valid pixel"));
    $("lines").replaceChildren(...items);
    const width = Math.max($("chart").clientWidth, 280);
    this.rowAt = drawChart($("chart"), { rows: this.series, bands, row: view.row, isPart, hasTime: cube.hasTime, width });
    this.readOut(bands, part, isPart);
  }

  readOut(bands, part, isPart) {
    const { cube, view } = this;
    const found = this.series.find(({ row }) => row === view.row);
    const facts = [[isPart ? "rectangle" : "pixel", whereIs(part, isPart)]];
    const map = mapPlace(cube, part);
    if (map) facts.push([cube.attributes["proj:code"] ?? "on the map", map]);
    facts.push(["row", `${$("label").textContent} (${number(view.row)})`]);
    bands.forEach((band, index) => facts.push([band, found ? valueInWords(found.values[index], cube.describe(band), part, isPart) : "…"]));
    const statuses = found ? [...new Set(found.values.map(({ status }) => status))] : [];
    if (statuses.length) facts.push(["status", statuses.map((each) => (each === "ok" ? "ok" : `${each.replaceAll("_", " ")}: ${reason(each)}`)).join("; ")]);
    $("readout").replaceChildren(...facts.flatMap(([name, fact]) => [made("dt", { textContent: name }), made("dd", { textContent: fact })]));
    const source = made("dd", {}, made("code", { textContent: "…" }));
    $("readout").append(made("dt", { textContent: "source" }), source);
    const { row } = view;
    Promise.all(bands.map((band) => cube.coordinate("href", row, band))).then((hrefs) => { source.firstChild.textContent = [...new Set(hrefs)].join("\n"); }, say);
  }

  async save() {
    const { cube } = this;
    const bands = this.seriesBands;
    const isPart = this.view.part.width * this.view.part.height > 1;
    const columns = bands.flatMap((band) => (isPart ? ["mean", "std", "min", "max", "n_valid"].map((each) => `${band}_${each}`) : [band]).concat(`${band}_status`, `${band}_href`));
    const lines = [["row", "time", ...columns].join(",")];
    for (const { row, time, values } of this.series) {
      const cells = [row, time === null ? "" : new Date(time).toISOString()];
      for (const [index, { status, n, mean, spread, min, max }] of values.entries()) {
        const href = (await cube.coordinate("href", row, bands[index])) ?? "";
        cells.push(...(isPart ? [mean, spread, min, max].map((each) => (n ? each : "")).concat(n) : [n ? mean : ""]), status, quoted(href));
      }
      lines.push(cells.join(","));
    }
    const link = made("a", { href: URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "text/csv" })), download: `${$("name").textContent}.csv` });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
  }

  async copy() {
    try {
      await navigator.clipboard.writeText(location.href);
      $("copy").textContent = "Copied";
    } catch {
      $("copy").textContent = "The address bar has the link";
    }
    setTimeout(() => { $("copy").textContent = "Copy link to this view"; }, 2000);
  }
}

function threeOf(names) {
  const named = ["red", "green", "blue"].map((colour) => names.find((each) => each.toLowerCase() === colour));
  const sentinel = ["B04", "B03", "B02"].map((band) => names.find((each) => each.toUpperCase() === band));
  return [named, sentinel].find((three) => three.every(Boolean)) ?? [names[2], names[1], names[0]];
}

function whereIs({ x, y, width, height }, isPart) {
  return isPart ? `columns ${x} to ${x + width - 1}, lines ${y} to ${y + height - 1} (${width} × ${height} pixels)` : `column ${x}, line ${y}`;
}

// Map coordinates of the centre of a part, if all rows share a grid.
function mapPlace(cube, part) {
  const transform = cube.attributes["spatial:transform"];
  if (!transform) return null;
  const [column, line] = [part.x + part.width / 2, part.y + part.height / 2];
  const [a, b, c, d, e, f] = transform;
  const digits = Math.max(0, Math.min(8, Math.ceil(-Math.log10(Math.abs(a) || Math.abs(b))) + 1));
  return `${(a * column + b * line + c).toFixed(digits)}, ${(d * column + e * line + f).toFixed(digits)}`;
}

function valueInWords(found, { scale, offset }, part, isPart) {
  if (found.status !== "ok") return "no value";
  if (!found.n) return isPart ? "no valid pixel" : "nodata";
  const scaled = (value) => Number((value * scale + offset).toPrecision(6));
  const isScaled = scale !== 1 || offset !== 0;
  if (!isPart) return `${found.mean}${isScaled ? ` (${scaled(found.mean)} with scale and offset)` : ""}`;
  const text = `mean ${number(found.mean)}, standard deviation ${number(found.spread)}, ${number(found.min)} to ${number(found.max)}, ${number(found.n)} of ${number(part.width * part.height)} pixels valid`;
  return isScaled ? `${text} (mean ${scaled(found.mean)} with scale and offset)` : text;
}

const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);

start().catch(say);
