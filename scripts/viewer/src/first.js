// Runs before the rest of the page has arrived: shows row 0, unless the link says what is shown.
if (!location.hash) {
  const first = Object.assign(new Image(), { id: "first", alt: "", src: "preview.webp", onerror: () => first.remove() });
  document.getElementById("stage").prepend(first);
}
