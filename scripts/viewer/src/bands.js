// What names of bands mean. The table is that of pixel_gather.core.model.band_names, which the build puts in.
const { names: NAMES, classes: CLASSES, indexes: INDEXES, suffix: SUFFIX } = BAND_TABLE;
export const { sceneClasses: SCENE_CLASSES, classColours: CLASS_COLOURS } = BAND_TABLE;

const COLOURS = ["red", "green", "blue"];
const plain = (name) => name.toLowerCase().replace(new RegExp(SUFFIX), "");

export const commonName = (name) => Object.keys(NAMES).find((common) => NAMES[common].includes(plain(name))) ?? null;

export const isNamedClasses = (name) => CLASSES.includes(plain(name));

export function namedBand(common, bands) {
  for (const name of NAMES[common] ?? [common]) {
    const found = bands.find((each) => plain(each) === name);
    if (found) return found;
  }
  return null;
}

// The measurements that make true colour: as the files say, or else as their names do; null if nothing tells.
export function redGreenBlue(measurements, interpretations) {
  const told = COLOURS.map((colour) => measurements.find((each) => interpretations[each] === colour));
  const three = told.every(Boolean) ? told : COLOURS.map((colour) => namedBand(colour, measurements));
  return three.every(Boolean) ? three : null;
}

// What a band is called on the page: an index by its name, not by its formula.
export const nameOf = (band) => Object.entries(INDEXES).find(([, text]) => text === band)?.[0].toUpperCase() ?? band;

// Indexes by name whose bands are there.
export function indexesOf(measurements) {
  return Object.entries(INDEXES).filter(([, text]) => text.match(/[a-z]\w*/g).every((name) => namedBand(name, measurements)));
}
