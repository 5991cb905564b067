// Decoders that unpack no more than a chunk may hold, since anybody may have written the cube.
import { registry } from "zarrita";
import { decodeBlosc } from "./blosc.js";
import { decodeZstd, joined, MOST_CHUNK_BYTES } from "./zstd.js";


const READ = ["blosc", "zstd", "zlib", "gzip", "numcodecs.zlib", "bytes", "crc32c", "transpose", "vlen-utf8"];
for (const name of [...registry.keys()]) if (!READ.includes(name)) registry.delete(name);
registry.set("blosc", async () => bounded(decodeBlosc));
registry.set("zstd", async () => bounded(decodeZstd));
registry.set("gzip", async () => bounded((bytes, most) => inflate(bytes, "gzip", most)));
for (const name of ["zlib", "numcodecs.zlib"]) registry.set(name, async () => bounded((bytes, most) => inflate(bytes, "deflate", most)));

function bounded(decode) {
  const encode = () => { throw new Error("this page writes nothing"); };
  return {
    fromConfig: (_, { shape, dataType }) => {
      const most = chunkBytes(shape, dataType) ?? MOST_CHUNK_BYTES;
      return { kind: "bytes_to_bytes", encode, decode: (bytes) => decode(bytes, most) };
    },
  };
}

// Size of a chunk in memory; undefined for texts.
export function chunkBytes(shape, dtype) {
  const bits = dtype === "bool" ? 8 : Number(/\d+$/.exec(dtype)?.[0]);
  return bits ? shape.reduce((product, each) => product * each, bits / 8) : undefined;
}

// Deflate does not say how long it becomes. What is longer than the chunk is left out, as zarr-python's reader here does.
async function inflate(bytes, format, most) {
  const reader = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format)).getReader();
  const parts = [];
  let size = 0;
  while (size < most) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    size += value.length;
  }
  reader.cancel().catch(() => {});
  return joined(parts, size).subarray(0, most).slice();
}
