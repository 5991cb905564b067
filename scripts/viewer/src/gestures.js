// Turns pointers and keys over the picture into parts of the window: one pixel, or a rectangle.
import { $ } from "./elements.js";

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const clipped = (value, low, high) => Math.min(Math.max(value, low), high);

// `onMove` gets the part while a pointer moves, and null if it was taken away; `onPart` gets the part at the end.
export function listenToPointer(cube, { onMove, onPart }) {
  const stage = $("stage");
  let from = null;
  const at = ({ clientX, clientY }) => {
    const { left, top, width, height } = stage.getBoundingClientRect();
    const index = (share, count) => clipped(Math.floor(share * count), 0, count - 1);
    return { x: index((clientX - left) / width, cube.width), y: index((clientY - top) / height, cube.height) };
  };
  const draws = ({ pointerType }) => pointerType === "mouse" || stage.classList.contains("draws");
  const spanned = (event) => {
    const to = at(event);
    if (!draws(event)) return { ...to, width: 1, height: 1 };
    return { x: Math.min(from.x, to.x), y: Math.min(from.y, to.y), width: Math.abs(to.x - from.x) + 1, height: Math.abs(to.y - from.y) + 1 };
  };
  stage.addEventListener("pointerdown", (event) => {
    if (event.button || !event.isPrimary) return;
    from = at(event);
    if (draws(event)) stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => { if (from) onMove(spanned(event)); });
  stage.addEventListener("pointerup", (event) => {
    if (!from) return;
    const part = spanned(event);
    from = null;
    onPart(part);
  });
  stage.addEventListener("pointercancel", () => { from = null; onMove(null); });
}

// The part that an arrow key leads to: moved, or resized with Shift. Null for other keys.
export function partAfter({ key, shiftKey }, part, cube) {
  if (!(key in MOVES)) return null;
  if (!part) return { x: Math.floor(cube.width / 2), y: Math.floor(cube.height / 2), width: 1, height: 1 };
  const [right, down] = MOVES[key];
  if (shiftKey) {
    return { ...part, width: clipped(part.width + right, 1, cube.width - part.x), height: clipped(part.height + down, 1, cube.height - part.y) };
  }
  return { ...part, x: clipped(part.x + right, 0, cube.width - part.width), y: clipped(part.y + down, 0, cube.height - part.height) };
}
