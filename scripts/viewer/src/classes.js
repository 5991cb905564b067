// Bands whose values are classes: which values, with names and colours. Classes are neither averaged nor stretched.
import { isNamedClasses, commonName } from "./bands.js";

const MOST_CLASSES = 12; // with more different values, integers are amounts
const FEWEST_PIXELS = 1000;
const SCENE_CLASSES = [
  ["no data", 0x000000], ["saturated or defective", 0xff0000], ["dark area", 0x2f2f2f], ["cloud shadow", 0x643200], ["vegetation", 0x00a000],
  ["bare soil", 0xffe65a], ["water", 0x0000ff], ["unclassified", 0x808080], ["cloud, medium probability", 0xc0c0c0],
  ["cloud, high probability", 0xffffff], ["thin cirrus", 0x64c8ff], ["snow or ice", 0xff96ff],
];
const COLOURS = [0x0072b2, 0xe69f00, 0x009e73, 0xcc79a7, 0x56b4e9, 0xd55e00, 0xf0e442, 0x7b4ea3, 0x8c564b, 0x999999, 0x1b3a57, 0xbcbd22];

// Classes of a band, from the pixels of some rows; null if its values are amounts.
export function classesOf(cube, band, layers) {
  if (cube.formula(band)) return null;
  const { attributes, data_type: dtype } = cube.arrays[band];
  const isInteger = /^u?int|^bool/.test(dtype);
  if (!isInteger) return null;
  const isSaid = "flag_values" in attributes || isNamedClasses(band);
  const values = valuesIn(layers, isSaid ? 256 : MOST_CLASSES);
  if (!values || (!isSaid && (values.length < 2 || countOf(layers) < FEWEST_PIXELS))) return null;
  const names = new Map((attributes.flag_values ?? []).map((value, index) => [Number(value), attributes.flag_meanings?.split(" ")[index]?.replaceAll("_", " ")]));
  const isScene = commonName(band) === "scl";
  return new Map(values.map((value, index) => {
    const [name, colour] = (isScene && SCENE_CLASSES[value]) || [`class ${value}`, COLOURS[index % COLOURS.length]];
    return [value, { name: names.get(value) ?? name, colour: [colour >> 16, (colour >> 8) & 255, colour & 255] }];
  }));
}

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
