// Files to keep: the picture with its row and its scale below, and the series as a table.
import { made } from "./elements.js";

const FEWEST_PX = 640;
const LINE_PX = 22;

export function save(blob, name) {
  const link = made("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

// The canvas, enlarged by whole numbers, with lines of text below.
export function pictureWith(canvas, lines) {
  const times = Math.max(1, Math.ceil(FEWEST_PX / canvas.width));
  const whole = made("canvas", { width: canvas.width * times, height: canvas.height * times + LINE_PX * lines.length + 8 });
  const context = whole.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, whole.width, whole.height);
  context.fillStyle = "#d6d6d6"; // no data
  context.fillRect(0, 0, whole.width, canvas.height * times);
  context.imageSmoothingEnabled = false;
  context.drawImage(canvas, 0, 0, whole.width, canvas.height * times);
  context.fillStyle = "#1f2328";
  context.font = "15px system-ui, sans-serif";
  lines.forEach((line, index) => context.fillText(line, 6, canvas.height * times + LINE_PX * (index + 1) - 2, whole.width - 12));
  return new Promise((resolve) => { whole.toBlob(resolve, "image/png"); });
}
