// What part of the window the stage shows: zoom and pan by wheel, drag, pinch and keys. Clicks and rectangles, too.
import { $ } from "./elements.js";

const MOST_ZOOM = 40; // CSS pixels for one pixel
const CLICK_PX = 4; // a press that moves no further is a click
const WHEEL = 0.0016;
const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const PANS = { a: [1, 0], d: [-1, 0], w: [0, 1], s: [0, -1] };
const clipped = (value, low, high) => Math.min(Math.max(value, low), high);

export class Viewport {
  // `onChange` follows each move; `onPart` gets a pixel or rectangle; `onMark` one that is being drawn, or null;
  // `onHover` gets the place under the pointer in pixels, or null.
  constructor(cube, { onChange, onHover, onMark, onPart }) {
    Object.assign(this, { cube, onChange, onHover, onMark, onPart });
    this.stage = $("stage");
    this.scale = 1;
    this.left = 0;
    this.top = 0;
    this.isFit = true;
    this.pointers = new Map();
    new ResizeObserver(() => this.place()).observe(this.stage);
    this.listen();
  }

  get fitScale() {
    return Math.min(this.stage.clientWidth / this.cube.width, this.stage.clientHeight / this.cube.height);
  }

  get zoom() { return this.scale / this.fitScale; }

  fit() {
    this.isFit = true;
    this.place();
  }

  // Show a place in pixels in the middle, at a zoom where 1 shows all.
  show({ x, y, zoom }) {
    this.isFit = false;
    this.scale = zoom * this.fitScale;
    this.left = this.stage.clientWidth / 2 - x * this.scale;
    this.top = this.stage.clientHeight / 2 - y * this.scale;
    this.place();
  }

  get middle() {
    return { x: (this.stage.clientWidth / 2 - this.left) / this.scale, y: (this.stage.clientHeight / 2 - this.top) / this.scale };
  }

  place() {
    const { clientHeight, clientWidth } = this.stage;
    if (!clientWidth || !clientHeight) return;
    if (this.isFit) this.scale = this.fitScale;
    const [width, height] = [this.cube.width * this.scale, this.cube.height * this.scale];
    const within = (start, size, whole) => (size <= whole ? (whole - size) / 2 : clipped(start, whole - size, 0));
    this.left = within(this.left, width, clientWidth);
    this.top = within(this.top, height, clientHeight);
    Object.assign($("sheet").style, { left: `${this.left}px`, top: `${this.top}px`, width: `${width}px`, height: `${height}px` });
    this.stage.classList.toggle("zoomed", !this.isFit);
    this.onChange();
  }

  // Zoom and keep a place of the stage where it is; its middle without one.
  zoomBy(factor, x = this.stage.clientWidth / 2, y = this.stage.clientHeight / 2) {
    const scale = clipped(this.scale * factor, this.fitScale, Math.max(MOST_ZOOM, this.fitScale));
    this.left = x - ((x - this.left) * scale) / this.scale;
    this.top = y - ((y - this.top) * scale) / this.scale;
    this.scale = scale;
    this.isFit = scale <= this.fitScale * 1.001;
    this.place();
  }

  panBy(right, down) {
    this.left += right;
    this.top += down;
    this.place();
  }

  // Zoom and pan by keys; whether the key did so.
  press({ key }) {
    const { clientWidth, clientHeight } = this.stage;
    if (key === "+" || key === "=") this.zoomBy(1.5);
    else if (key === "-") this.zoomBy(1 / 1.5);
    else if (key === "0") this.fit();
    else if (key in PANS) this.panBy((PANS[key][0] * clientWidth) / 5, (PANS[key][1] * clientHeight) / 5);
    else return false;
    return true;
  }

  // Move so that a part can be seen.
  reveal({ x, y, width, height }) {
    const { clientWidth, clientHeight } = this.stage;
    const by = (start, size, whole) => (start < 0 ? -start : start + size > whole ? whole - start - size : 0);
    const [right, down] = [by(x * this.scale + this.left, width * this.scale, clientWidth), by(y * this.scale + this.top, height * this.scale, clientHeight)];
    if (right || down) this.panBy(right, down);
  }

  // The pixel under a pointer; null outside, but for the nearest one if `isClipped`.
  pixelAt({ clientX, clientY }, isClipped = false) {
    const { left, top } = this.stage.getBoundingClientRect();
    const [x, y] = [(clientX - left - this.left) / this.scale, (clientY - top - this.top) / this.scale];
    const isIn = x >= 0 && y >= 0 && x < this.cube.width && y < this.cube.height;
    if (!isIn && !isClipped) return null;
    return { x: clipped(Math.floor(x), 0, this.cube.width - 1), y: clipped(Math.floor(y), 0, this.cube.height - 1) };
  }

  listen() {
    const { stage, pointers } = this;
    let from = null; // where the only pointer was pressed
    let drawn = null;
    const inStage = ({ clientX, clientY }) => {
      const { left, top } = stage.getBoundingClientRect();
      return [clientX - left, clientY - top];
    };
    const spanned = (event) => {
      const [one, other] = [from.pixel, this.pixelAt(event, true)];
      return { x: Math.min(one.x, other.x), y: Math.min(one.y, other.y), width: Math.abs(other.x - one.x) + 1, height: Math.abs(other.y - one.y) + 1 };
    };
    const gap = () => {
      const [one, other] = [...pointers.values()].map(inStage);
      return { size: Math.hypot(one[0] - other[0], one[1] - other[1]), x: (one[0] + other[0]) / 2, y: (one[1] + other[1]) / 2 };
    };
    stage.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomBy(Math.exp(-event.deltaY * WHEEL * (event.deltaMode ? 30 : 1)), ...inStage(event));
    }, { passive: false });
    stage.addEventListener("pointerdown", (event) => {
      if (event.button || event.target.closest("button, input")) return;
      pointers.set(event.pointerId, event);
      stage.setPointerCapture(event.pointerId);
      const draws = event.shiftKey || stage.classList.contains("draws");
      from = pointers.size === 1 ? { event, draws, pixel: this.pixelAt(event, draws), moved: false } : null;
      drawn = null;
      this.onMark(null);
    });
    stage.addEventListener("pointermove", (event) => {
      const before = pointers.get(event.pointerId);
      if (!before) { this.onHover(this.pixelAt(event)); return; }
      const gapBefore = pointers.size === 2 ? gap() : null;
      pointers.set(event.pointerId, event);
      if (gapBefore) {
        const { size, x, y } = gap();
        this.panBy(x - gapBefore.x, y - gapBefore.y);
        this.zoomBy(size / Math.max(gapBefore.size, 1), x, y);
        return;
      }
      if (!from) return;
      from.moved ||= Math.hypot(event.clientX - from.event.clientX, event.clientY - from.event.clientY) > CLICK_PX;
      if (from.draws) { drawn = spanned(event); this.onMark(drawn); }
      else if (from.moved) this.panBy(event.clientX - before.clientX, event.clientY - before.clientY);
    });
    stage.addEventListener("pointerup", (event) => {
      const part = from?.draws ? spanned(event) : from && !from.moved && from.pixel ? { ...from.pixel, width: 1, height: 1 } : null;
      pointers.delete(event.pointerId);
      from = null;
      if (part) this.onPart(part);
    });
    stage.addEventListener("pointercancel", (event) => { pointers.delete(event.pointerId); from = null; this.onMark(null); });
    stage.addEventListener("pointerleave", () => this.onHover(null));
  }
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
