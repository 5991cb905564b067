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
};

const GAPS = ["absent", "not_gathered"];

// Whether nothing was to be read: such a row is no failure.
export const isGap = (status) => GAPS.includes(status);

export const reason = (status) => REASONS[status] ?? "The row was not read.";

export function number(value) {
  if (!Number.isFinite(value)) return String(value);
  const isWhole = value === Math.round(value) || Math.abs(value) >= 1000;
  if (isWhole && Math.abs(value) < 1e9) return Math.round(value).toLocaleString("en-US");
  return Number(value.toPrecision(4)).toString();
}

export function moment(milliseconds) {
  const text = new Date(milliseconds).toISOString();
  return text.endsWith("T00:00:00.000Z") ? text.slice(0, 10) : `${text.slice(0, 19).replace("T", " ")} UTC`;
}

export function bytes(count) {
  return count < 2 ** 20 ? `${Math.max(1, Math.round(count / 1024))} KiB` : `${number(Number((count / 2 ** 20).toPrecision(3)))} MiB`;
}
