// Runs before the rest of the page has arrived: asks for what is needed first. Shows row 0, unless the link says what is shown.
if (location.protocol !== "file:") {
  window.early = { metadata: fetch("zarr.json"), quicklooks: fetch("quicklooks.npz", { headers: { Range: "bytes=-65536" } }) };
  for (const each of Object.values(window.early)) each.catch(() => null); // told where it is awaited
}
if (!location.hash) {
  const first = Object.assign(new Image(), { id: "first", alt: "", src: "preview.webp", onerror: () => first.remove() });
  document.getElementById("stage").prepend(first);
}
