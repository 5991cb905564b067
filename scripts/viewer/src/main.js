// Opens the cube beside this page.
import { chooseTheme } from "./controls.js";
import { CubeError, openCube } from "./cube.js";
import { $, say } from "./elements.js";
import { Page } from "./page.js";
import { Quicklooks } from "./quicklooks.js";

async function start() {
  chooseTheme();
  const base = new URL(".", location.href);
  const folder = decodeURIComponent(base.pathname).replace(/\/$/, "");
  if (location.protocol === "file:") {
    throw new CubeError(`A browser lets no page read files of this machine's folders. Run this command to see the cube:\n\npixel-gather view '${folder.replaceAll("'", "'\\''")}'`);
  }
  const quicklooks = new Quicklooks(base.href); // asked for while the metadata are on their way
  const cube = await openCube(base.href);
  const name = folder.split("/").pop() || "Cube";
  $("name").textContent = name;
  document.title = `${name} – Pixel Gather`;
  new Page(cube, quicklooks).start();
}

start().catch((error) => {
  $("app").hidden = $("facts").hidden = true;
  say(error);
});
