// Values of a band as a histogram, with two handles at the ends of the stretch.
import { made } from "./elements.js";

const BINS = 64;
const WIDTH = 256;
const HEIGHT = 44;
const CUT = 0.002; // share of the values that may lie beyond each side
const NAMESPACE = "http://www.w3.org/2000/svg";

// `sample` is sorted. `told` says the limits. `onChange(end, value)` follows a handle: end 0 is the lower one.
export function histogram(sample, limits, { label, fill, told, onChange }) {
  const at = (share) => Number(sample[Math.round(share * (sample.length - 1))]);
  const [low, high] = [Math.min(at(CUT), limits[0]), Math.max(at(1 - CUT), limits[1])];
  const span = high - low || 1;
  const counts = new Array(BINS).fill(0);
  for (const value of sample) {
    const bin = Math.floor(((value - low) / span) * BINS);
    if (bin >= 0 && bin <= BINS) counts[Math.min(bin, BINS - 1)] += 1;
  }
  const most = Math.max(...counts);
  const svg = document.createElementNS(NAMESPACE, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const path = document.createElementNS(NAMESPACE, "path");
  path.setAttribute("class", fill);
  path.setAttribute("d", counts.map((count, bin) => `M${bin * 4} ${HEIGHT}h3.5v${(-HEIGHT * Math.sqrt(count / most)).toFixed(1)}h-3.5z`).join(""));
  svg.append(path);
  const box = made("div", { className: "histogram" }, svg);
  [0, 1].forEach((end) => box.append(handle(end)));
  return box;

  function handle(end) {
    const name = `${label}, ${end ? "upper" : "lower"} end of the stretch`;
    const button = made("div", { className: "handle", tabIndex: 0, role: "slider", ariaLabel: name });
    const set = (value) => {
      const percent = ((value - low) / span) * 100;
      button.style.left = `${percent}%`;
      button.ariaValueNow = percent.toFixed(); // of 0 to 100: numbers with an exponent are no valid values
    };
    set(limits[end]);
    button.ariaValueText = told[end];
    button.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 }[event.key];
      if (!step) return;
      event.preventDefault();
      event.stopPropagation();
      onChange(end, limits[end] + (step * span) / 100, true);
    });
    button.addEventListener("pointerdown", (event) => {
      button.setPointerCapture(event.pointerId);
      const value = ({ clientX }) => {
        const { left, width } = box.getBoundingClientRect();
        return low + Math.min(Math.max((clientX - left) / width, 0), 1) * span;
      };
      button.onpointermove = (moved) => { set(value(moved)); onChange(end, value(moved), false); };
      button.onpointerup = (released) => { button.onpointermove = button.onpointerup = null; onChange(end, value(released), true); };
      event.preventDefault();
    });
    return button;
  }
}
