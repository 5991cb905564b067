// Numbers, moments and statuses as text.

const REASONS = {
  absent: "The list names no source for this row.",
  missing: "No object is under this address.",
  denied: "The object store refused access.",
  corrupt: "The object is not a raster, or its bytes cannot be decoded.",
  unlike: "Its type, number of bands or grid does not fit the cube.",
  outside: "The window lies outside the source.",
  timed_out: "No answer came within the time limit.",
  changed: "The object was replaced while it was read.",
  unsupported: "No reader can read this file.",
  not_gathered: "No source was gathered into this row.",
  lost: "Its worker failed. Nothing was recorded.",
  unmasked: "It was read, but not the mask of its row.",
  gone: "The cube's object with these pixels is not there. It was removed or never copied.",
};

const GAPS = ["absent", "not_gathered"];

// Whether nothing was to be read: such a row is no failure.
export const isGap = (status) => GAPS.includes(status);

export const reason = (status) => REASONS[status] ?? "The row was not read.";

// An href as people read it: with the letters that were percent-encoded. Keys of buckets are never encoded.
export function shownHref(href) {
  if (!/^(file|https?):/.test(href)) return href;
  const [path, ...query] = href.split("?");
  try {
    return [decodeURI(path.replaceAll("%25", "%2525")), ...query].join("?");
  } catch {
    return href; // not UTF-8
  }
}

export function number(value) {
  if (!Number.isFinite(value)) return String(value);
  const isWhole = value === Math.round(value) || Math.abs(value) >= 1000;
  if (isWhole && Math.abs(value) < 1e9) return Math.round(value).toLocaleString("en-US");
  const short = Number(value.toPrecision(4));
  return Math.abs(value) < 1e9 ? short.toString() : short.toExponential();
}

// A value with its unit, then as stored if it has a scale. No digits that the type does not hold, nor the scale tells.
export function valueText(value, { dtype, scale, isScaled, real, unit }) {
  const isFloat = dtype.startsWith("float");
  const stored = isFloat ? Number(value.toPrecision(dtype === "float64" ? 15 : 6)) : value;
  if (!isScaled) return withUnit(stored, unit);
  const digits = Math.min(Math.max(Math.ceil(-Math.log10(Math.abs(scale)) - 1e-9), 0), 20);
  const told = isFloat ? Number(real(value).toPrecision(6)) : Number(real(value).toFixed(digits));
  return `${withUnit(told, unit)} (stored ${stored})`;
}

export const withUnit = (text, unit) => (unit ? `${text} ${unit}` : String(text));

// Rising numbers at even steps, such as an axis has, with as many digits as tell them apart.
export function toldApart(values) {
  const short = values.map(number);
  if (new Set(short).size === values.length || !(values[1] > values[0])) return short;
  const digits = Math.min(20, Math.max(0, Math.ceil(-Math.log10(values[1] - values[0]) - 1e-9)));
  return values.map((each) => each.toLocaleString("en-US", { minimumFractionDigits: digits, maximumFractionDigits: digits }));
}

// How a grid lies on the map, where north is not above. The report says it in the same words.
export function northInWords([a, b, , d, e]) {
  const determinant = a * e - b * d;
  if (!Number.isFinite(determinant) || determinant === 0) return "";
  const degrees = Math.round((Math.atan2(-b / determinant, -a / determinant) * 180) / Math.PI);
  const isMirrored = determinant > 0;
  if (degrees === 0) return isMirrored ? "the first column is the east" : "";
  if (Math.abs(degrees) === 180) return `the first line is the south${isMirrored ? "" : ", and the first column the east"}`;
  const side = degrees > 0 ? "right" : "left";
  return `north is ${Math.abs(degrees)} ${Math.abs(degrees) === 1 ? "degree" : "degrees"} to the ${side}${isMirrored ? ", and the pixels are mirrored" : ""}`;
}

export function moment(milliseconds) {
  const text = new Date(milliseconds).toISOString();
  return text.endsWith("T00:00:00.000Z") ? text.slice(0, 10) : `${text.slice(0, 19).replace("T", " ")} UTC`;
}

export function bytes(count) {
  return count < 2 ** 20 ? `${Math.max(1, Math.round(count / 1024))} KiB` : `${number(Number((count / 2 ** 20).toPrecision(3)))} MiB`;
}
