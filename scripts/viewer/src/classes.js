// Bands whose values are classes: which values, with names and colours. Classes are neither averaged nor stretched.
import { CLASS_COLOURS, SCENE_CLASSES, commonName, isNamedClasses } from "./bands.js";

const MOST_CLASSES = 12; // with more different values, integers are amounts
const FEWEST_PIXELS = 1000;

// Classes of a band, from the pixels of some rows; null if its values are amounts.
export function classesOf(cube, band, layers) {
  if (cube.formula(band)) return null;
  const { attributes, data_type: dtype } = cube.arrays[band];
  const isInteger = /^u?int|^bool/.test(dtype);
  if (!isInteger) return null;
  const isSaid = "flag_values" in attributes || isNamedClasses(band);
  if (!isSaid && ("units" in attributes || "scaled_units" in attributes)) return null;
  const values = valuesIn(layers, isSaid ? 256 : MOST_CLASSES);
  if (!values || (!isSaid && (values.length < 2 || countOf(layers) < FEWEST_PIXELS))) return null;
  const said = saidClasses(attributes, band);
  const black = attributes.color_interpretation === "palette" ? "#000000" : null; // a palette has black where files give no colour
  return new Map(values.map((value, index) => {
    const { name, colour } = said.get(value) ?? {};
    return [value, { name: name ?? `class ${value}`, colour: unpacked(colour ?? black ?? CLASS_COLOURS[index % CLASS_COLOURS.length]) }];
  }));
}

// Whether the attributes say the colour of each class that is there.
export function haveColours(cube, band, layers) {
  const { attributes } = cube.arrays[band];
  const said = saidClasses(attributes, band);
  return attributes.color_interpretation === "palette" || (valuesIn(layers, 256)?.every((value) => said.get(value)?.colour) ?? false);
}

// What the attributes say of each value, or else Sentinel-2's scene classification.
function saidClasses({ flag_values: values, flag_meanings: meanings = "", flag_colors: colours = "" }, band) {
  if (!Array.isArray(values)) return new Map(commonName(band) === "scl" ? SCENE_CLASSES.map(([name, colour], value) => [value, { name, colour }]) : []);
  const names = meanings.split(" ");
  const inHex = colours.split(" ");
  return new Map(values.map((value, index) => [value, {
    name: names[index]?.replaceAll("_", " ") || undefined,
    colour: /^#[0-9a-f]{6}$/.test(inHex[index]) ? inHex[index] : undefined,
  }]));
}

const unpacked = (hex) => [1, 3, 5].map((start) => parseInt(hex.slice(start, start + 2), 16));

// The different valid values, ascending; null if there are more than `most`.
function valuesIn(layers, most) {
  const values = new Set();
  for (const { pixels, mask } of layers) {
    for (let index = 0; index < mask.length; index++) {
      if (!mask[index]) continue;
      values.add(pixels[index]);
      if (values.size > most) return null;
    }
  }
  return [...values].sort((one, other) => one - other);
}

const countOf = (layers) => layers.reduce((sum, { mask }) => sum + mask.reduce((all, each) => all + each, 0), 0);

export const inCss = ([red, green, blue]) => `rgb(${red} ${green} ${blue})`;

// Values of a summary with their shares of the valid pixels, the most frequent first.
export function sharesOf({ counts, n }) {
  return [...counts].map(([value, count]) => ({ value, share: count / n })).sort((one, other) => other.share - one.share);
}
