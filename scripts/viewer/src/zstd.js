// Decodes Zstandard with fzstd, to no more bytes than are asked for.
import { Decompress, decompress } from "fzstd";

export const MOST_CHUNK_BYTES = 256 * 2 ** 20; // of any gather

export function checkSize(size, most) {
  if (size > most) throw new Error("a chunk unpacks to more than its array says");
}

// One Zstandard frame (RFC 8878, section 3.1.1). Its header says how long it becomes, or how far back it looks.
export function decodeZstd(bytes, most) {
  const descriptor = bytes[4];
  const isSingle = (descriptor >> 5) & 1;
  const windowBytes = isSingle ? 0 : 2 ** (10 + (bytes[5] >> 3)) * (1 + (bytes[5] & 7) / 8);
  const start = 6 - isSingle + [0, 1, 2, 4][descriptor & 3];
  const length = [isSingle, 2, 4, 8][descriptor >> 6];
  if (length) {
    let size = length === 2 ? 256 : 0;
    for (let index = 0; index < length; index++) size += bytes[start + index] * 256 ** index;
    checkSize(size, most);
    return decompress(bytes, new Uint8Array(size)); // exactly as long: readers of text expect no slack
  }
  checkSize(windowBytes, MOST_CHUNK_BYTES);
  const parts = [];
  let size = 0;
  new Decompress((part) => {
    size += part.length;
    checkSize(size, most);
    parts.push(part.slice());
  }).push(bytes, true);
  return joined(parts, size);
}

export function joined(parts, size) {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
