// Decodes chunks of Blosc 1 (https://github.com/Blosc/c-blosc, README_CHUNK_FORMAT.rst) with LZ4 or Zstandard inside.
// numcodecs has a decoder in WebAssembly. It is not used, because its glue makes functions from text, which the page's
// content security policy forbids, and because it would make the page eight times as large.
import { checkSize, decodeZstd } from "./zstd.js";

const HEADER_BYTES = 16;
const SHUFFLED = 1;
const COPIED = 2;
const BIT_SHUFFLED = 4;
const NOT_SPLIT = 16;
const LZ4 = 1;
const ZSTD = 4;
const MOST_SPLITS = 16;
const LEAST_SPLIT_VALUES = 128;

export function decodeBlosc(bytes, most = Infinity) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const [version, flags, valueBytes] = [bytes[0], bytes[2], bytes[3]];
  const [size, blockSize] = [view.getUint32(4, true), view.getUint32(8, true)];
  if (version !== 2) throw new Error(`Blosc's format ${version} is unknown`);
  if (!blockSize) throw new Error("Blosc data are damaged");
  checkSize(size, most);
  if (flags & COPIED) return bytes.slice(HEADER_BYTES, HEADER_BYTES + size);
  const inner = flags >> 5;
  if (inner !== LZ4 && inner !== ZSTD) throw new Error("inside Blosc is neither LZ4 nor Zstandard");

  const decoded = new Uint8Array(size);
  const block = new Uint8Array(Math.min(blockSize, size));
  for (let start = 0, index = 0; start < size; start += blockSize, index++) {
    const length = Math.min(blockSize, size - start);
    const isSplit = !(flags & NOT_SPLIT) && length === blockSize && valueBytes <= MOST_SPLITS && blockSize / valueBytes >= LEAST_SPLIT_VALUES;
    const partLength = length / (isSplit ? valueBytes : 1);
    let from = view.getUint32(HEADER_BYTES + 4 * index, true);
    for (let at = 0; at < length; at += partLength) {
      const stored = view.getUint32(from, true);
      const part = bytes.subarray(from + 4, from + 4 + stored);
      const target = block.subarray(at, at + partLength);
      if (stored === partLength) target.set(part);
      else if (inner === LZ4) decodeAndCheckLz4(part, target);
      else target.set(decodeZstd(part, partLength));
      from += 4 + stored;
    }
    const target = decoded.subarray(start, start + length);
    const values = Math.floor(length / valueBytes);
    if (flags & SHUFFLED && valueBytes > 1) unshuffle(block, target, values, valueBytes);
    else if (flags & BIT_SHUFFLED && values > 0 && values % 8 === 0) unshuffleBits(block, target, values, valueBytes);
    else target.set(block.subarray(0, length));
  }
  return decoded;
}

// A browser's fault must not look like a pixel, so what is decoded is compared with what was stored.
function decodeAndCheckLz4(source, target) {
  decodeLz4(source, target);
  if (holdsLz4(source, target)) return;
  decodeLz4(source, target);
  if (!holdsLz4(source, target)) throw new Error("this browser unpacks LZ4 data wrongly; another version of it may not");
}

// One LZ4 block: literals, then a copy of what is decoded already, again and again. No inner function changes a variable
// of this one: Chromium 147 compiled that into wrong pixels, in one load of five.
export function decodeLz4(source, target) {
  let from = 0;
  let to = 0;
  while (from < source.length) {
    const token = source[from++];
    let literals = token >> 4;
    for (let more = literals === 15; more;) {
      const next = source[from++];
      literals += next;
      more = next === 255;
    }
    target.set(source.subarray(from, from + literals), to);
    from += literals;
    to += literals;
    if (from >= source.length) break;
    const distance = source[from] | (source[from + 1] << 8);
    from += 2;
    let length = (token & 15) + 4;
    for (let more = length === 19; more;) {
      const next = source[from++];
      length += next;
      more = next === 255;
    }
    if (distance === 0 || distance > to || to + length > target.length) throw new Error("LZ4 data are damaged");
    if (distance >= length) target.copyWithin(to, to - distance, to - distance + length);
    else for (let index = 0; index < length; index++) target[to + index] = target[to + index - distance];
    to += length;
  }
  if (to !== target.length) throw new Error("LZ4 data are damaged");
}

// Whether bytes are what an LZ4 block says: a second way through it, which only compares.
function holdsLz4(source, target) {
  let to = 0;
  for (let from = 0; from < source.length;) {
    const token = source[from];
    from += 1;
    let literals = token >> 4;
    if (literals === 15) {
      while (source[from] === 255) { literals += 255; from += 1; }
      literals += source[from];
      from += 1;
    }
    for (const stop = from + literals; from < stop; from += 1, to += 1) if (target[to] !== source[from]) return false;
    if (from === source.length) break;
    const distance = source[from] + 256 * source[from + 1];
    from += 2;
    let length = (token % 16) + 4;
    if (length === 19) {
      while (source[from] === 255) { length += 255; from += 1; }
      length += source[from];
      from += 1;
    }
    for (const stop = to + length; to < stop; to += 1) if (target[to] !== target[to - distance]) return false;
  }
  return true;
}

// First bytes of all values, then their second bytes, and so on.
function unshuffle(source, target, values, valueBytes) {
  for (let byte = 0; byte < valueBytes; byte++) {
    for (let value = 0, to = byte, from = byte * values; value < values; value++, to += valueBytes) target[to] = source[from + value];
  }
  for (let index = values * valueBytes; index < target.length; index++) target[index] = source[index];
}

// First bits of all values, then their second bits, and so on. Eight bytes are a square of bits, which is transposed.
// The three steps exchange ever larger squares: Hacker's Delight, second edition, section 7-3.
function unshuffleBits(source, target, values, valueBytes) {
  const row = values / 8;
  for (let byte = 0; byte < valueBytes; byte++) {
    for (let index = 0; index < row; index++) {
      const from = byte * 8 * row + index;
      let low = source[from] | (source[from + row] << 8) | (source[from + 2 * row] << 16) | (source[from + 3 * row] << 24);
      let high = source[from + 4 * row] | (source[from + 5 * row] << 8) | (source[from + 6 * row] << 16) | (source[from + 7 * row] << 24);
      let swapped = (low ^ (low >>> 7)) & 0x00aa00aa;
      low ^= swapped ^ (swapped << 7);
      swapped = (high ^ (high >>> 7)) & 0x00aa00aa;
      high ^= swapped ^ (swapped << 7);
      swapped = (low ^ (low >>> 14)) & 0x0000cccc;
      low ^= swapped ^ (swapped << 14);
      swapped = (high ^ (high >>> 14)) & 0x0000cccc;
      high ^= swapped ^ (swapped << 14);
      const top = (low & 0x0f0f0f0f) | ((high << 4) & 0xf0f0f0f0);
      high = ((low >>> 4) & 0x0f0f0f0f) | (high & 0xf0f0f0f0);
      low = top;
      let to = index * 8 * valueBytes + byte;
      for (let bit = 0; bit < 32; bit += 8, to += valueBytes) target[to] = low >>> bit;
      for (let bit = 0; bit < 32; bit += 8, to += valueBytes) target[to] = high >>> bit;
    }
  }
  for (let index = values * valueBytes; index < target.length; index++) target[index] = source[index];
}
