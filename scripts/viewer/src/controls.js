// The controls beside the picture, filled from the view.
import { indexesOf, nameOf } from "./bands.js";
import { gradient, MAPS } from "./colours.js";
import { $, made } from "./elements.js";
import { histogram } from "./histogram.js";
import { swatch } from "./selection.js";
import { toldApart } from "./words.js";

const COLOURS = [["red", "#f00"], ["green", "#0f0"], ["blue", "#00f"]];
const OWN = "formula…";

export function fillControls(view, cube, chooseBands) {
  const isRgb = view.bands.length === 3;
  document.querySelector(`[name=kind][value=${isRgb ? "rgb" : "one"}]`).checked = true;
  for (const id of ["bands", "limits"]) $(id).classList.toggle("three", isRgb);
  $("bands").replaceChildren(...view.bands.map((band, index) => {
    const id = `band-${index}`;
    const names = isRgb ? cube.amounts : cube.measurements;
    const option = (value, text) => made("option", { value, textContent: text, selected: value === band });
    const select = made("select", { id }, ...names.map((name) => option(name, name)), ...(isRgb ? [] : formulas(cube, band, option)));
    const chosen = (value) => chooseBands(view.bands.with(index, value));
    select.addEventListener("change", () => (select.value === OWN ? askFormula(cube, band, chosen) : chosen(select.value)));
    const label = made("label", { htmlFor: id, textContent: isRgb ? COLOURS[index][0] : "Pixels of" });
    return made("div", { className: "field" }, label, select);
  }));
  $("formula").hidden = true;
  $("map").value = view.map;
  $("map").parentElement.hidden = isRgb;
  $("stretch").value = view.stretch;
  $("skips").checked = view.skips;
}

// What can be computed: the indexes whose bands are there, the formula on display, and one's own.
function formulas(cube, band, option) {
  const known = indexesOf(cube.measurements);
  const shown = cube.formula(band) && !known.some(([, text]) => text === band) ? [option(band, band)] : [];
  return [...known.map(([name, text]) => option(text, name.toUpperCase())), ...shown, option(OWN, "a formula of your own…")];
}

function askFormula(cube, band, chosen) {
  const input = $("formula-text");
  $("formula").hidden = false;
  input.value = cube.formula(band) ? band : "";
  input.placeholder = cube.measurements.length > 1 ? `(${cube.measurements[0]} - ${cube.measurements[1]}) / 2` : `${cube.measurements[0]} * 2`;
  input.setCustomValidity("");
  input.focus();
  input.oninput = () => input.setCustomValidity("");
  input.onchange = () => {
    const text = input.value.trim();
    if (cube.measurements.includes(text) || cube.formula(text)) chosen(text);
    else if (text) {
      input.setCustomValidity("Write + - * / and brackets between names of measurements and numbers.");
      input.reportValidity();
    }
  };
}

// The scale of each band: its values with handles at the ends of the stretch, its colours and its ends.
export function fillLimits(view, cube, limits, samples, onChange) {
  $("retake").hidden = view.stretch === "row" || !limits;
  if ($("limits").contains(document.activeElement) && document.activeElement.tagName === "INPUT") return;
  const focused = [...document.querySelectorAll("#limits .handle")].indexOf(document.activeElement);
  $("limits").replaceChildren(...(limits ? view.bands : []).map((band, index) => {
    const bar = made("div", { className: "bar" });
    bar.style.background = barOf(view, index);
    const pair = limits[index];
    const { offset, real, scale } = cube.describe(band);
    const ends = [0, 1].map((end) => {
      if (view.stretch !== "fixed") return made("span", { textContent: toldApart(pair.map(real))[end] });
      const input = made("input", { type: "number", step: "any", value: Number(real(pair[end]).toPrecision(7)), ariaLabel: `${band}, ${end ? "upper" : "lower"} end` });
      input.addEventListener("change", () => {
        if (Number.isFinite(input.valueAsNumber)) onChange(index, end, (input.valueAsNumber - offset) / scale);
      });
      return input;
    });
    const fill = view.bands.length === 3 ? `band-${2 - index}` : "band-none";
    const parts = samples[index] ? [histogram(samples[index], pair, { label: band, fill, told: toldApart(pair.map(real)), onChange: (end, value, isLast) => onChange(index, end, value, isLast) })] : [];
    return made("div", {}, ...parts, bar, made("div", { className: "ends" }, ...ends));
  }));
  if (focused >= 0) document.querySelectorAll("#limits .handle")[focused]?.focus();
}

const barOf = (view, index) => (view.bands.length === 3 ? `linear-gradient(to right, #000, ${COLOURS[index][1]})` : gradient(MAPS[view.map]));

// The legend on the picture: colours of classes, a colour bar with its ends and unit, or what red, green and blue are.
export function fillKey(view, cube, limits, classes, hasGaps) {
  $("key").replaceChildren(...keyOf(view, cube, limits, classes), ...(hasGaps ? [made("span", {}, made("b", { className: "swatch hatched" }), "no data")] : []));
}

function keyOf(view, cube, limits, classes) {
  if (classes) return [...classes.values()].map(({ name, colour }) => swatch(name, colour));
  if (view.bands.length === 3) return view.bands.map((band, index) => made("span", {}, made("b", { className: `swatch of-${COLOURS[index][0]}` }), band));
  const { real, unit } = cube.describe(view.bands[0]);
  const named = made("span", { textContent: `${nameOf(view.bands[0])}${unit ? `, ${unit}` : ""}` });
  if (!limits) return [named]; // no pixel is valid
  const ends = toldApart(limits[0].map(real));
  if (limits[0][0] === limits[0][1]) return [named, made("span", { textContent: ends[0] })]; // all pixels have one colour
  const bar = made("span", { className: "bar", role: "img", ariaLabel: `Colour bar from ${ends.join(" to ")}` });
  bar.style.background = barOf(view, 0);
  return [named, made("span", { className: "limits" }, ends[0], bar, ends[1])];
}

export function chooseTheme() {
  const page = document.documentElement;
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (page.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const name = () => { $("theme").textContent = isDark() ? "Light" : "Dark"; };
  $("theme").hidden = false;
  $("theme").addEventListener("click", () => { page.dataset.theme = isDark() ? "light" : "dark"; name(); });
  prefersDark.addEventListener("change", name);
  name();
}
