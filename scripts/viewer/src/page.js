// The page of a cube. One object, `view`, says what is shown; `show` draws it.
import { nameOf } from "./bands.js";
import { classesOf, haveColours } from "./classes.js";
import { MAPS } from "./colours.js";
import { fillControls, fillKey, fillLimits } from "./controls.js";
import { pictureWith, save } from "./download.js";
import { earthOf, scaleBar } from "./earth.js";
import { $, made, say } from "./elements.js";
import { geotiffOf } from "./geotiff.js";
import { fromLink, toLink } from "./link.js";
import { Probe } from "./probe.js";
import { Selection } from "./selection.js";
import { limitsOf, paint, sampleOf } from "./stretch.js";
import { readQuicklook, readRow } from "./values.js";
import { partAfter, Viewport } from "./viewport.js";
import { northInWords, number, reason, shownHref, toldApart, withUnit } from "./words.js";

const MOST_NAMES = 8;
const MOST_STRETCHED_ROWS = 9; // their percentiles take some 0.1 s

export class Page {
  constructor(cube, quicklooks) {
    this.cube = cube;
    this.quicklooks = quicklooks;
    const { trueColour, amounts } = cube;
    const defaults = { row: 0, bands: trueColour ?? [cube.measurements[0]], map: "grey", stretch: "kept", limits: null, part: null, skips: false, at: null, other: null };
    this.view = { ...defaults, ...fromLink(location.hash, cube, Object.keys(MAPS)) };
    const isRgb = this.view.bands.length === 3;
    this.rgb = isRgb ? this.view.bands : trueColour ?? amounts.slice(0, 3);
    this.one = isRgb ? cube.measurements[0] : this.view.bands[0];
    this.earth = earthOf(cube);
    this.selection = new Selection(cube, this.view, this.earth);
    this.probe = new Probe(cube, this.earth);
    this.classes = new Map();
    this.shownLimits = null;
    this.takesThisRow = false;
    this.isPlaying = false;
    this.isStale = false;
    this.drawing = null;
    this.divide = 0.5;
  }

  start() {
    const { cube, view } = this;
    $("facts").textContent = this.facts();
    for (const id of ["pixels", "other"]) Object.assign($(id), cube.shown);
    for (const id of ["row", "other-row"]) $(id).max = cube.nRows - 1;
    $("kinds").hidden = cube.amounts.length < 3;
    for (const each of [$("row").parentElement, $("skips").closest("fieldset")]) each.hidden = cube.nRows < 2;
    for (const each of Object.keys(MAPS)) $("map").append(made("option", { value: each, textContent: each }));
    this.viewport = new Viewport(cube, {
      onChange: () => this.follow(),
      onHover: (pixel) => this.probe.point(pixel),
      onMark: (part) => this.selection.mark(part ?? view.part),
      onPart: (part) => { $("stage").focus({ preventScroll: true }); this.select(part); },
    });
    const { at } = view;
    this.viewport.fit();
    if (at) this.viewport.show(at);
    this.fill();
    this.quicklooks.take(cube, view);
    this.listen();
    this.show();
    this.select(view.part);
  }

  facts() {
    const { attributes, height, measurements, nRows, step, width } = this.cube;
    const names = `${measurements.slice(0, MOST_NAMES).join(", ")}${measurements.length > MOST_NAMES ? ", …" : ""}`;
    const north = attributes["spatial:transform"] ? northInWords(attributes["spatial:transform"]) : "";
    return [
      `${number(nRows)} ${nRows === 1 ? "row" : "rows"}`,
      `${width} × ${height} pixels of ${[...new Set(measurements.map((each) => this.cube.describe(each).dtype))].join(", ")}`,
      measurements.length > 1 ? `${measurements.length} measurements: ${names}` : names,
      attributes["spatial:transform"] ? (attributes["proj:code"] ?? "on one grid") : "rows lie on grids of their own",
      ...(north ? [north] : []),
      ...(step > 1 ? [`one pixel in ${step} is shown along each side`] : []),
    ].join(" · ");
  }

  fill() {
    fillControls(this.view, this.cube, (bands) => this.chooseBands(bands));
    $("compare").setAttribute("aria-pressed", String(this.view.other !== null));
  }

  chooseBands(bands) {
    Object.assign(this.view, { bands, limits: null });
    if (bands.length === 3) this.rgb = bands; else [this.one] = bands;
    this.fill();
    this.show();
    if (this.view.part) this.select(this.view.part);
  }

  listen() {
    const { view, cube, selection, viewport } = this;
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
    on("compare", "click", () => { view.other = view.other === null ? (view.row ? 0 : cube.nRows - 1) : null; this.fill(); this.show(); });
    on("other-row", "input", () => { view.other = Number($("other-row").value); this.show(); });
    on("divide", "input", () => { this.divide = Number($("divide").value) / 100; this.follow(); });
    on("clear", "click", () => this.select(null));
    on("all", "click", () => this.select(view.part, { isAll: true }));
    on("csv", "click", () => selection.save().catch(say));
    on("png", "click", () => this.savePicture().catch(say));
    on("tif", "click", () => this.saveRow().catch(say));
    on("copy", "click", () => this.copy());
    on("zoom-in", "click", () => viewport.zoomBy(1.5));
    on("zoom-out", "click", () => viewport.zoomBy(1 / 1.5));
    on("zoom-fit", "click", () => viewport.fit());
    on("tools", "change", (event) => $("stage").classList.toggle("draws", event.target.value === "part"));
    on("stage", "keydown", (event) => this.pressOnStage(event));
    addEventListener("keydown", (event) => this.press(event));
    on("chart", "click", (event) => {
      const row = selection.rowAt(event.clientX - $("chart").getBoundingClientRect().left);
      if (row !== null) { this.stop(); this.goTo(row); }
    });
    this.listenToDivider();
    addEventListener("hashchange", () => {
      Object.assign(view, { limits: null, part: null }, fromLink(location.hash, cube, Object.keys(MAPS)));
      if (view.at) viewport.show(view.at); else viewport.fit();
      this.fill();
      this.show();
      this.select(view.part);
    });
    new ResizeObserver(() => selection.draw()).observe($("chart"));
  }

  listenToDivider() {
    const line = $("divider").querySelector("i");
    line.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      line.setPointerCapture(event.pointerId);
      line.onpointermove = (moved) => {
        const { left, width } = $("stage").getBoundingClientRect();
        this.divide = Math.min(Math.max((moved.clientX - left) / width, 0), 1);
        $("divide").value = Math.round(100 * this.divide);
        this.follow();
      };
      line.onpointerup = () => { line.onpointermove = null; };
    });
  }

  // What lies over the picture follows its zoom: scale bar, north, the line between two rows.
  follow() {
    const { earth, view, viewport } = this;
    if (!viewport) return;
    view.at = viewport.isFit ? null : { ...viewport.middle, zoom: viewport.zoom };
    $("north").hidden = $("scale").hidden = !earth;
    if (earth) {
      const { text, width } = scaleBar(earth.metresPerPixel / viewport.scale, $("stage").clientWidth);
      $("scale").textContent = text;
      $("scale").style.width = `${width}px`;
      $("north").querySelector("svg").style.transform = `rotate(${earth.north}deg)`;
    }
    const isCompared = view.other !== null;
    const [all, at] = [$("stage").clientWidth, $("stage").clientWidth * this.divide];
    $("divider").style.left = `${at}px`;
    for (const id of ["other", "comparing", "divider"]) $(id).hidden = !isCompared;
    const width = this.cube.width * viewport.scale;
    $("pixels").style.clipPath = isCompared ? `inset(0 ${Math.max(0, width + viewport.left - at)}px 0 0)` : "";
    $("other").style.clipPath = `inset(0 0 0 ${Math.min(Math.max(0, at - viewport.left), all + width)}px)`;
    this.keepLink();
  }

  pressOnStage(event) {
    const part = partAfter(event, this.view.part, this.cube);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (part) { this.select(part); this.viewport.reveal(part); }
    else if (event.key === "Escape") this.select(null);
    else if (!this.viewport.press(event)) return;
    event.preventDefault();
  }

  // Keys of the whole page. Fields and buttons keep their own.
  press(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest?.("input, select, button, summary, [role=slider]")) return;
    if (event.key === "PageDown" || event.key === "PageUp") { this.stop(); this.step(event.key === "PageDown" ? 1 : -1); }
    else if (event.key === " ") { if (this.isPlaying) this.stop(); else this.play(); }
    else return;
    event.preventDefault();
  }

  select(part, options) {
    const reading = this.selection.select(part, options);
    this.keepLink();
    return reading;
  }

  keepLink() {
    const { cube, view } = this;
    const { bands, row } = view;
    const put = (quick) => history.replaceState(null, "", toLink({ ...view, quick }));
    put(null);
    this.quicklooks.link(cube, bands, row).then((quick) => { if (quick && view.row === row && view.bands === bands) put(quick); }, () => null);
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

  async drawRow({ row, bands, map, stretch, limits, other }) {
    const { cube, view } = this;
    const names = bands.flatMap((band) => cube.namesOf(band));
    const isCurrent = () => view.row === row && view.bands === bands;
    let isRead = false;
    if (!names.every((name) => cube.hasSlice(name, row))) this.preview(row, bands, map, () => !isRead && isCurrent()).catch(() => null);
    const layers = await Promise.all(bands.map((band) => readRow(cube, band, row)));
    const classes = bands.length === 1 ? await this.classesOf(bands[0], row) : null;
    const needsLimits = !classes && !(stretch !== "row" && limits);
    const found = needsLimits ? await this.limitsAround(row, bands, stretch === "row") : null;
    const shown = classes ? null : found ?? limits;
    const time = await cube.time(row);
    const compared = other === null ? null : await Promise.all(bands.map((band) => readRow(cube, band, other)));
    if (!isCurrent()) return; // another wish came meanwhile
    isRead = true;
    if (shown && stretch !== "row") view.limits = shown;
    this.shownLimits = shown;
    this.takesThisRow = false;
    this.put("pixels", layers, shown, map, classes);
    $("preview").hidden = true;
    $("first")?.remove();
    $("pixels").style.visibility = "";
    if (compared) this.put("other", compared, shown, map, classes);
    this.tell(row, time, layers);
    await this.tellOther(other);
    this.selection.classes = classes;
    this.probe.take(row, bands, layers, classes);
    $("map").parentElement.hidden = bands.length === 3 || Boolean(classes);
    $("stretch").parentElement.hidden = Boolean(classes);
    this.fillLimits();
    fillKey(view, cube, shown, classes, layers.some(({ mask, status }) => status === "ok" && mask.includes(0)));
    this.selection.draw();
    this.follow();
    const told = cube.namesOf(bands[Math.max(0, layers.findIndex(({ status }) => status !== "ok"))])[0];
    cube.coordinate("href", row, told).then((href) => { if (view.row === row) $("href").textContent = shownHref(href ?? ""); }, say);
    for (const beside of [row + 1, row - 1]) {
      if (beside >= 0 && beside < cube.nRows) for (const name of names) cube.slice(name, beside).catch(() => null);
    }
  }

  fillLimits() {
    fillLimits(this.view, this.cube, this.shownLimits, this.samples ?? [], (index, end, value, isLast) => this.fix(index, end, value, isLast));
  }

  put(id, layers, limits, map, classes) {
    const context = $(id).getContext("2d");
    const image = context.createImageData(this.cube.shown.width, this.cube.shown.height);
    paint(image.data, layers, limits ?? layers.map(() => [0, 1]), MAPS[map], classes);
    context.putImageData(image, 0, 0);
  }

  // The averaged picture of a row, until its pixels are here.
  async preview(row, bands, map, isWanted) {
    const { cube } = this;
    if ($("first")?.naturalWidth) return;
    const layers = await Promise.all(bands.map((band) => readQuicklook(cube, band, row, this.quicklooks)));
    if (!layers.every(Boolean) || !isWanted()) return;
    const classes = bands.length === 1 ? this.classes.get(bands[0]) ?? classesOf(cube, bands[0], layers) : null;
    if (classes && !haveColours(cube, bands[0], layers)) return; // the colours of others depend on what else is there
    const limits = classes ? null : this.view.limits ?? layers.map((layer) => limitsOf(sampleOf([layer]), { inColour: bands.length === 3 }));
    if (!isWanted() || !(limits ?? []).every(Boolean)) return;
    const [{ width, height, step }] = layers;
    const canvas = Object.assign($("preview"), { width, height, hidden: false });
    Object.assign(canvas.style, { width: `${(100 * width * step) / cube.width}%`, height: `${(100 * height * step) / cube.height}%` });
    const context = canvas.getContext("2d");
    const image = context.createImageData(width, height);
    paint(image.data, layers, limits ?? [[0, 1]], MAPS[map], classes);
    context.putImageData(image, 0, 0);
    $("pixels").style.visibility = "hidden";
    $("why").hidden = true;
    document.documentElement.dataset.preview ??= String(Math.round(performance.now()));
  }

  // The rows whose values set the stretch and the classes: those that are read with a row.
  async layersAround(row, band, isAlone) {
    const { cube } = this;
    const rows = isAlone ? [row] : cube.rowsBeside(cube.namesOf(band)[0], row, MOST_STRETCHED_ROWS);
    return Promise.all(rows.map((each) => readRow(cube, band, each)));
  }

  // Classes of a band, by its first rows that have pixels; null if its values are amounts.
  async classesOf(band, row) {
    const layers = await this.layersAround(row, band, false);
    if (!layers.some(({ mask }) => mask.includes(1))) return this.classes.get(band) ?? null;
    const known = this.classes.get(band);
    if (known === null) return null;
    const found = classesOf(this.cube, band, layers);
    const merged = found && new Map([...(known ?? []), ...found]);
    this.classes.set(band, merged);
    return merged;
  }

  // Limits of this row, or of the rows that were read with it; null if no pixel is valid.
  async limitsAround(row, bands, isAlone) {
    const samples = [];
    const found = await Promise.all(bands.map(async (band, index) => {
      const layers = await this.layersAround(row, band, isAlone || this.takesThisRow);
      samples[index] = sampleOf(layers);
      return limitsOf(samples[index], { inColour: bands.length === 3 });
    }));
    if (!found.every(Boolean)) return null;
    this.samples = samples;
    return found;
  }

  async tellOther(other) {
    if (other === null) return;
    const time = await this.cube.time(other);
    const label = time === null ? `Row ${number(other)}` : this.cube.named(time);
    $("other-row").value = other;
    $("other-label").textContent = label;
    $("divider-left").textContent = $("label").textContent;
    $("divider-right").textContent = label;
  }

  async savePicture() {
    const { bands } = this.view;
    const told = (band, index) => {
      const { real, unit } = this.cube.describe(band);
      return withUnit(`${nameOf(band)} ${toldApart(this.shownLimits[index].map(real)).join(" to ")}`, unit);
    };
    const scale = this.shownLimits ? bands.map(told).join(", ") : bands[0];
    const blob = await pictureWith($("pixels"), [`${$("name").textContent}, ${$("label").textContent} ${$("status").textContent}`, scale]);
    save(blob, `${$("name").textContent}_${this.view.row}.png`);
  }

  async saveRow() {
    const { cube, view: { bands, row } } = this;
    const blob = await geotiffOf(cube, bands, row, await Promise.all(bands.map((band) => readRow(cube, band, row))));
    save(blob, `${$("name").textContent}_${row}.tif`);
  }

  // A handle or a field moves one end of the stretch. While a handle is dragged, the picture waits.
  fix(index, end, value, isLast = true) {
    const limits = this.view.limits ?? this.shownLimits ?? this.view.bands.map(() => [0, 1]);
    const pair = limits[index].with(end, value);
    if (!isLast || pair[0] > pair[1]) return;
    Object.assign(this.view, { stretch: "fixed", limits: limits.with(index, pair) });
    $("stretch").value = "fixed";
    this.show();
  }

  tell(row, time, layers) {
    const label = time === null ? `Row ${number(row)}` : this.cube.named(time);
    $("row").value = row;
    const among = (rank) => (this.cube.nRows === 1 ? "the only row" : `${rank}of 0 to ${number(this.cube.nRows - 1)}`);
    $("row").setAttribute("aria-valuetext", `${label}, ${among(`row ${number(row)} `)}`);
    $("label").textContent = label;
    $("count").textContent = among(time === null ? "" : `row ${number(row)} `);
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
      const statuses = await Promise.all(view.bands.flatMap((band) => cube.namesOf(band)).map((name) => cube.status(row, name)));
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
      const names = this.view.bands.flatMap((band) => this.cube.namesOf(band));
      const ahead = this.view.row + this.cube.layout(names[0]).chunkRows;
      if (ahead < this.cube.nRows) for (const name of names) this.cube.slice(name, ahead).catch(() => null);
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
