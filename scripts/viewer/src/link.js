// The view as the part of a link after #, and back. Wrong parts are ignored.

const STRETCHES = ["kept", "row", "fixed"];

export function toLink(view) {
  const parts = new URLSearchParams();
  parts.set("row", view.row);
  if (view.bands.length === 3) parts.set("rgb", view.bands.join(","));
  else parts.set("show", view.bands[0]);
  parts.set("map", view.map);
  parts.set("stretch", view.stretch);
  if (view.quick) parts.set("quick", view.quick); // for first.js
  if (view.limits) parts.set("limits", view.limits.map((pair) => pair.join(",")).join(";"));
  if (view.part) parts.set("part", ["x", "y", "width", "height"].map((each) => view.part[each]).join(","));
  if (view.at) parts.set("at", [view.at.x, view.at.y, view.at.zoom].map((each) => Number(each.toPrecision(5))).join(","));
  if (view.other !== null) parts.set("compare", view.other);
  if (view.skips) parts.set("skip", "1");
  return `#${parts}`;
}

export function fromLink(hash, cube, maps) {
  const parts = new URLSearchParams(hash.replace(/^#/, ""));
  const known = (names) => names.every((each) => cube.measurements.includes(each) || cube.formula(each));
  const view = {};
  const row = Number(parts.get("row") ?? NaN);
  if (Number.isInteger(row) && row >= 0 && row < cube.nRows) view.row = row;
  const bands = parts.get("rgb")?.split(",") ?? (parts.has("show") ? [parts.get("show")] : []);
  if ([1, 3].includes(bands.length) && known(bands)) view.bands = bands;
  if (maps.includes(parts.get("map"))) view.map = parts.get("map");
  if (STRETCHES.includes(parts.get("stretch"))) view.stretch = parts.get("stretch");
  const limits = parts.get("limits")?.split(";").map((pair) => pair.split(",").map(Number)) ?? [];
  const isWhole = limits.length === (view.bands?.length ?? 1) && limits.every((pair) => pair.length === 2 && pair.every(Number.isFinite));
  if (isWhole && view.stretch !== "row") view.limits = limits;
  const [x, y, width, height] = parts.get("part")?.split(",").map(Number) ?? [];
  const isIn = [x, y, width, height].every(Number.isInteger) && x >= 0 && y >= 0 && width > 0 && height > 0
    && x + width <= cube.width && y + height <= cube.height;
  if (isIn) view.part = { x, y, width, height };
  const [middle, line, zoom] = parts.get("at")?.split(",").map(Number) ?? [];
  view.at = [middle, line].every(Number.isFinite) && zoom > 1 ? { x: middle, y: line, zoom } : null;
  const other = Number(parts.get("compare") ?? NaN);
  view.other = Number.isInteger(other) && other >= 0 && other < cube.nRows ? other : null;
  view.skips = parts.get("skip") === "1";
  return view;
}
