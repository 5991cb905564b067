// Runs before the rest of the page has arrived: asks for what is needed first. Shows row 0, unless the link says what is shown.
if (location.protocol !== "file:") {
  const part = (range, options) => fetch("quicklooks.npz", { headers: { Range: `bytes=${range}` }, ...options });
  const [digest, places] = new URLSearchParams(location.hash.slice(1)).get("quick")?.split(":") ?? [];
  const isPlace = /^\d+-\d+(,\d+-\d+)*$/.test(places ?? "") && places.split(",").length <= MOST_PICTURES;
  const pictures = isPlace ? places.split(",").map((each) => part(each, { cache: "no-store" })) : [];
  window.early = { metadata: fetch("zarr.json"), quicklooks: isPlace ? null : part("-65536"), digest, pictures };
  for (const each of [window.early.metadata, window.early.quicklooks, ...pictures]) each?.catch(() => null); // told where it is awaited
}
if (!location.hash) {
  const first = Object.assign(new Image(), { id: "first", alt: "", src: "preview.webp", onerror: () => first.remove() });
  document.getElementById("stage").prepend(first);
}
