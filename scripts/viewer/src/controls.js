// The controls beside the picture, filled from the view.
import { gradient, MAPS } from "./colours.js";
import { $, made } from "./elements.js";
import { toldApart } from "./words.js";

const COLOURS = [["red", "#f00"], ["green", "#0f0"], ["blue", "#00f"]];

export function fillControls(view, cube, chooseBands) {
  const isRgb = view.bands.length === 3;
  document.querySelector(`[name=kind][value=${isRgb ? "rgb" : "one"}]`).checked = true;
  $("bands").replaceChildren(...view.bands.map((band, index) => {
    const id = `band-${index}`;
    const select = made("select", { id }, ...cube.measurements.map((each) => made("option", { value: each, textContent: each, selected: each === band })));
    select.addEventListener("change", () => chooseBands(view.bands.with(index, select.value)));
    const label = made("label", { htmlFor: id, textContent: isRgb ? COLOURS[index][0] : "Pixels of" });
    return made("div", { className: "field", hidden: cube.measurements.length === 1 }, label, select);
  }));
  $("map").value = view.map;
  $("map").parentElement.hidden = isRgb;
  $("stretch").value = view.stretch;
  $("skips").checked = view.skips;
}

// The scale of each band: its colours and its two ends, which can be typed if they are fixed.
export function fillLimits(view, limits, onChange) {
  $("retake").hidden = view.stretch === "row";
  if ($("limits").contains(document.activeElement)) return;
  $("limits").replaceChildren(...view.bands.map((band, index) => {
    const bar = made("div", { className: "bar" });
    bar.style.background = view.bands.length === 3 ? `linear-gradient(to right, #000, ${COLOURS[index][1]})` : gradient(MAPS[view.map]);
    const pair = limits?.[index];
    const ends = [0, 1].map((end) => {
      if (view.stretch !== "fixed") return made("span", { textContent: pair ? toldApart(pair)[end] : "–" });
      const input = made("input", { type: "number", step: "any", value: pair ? Number(pair[end].toPrecision(7)) : "", ariaLabel: `${band}, ${end ? "upper" : "lower"} end` });
      input.addEventListener("change", () => {
        if (Number.isFinite(input.valueAsNumber)) onChange(index, end, input.valueAsNumber);
      });
      return input;
    });
    return made("div", {}, bar, made("div", { className: "ends" }, ...ends));
  }));
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

// The measurements to show as red, green and blue: by name, as Sentinel-2 numbers them, or the first three.
export function threeOf(names) {
  const named = ["red", "green", "blue"].map((colour) => names.find((each) => each.toLowerCase() === colour));
  const sentinel = ["B04", "B03", "B02"].map((band) => names.find((each) => each.toUpperCase() === band));
  return [named, sentinel].find((three) => three.every(Boolean)) ?? [names[2], names[1], names[0]];
}
