// What no page may have: more than its window's width; text that is below 11 pixels, cut off, broken, outside or on other
// text; no title on top; pictures without alt text; colour bars without two numbers; lines without two dates and two values.
(() => {
  const LEAST_PX = 11, SHORT_WORD = 14;
  const faults = [], width = innerWidth;
  const name = (it) => `${it.tagName.toLowerCase()}${it.id && "#" + it.id}${it.classList.length ? "." + it.classList[0] : ""}`;
  const seen = (it) => it.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  // What is left of a box after all that cuts it off.
  const clipped = (box, from) => {
    let [left, top, right, bottom] = [box.left, box.top, box.right, box.bottom];
    for (let it = from; it && it !== document.documentElement; it = it.parentElement) {
      const { overflowX, overflowY, position } = getComputedStyle(it);
      const own = it.getBoundingClientRect();
      if (overflowX !== "visible") [left, right] = [Math.max(left, own.left), Math.min(right, own.right)];
      if (overflowY !== "visible") [top, bottom] = [Math.max(top, own.top), Math.min(bottom, own.bottom)];
      if (position === "fixed") break;
    }
    return { left, top, right, bottom };
  };
  if (document.documentElement.scrollWidth > width) faults.push(`the page is ${document.documentElement.scrollWidth} wide`);

  const texts = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const it = node.parentElement, text = node.data.trim();
    if (!text || !seen(it) || it.closest("script, style, option, title, dialog:not([open])")) continue;
    const scale = it instanceof SVGElement ? Math.abs(it.getScreenCTM()?.d ?? 1) : 1;
    const size = parseFloat(getComputedStyle(it).fontSize) * scale;
    if (size < LEAST_PX) faults.push(`${name(it)} "${text.slice(0, 30)}" has ${size.toFixed(1)} px`);
    const range = document.createRange();
    range.selectNodeContents(node);
    const lines = range.getClientRects();
    if (lines.length > 1 && text.length <= SHORT_WORD && !/\s/.test(text)) faults.push(`"${text}" is broken`);
    for (const rect of lines) {
      const box = clipped(rect, it);
      if (box.right - box.left < 1 || box.bottom - box.top < 1) continue;
      if (box.left < -1 || box.right > width + 1) faults.push(`${name(it)} "${text.slice(0, 30)}" leaves the page`);
      texts.push({ it, text, box });
    }
  }
  const inside = ({ box: one }, { box: other }) => Math.min(
    Math.min(one.right, other.right) - Math.max(one.left, other.left),
    (Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top)) - 3);
  texts.sort((one, other) => one.box.top - other.box.top);
  texts.forEach((one, index) => {
    for (const other of texts.slice(index + 1)) {
      if (other.box.top > one.box.bottom) break;
      if (inside(one, other) > 1 && one.it !== other.it) faults.push(`"${one.text.slice(0, 30)}" lies on "${other.text.slice(0, 30)}"`);
    }
  });

  for (const it of document.querySelectorAll("body *")) {
    const { overflowX, textOverflow } = getComputedStyle(it);
    const isCut = ["hidden", "clip"].includes(overflowX) && textOverflow !== "ellipsis" && it.scrollWidth > it.clientWidth + 1;
    if (isCut && seen(it) && it.innerText?.trim() && it.clientWidth > 1 && !it.querySelector("canvas")) faults.push(`${name(it)} cuts off its text`);
  }
  for (const it of document.querySelectorAll("button, .limits, .tick, td.n")) {
    const tops = texts.filter((text) => it.contains(text.it) && !text.it.closest("small")).map(({ box }) => box.top);
    if (Math.max(...tops) - Math.min(...tops) > LEAST_PX && seen(it)) faults.push(`${name(it)} "${it.textContent}" is broken`);
  }
  const heading = document.querySelector("h1"), place = heading?.getBoundingClientRect();
  if (!heading?.innerText.trim() || place.top < 0 || place.bottom > innerHeight / 2) faults.push("no title on top");
  for (const it of document.images) {
    if (!it.alt) faults.push(`${name(it)} has no alt text`);
    if (!it.complete || !it.naturalWidth) faults.push(`${name(it)} is not there`);
  }
  for (const it of document.querySelectorAll("svg[role=img], .drawing, .limits .bar")) if (seen(it) && !it.ariaLabel && !it.getAttribute("aria-label")) faults.push(`${name(it)} has no label`);
  for (const it of document.querySelectorAll(".limits .bar")) {
    const box = it.getBoundingClientRect();
    const numbers = it.closest(".limits").innerText.match(/\d[\d.,]*/g) ?? [];
    if (seen(it) && (box.width < 40 || box.left < 0 || box.right > width || numbers.length < 2)) faults.push(`${name(it)} has no two ends in sight`);
  }
  for (const it of document.querySelectorAll(".chart, #chart")) {
    const shown = (kind) => [...it.querySelectorAll(`.${kind}.tick`)].filter(seen).length;
    if (seen(it) && it.querySelector(".line, .spread") && (shown("x") < 2 || shown("y") < 2)) faults.push(`chart "${it.textContent.trim().slice(0, 30)}" has ${shown("x")} dates and ${shown("y")} values`);
  }
  return faults;
})()
