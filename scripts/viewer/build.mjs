// Builds view.html: one file with its style, its script and the licences of what the script holds.
// node build.mjs TARGET TABLE: TABLE is that of band names as JSON.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import * as esbuild from "esbuild";

const here = (path) => new URL(path, import.meta.url);
const text = (path) => readFileSync(here(path), "utf8").trim();

// zarrita names every codec of numcodecs. The page registers its own, so these are never asked for.
const unused = {
  name: "unused codecs",
  setup(build) {
    build.onResolve({ filter: /^numcodecs\// }, ({ path }) => ({ path, namespace: "unused" }));
    build.onLoad({ filter: /.*/, namespace: "unused" }, () => ({ contents: "export default null" }));
  },
};

async function bundled(options) {
  const built = await esbuild.build({ bundle: true, minify: true, write: false, charset: "utf8", legalComments: "none", logLevel: "error", absWorkingDir: here(".").pathname, ...options });
  return built.outputFiles[0].text.trim();
}

const MOST_PICTURES = "6"; // of a link
const script = await bundled({ entryPoints: ["src/main.js"], format: "iife", target: "es2022", plugins: [unused], define: { "import.meta.url": '""', BAND_TABLE: process.argv[3], MOST_PICTURES } });
const first = await bundled({ entryPoints: ["src/first.js"], format: "iife", target: "es2022", define: { MOST_PICTURES } });
const style = await bundled({ entryPoints: ["src/view.css"] });
const hash = (content) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`;

const packages = ["zarrita", "@zarrita/storage", "fzstd"].map((name) => {
  const { version } = JSON.parse(text(`node_modules/${name}/package.json`));
  return [`${name} ${version}`, text(`node_modules/${name}/LICENSE`)];
});
const licences = packages.map(([name, licence]) => `=== ${name} ===\n\n${licence.replaceAll("--", "- -")}`).join("\n\n");

const policy = `default-src 'self'; script-src ${hash(first)} ${hash(script)}; style-src ${hash(style)}; base-uri 'none'; form-action 'none'`;

const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<title>Cube – Pixel Gather</title>
<link rel="preload" href="zarr.json" as="fetch" crossorigin>
<style>${style}</style>
</head>
<body>
${text("src/view.html").replace("<!-- first.js -->", () => `<script>${first}</script>`)}
<script>${script}</script>
</body>
</html>
<!-- Licences of the packages inside this page

${licences}
-->
`;
writeFileSync(process.argv[2], page);
