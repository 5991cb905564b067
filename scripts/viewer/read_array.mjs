// Reads arrays of local cubes with zarrita, for scripts/read_while_growing.py.
// node read_array.mjs CUBE ARRAY
// It reads once for each line of its standard input. It answers with the number of bytes, a space, the shape as
// JSON and an end of line, and then the values as they are in memory.
import { createInterface } from "node:readline";
import FileSystemStore from "@zarrita/storage/fs";
import * as zarr from "zarrita";

const [cube, name] = process.argv.slice(2);
for await (const _ of createInterface({ input: process.stdin })) {
  const root = zarr.root(await zarr.withMaybeConsolidatedMetadata(new FileSystemStore(cube), { format: "v3" }));
  const { data, shape } = await zarr.get(await zarr.open(root.resolve(name), { kind: "array" }));
  const content = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  process.stdout.write(`${content.length} ${JSON.stringify(shape)}\n`);
  process.stdout.write(content);
}
