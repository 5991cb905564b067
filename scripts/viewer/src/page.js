// The page of a cube. One object, `view`, says what is shown; `show` draws it.
import { MAPS } from "./colours.js";
import { fillControls, fillLimits, threeOf } from "./controls.js";
import { $, made, say } from "./elements.js";
import { listenToPointer, partAfter } from "./gestures.js";
import { fromLink, toLink } from "./link.js";
import { Selection } from "./selection.js";
import { limitsOf, maskOf, paint } from "./stretch.js";
import { moment, northInWords, number, reason } from "./words.js";

const MOST_NAMES = 8;
const MOST_STRETCHED_ROWS = 9; // their percentiles take some 0.1 s

export class Page {
  constructor(cube) {
    this.cube = cube;
    const defaults = { row: 0, bands: [cube.measurements[0]], map: "grey", stretch: "kept", limits: null, part: null, skips: false };
    this.view = { ...defaults, ...fromLink(location.hash, cube, Object.keys(MAPS)) };
    const isRgb = this.view.bands.length === 3;
    this.rgb = isRgb ? this.view.bands : threeOf(cube.measurements);
    this.one = isRgb ? cube.measurements[0] : this.view.bands[0];
    this.selection = new Selection(cube, this.view);
    this.shownLimits = null;
    this.takesThisRow = false;
    this.isPlaying = false;
    this.isStale = false;
    this.drawing = null;
  }

  start() {
    const { cube, view } = this;
    $("facts").textContent = this.facts();
    Object.assign($("pixels"), cube.shown);
    $("stage").style.aspectRatio = `${cube.width} / ${cube.height}`;
    $("stage").style.width = `min(100%, ${(72 * cube.width) / cube.height}vh)`;
    $("row").max = cube.nRows - 1;
    $("kinds").hidden = cube.measurements.length < 3;
    for (const each of Object.keys(MAPS)) $("map").append(made("option", { value: each, textContent: each }));
    this.fill();
    this.listen();
    $("app").hidden = false;
    this.show();
    this.select(view.part);
  }

  facts() {
    const { attributes, height, measurements, nRows, step, width } = this.cube;
    const names = `${measurements.slice(0, MOST_NAMES).join(", ")}${measurements.length > MOST_NAMES ? ", …" : ""}`;
    const north = attributes["spatial:transform"] ? northInWords(attributes["spatial:transform"]) : "";
    return [
      `${number(nRows)} ${nRows === 1 ? "row" : "rows"}`,
      `${width} × ${height} pixels of ${this.cube.describe(measurements[0]).dtype}`,
      measurements.length > 1 ? `${measurements.length} measurements: ${names}` : names,
      attributes["spatial:transform"] ? (attributes["proj:code"] ?? "on one grid") : "rows lie on grids of their own",
      ...(north ? [north] : []),
      ...(step > 1 ? [`one pixel in ${step} is shown along each side`] : []),
    ].join(" · ");
  }

  fill() {
    fillControls(this.view, this.cube, (bands) => this.chooseBands(bands));
  }

  chooseBands(bands) {
    Object.assign(this.view, { bands, limits: null });
    if (bands.length === 3) this.rgb = bands; else [this.one] = bands;
    this.fill();
    this.show();
    if (this.view.part) this.select(this.view.part);
  }

  listen() {
    const { view, cube, selection } = this;
    const on = (id, event, act) => $(id).addEventListener(event, act);
    on("kinds", "change", (event) => this.chooseBands(event.target.value === "rgb" ? this.rgb : [this.one]));
    on("map", "change", () => { view.map = $("map").value; this.show(); });
    on("stretch", "change", () => {
      view.stretch = $("stretch").value;
      view.limits = view.stretch === "fixed" ? this.shownLimits : null;
      this.show();
    });
    on("retake", "click", () => { view.limits = null; this.takesThisRow = true; this.show(); });
    on("skips", "change", () => { view.skips = $("skips").checked; this.show(); });
    on("row", "input", () => { this.stop(); this.goTo(Number($("row").value)); });
    on("previous", "click", () => { this.stop(); this.step(-1); });
    on("next", "click", () => { this.stop(); this.step(1); });
    on("play", "click", () => (this.isPlaying ? this.stop() : this.play()));
    on("clear", "click", () => this.select(null));
    on("all", "click", () => this.select(view.part, { isAll: true }));
    on("csv", "click", () => selection.save().catch(say));
    on("copy", "click", () => this.copy());
    on("tools", "change", (event) => $("stage").classList.toggle("draws", event.target.value === "part"));
    on("stage", "keydown", (event) => this.press(event));
    on("chart", "click", (event) => {
      const row = selection.rowAt(event.clientX - $("chart").getBoundingClientRect().left);
      if (row !== null) { this.stop(); this.goTo(row); }
    });
    listenToPointer(cube, { onMove: (part) => selection.mark(part ?? view.part), onPart: (part) => this.select(part) });
    addEventListener("hashchange", () => {
      Object.assign(view, { limits: null, part: null }, fromLink(location.hash, cube, Object.keys(MAPS)));
      this.fill();
      this.show();
      this.select(view.part);
    });
    new ResizeObserver(() => selection.draw()).observe($("chart"));
  }

  press(event) {
    const part = partAfter(event, this.view.part, this.cube);
    if (part) this.select(part);
    else if (event.key === "PageDown" || event.key === "PageUp") { this.stop(); this.step(event.key === "PageDown" ? 1 : -1); }
    else if (event.key === " ") { if (this.isPlaying) this.stop(); else this.play(); }
    else if (event.key === "Escape") this.select(null);
    else return;
    event.preventDefault();
  }

  select(part, options) {
    const reading = this.selection.select(part, options);
    this.keepLink();
    return reading;
  }

  keepLink() {
    history.replaceState(null, "", toLink(this.view));
  }

  // Draw what the view says. While a row is read, only the latest wish is kept.
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
    const layers = await Promise.all(bands.map((band) => this.layer(band, row)));
    const shown = (stretch !== "row" && limits) || (await this.limitsAround(row, bands, stretch === "row"));
    const time = await cube.time(row);
    if (view.row !== row || view.bands !== bands) return; // another wish came meanwhile
    if (shown && stretch !== "row") view.limits = shown;
    this.shownLimits = shown;
    this.takesThisRow = false;
    const context = $("pixels").getContext("2d");
    const image = context.createImageData(cube.shown.width, cube.shown.height);
    paint(image.data, layers, shown ?? bands.map(() => [0, 1]), MAPS[map]);
    context.putImageData(image, 0, 0);
    this.tell(row, time, layers);
    fillLimits(view, shown, (index, end, value) => this.fix(index, end, value));
    this.selection.draw();
    const told = bands[Math.max(0, layers.findIndex(({ status }) => status !== "ok"))];
    cube.coordinate("href", row, told).then((href) => { if (view.row === row) $("href").textContent = href ?? ""; }, say);
    this.keepLink();
  }

  // Limits of this row, or of the rows that were read with it; null if no pixel is valid.
  async limitsAround(row, bands, isAlone) {
    const rows = isAlone || this.takesThisRow ? [row] : this.cube.rowsBeside(bands[0], row, MOST_STRETCHED_ROWS);
    const found = await Promise.all(bands.map(async (band) => {
      const layers = await Promise.all(rows.map((each) => this.layer(band, each)));
      return limitsOf(layers, { inColour: bands.length === 3 });
    }));
    return found.every(Boolean) ? found : null;
  }

  async layer(band, row) {
    const { cube } = this;
    const [pixels, validity] = await Promise.all([cube.slice(band, row), cube.validity(row, band)]);
    return { pixels, mask: maskOf(pixels, validity, { width: cube.shown.width, step: cube.step }), status: validity.status };
  }

  fix(index, end, value) {
    const limits = this.view.limits ?? this.view.bands.map(() => [0, 1]);
    this.view.limits = limits.with(index, limits[index].with(end, value));
    this.show();
  }

  tell(row, time, layers) {
    const label = time === null ? `Row ${number(row)}` : moment(time);
    $("row").value = row;
    $("row").setAttribute("aria-valuetext", `${label}, row ${row} of 0 to ${this.cube.nRows - 1}`);
    $("label").textContent = label;
    $("count").textContent = `${time === null ? "of" : `row ${number(row)} of`} 0 to ${number(this.cube.nRows - 1)}`;
    $("pixels").setAttribute("aria-label", `Pixels of ${label}`);
    const index = layers.findIndex(({ status }) => status !== "ok");
    const failed = layers[index]?.status;
    const words = failed ? `${layers.length > 1 ? `${this.view.bands[index]} ` : ""}${failed.replaceAll("_", " ")}` : "";
    $("status").textContent = words;
    $("why").hidden = !failed;
    $("why").replaceChildren(...(failed ? [made("strong", {}, made("span", { textContent: words })), made("span", { textContent: reason(failed) })] : []));
  }

  goTo(row) {
    this.view.row = row;
    return this.show();
  }

  // Go to the row before or behind; past the ends when playing. With `skips`, to the next that was read.
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
