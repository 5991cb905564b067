// Formulas of measurements, such as (nir - red) / (nir + red): parsed, then computed for many pixels at once.
import { namedBand } from "./bands.js";

const TOKEN = /\s*(\d+\.?\d*|\.\d+|[A-Za-z_][\w.]*|[-+*/()])/y;
const OPERATIONS = { "+": (a, b) => a + b, "-": (a, b) => a - b, "*": (a, b) => a * b, "/": (a, b) => a / b };

// `names` are the measurements that it reads; null if the text is no formula of them.
export function parseFormula(text, measurements) {
  const tokens = tokensOf(text);
  if (!tokens) return null;
  const names = [];
  let at = 0;
  const sum = () => chain(product, ["+", "-"]);
  const product = () => chain(factor, ["*", "/"]);
  const chain = (next, signs) => {
    let node = next();
    while (signs.includes(tokens[at])) node = { sign: tokens[at++], left: node, right: next() };
    return node;
  };
  const factor = () => {
    const token = tokens[at++];
    if (token === "-") return { sign: "-", left: { value: 0 }, right: factor() };
    if (token === "(") {
      const node = sum();
      if (tokens[at++] !== ")") throw new SyntaxError();
      return node;
    }
    if (/^[\d.]/.test(token ?? "")) return { value: Number(token) };
    const name = measurements.find((each) => each.toLowerCase() === token?.toLowerCase()) ?? namedBand(token?.toLowerCase(), measurements);
    if (!name) throw new SyntaxError();
    if (!names.includes(name)) names.push(name);
    return { name };
  };
  try {
    const node = sum();
    return at === tokens.length && names.length ? { names, evaluate: (pixels) => evaluated(node, pixels) } : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  }
}

function tokensOf(text) {
  const tokens = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.trimEnd().length) {
    const found = TOKEN.exec(text);
    if (!found) return null;
    tokens.push(found[1]);
  }
  return tokens;
}

// Numbers of a node: one number, or an array of one for each pixel. `pixels` has an array for each measurement.
function evaluated(node, pixels) {
  if (node.name) return pixels[node.name];
  if (!node.sign) return node.value;
  const [left, right] = [evaluated(node.left, pixels), evaluated(node.right, pixels)];
  const compute = OPERATIONS[node.sign];
  if (typeof left === "number" && typeof right === "number") return compute(left, right);
  const found = new Float64Array((typeof left === "number" ? right : left).length);
  for (let index = 0; index < found.length; index++) {
    found[index] = compute(typeof left === "number" ? left : left[index], typeof right === "number" ? right : right[index]);
  }
  return found;
}
