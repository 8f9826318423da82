// Writes frames of H.264 as an MP4 file (ISO/IEC 14496-12 and 14496-15): one track, one chunk, its tables
// first.

const MATRIX = [0x10000, 0, 0, 0, 0x10000, 0, 0, 0, 0x40000000]; // no turn
const PER_SECOND = 1000; // of the file's clock
const RESOLUTION = 0x480000; // 72 per inch

const letters = (words) => Uint8Array.from(words, (letter) => letter.charCodeAt(0));

function bytesOf(size, values) {
  const bytes = new Uint8Array(size * values.length);
  const view = new DataView(bytes.buffer);
  values.forEach((value, i) => (size === 4 ? view.setUint32(i * 4, value) : view.setUint16(i * 2, value)));
  return bytes;
}

const long = (...values) => bytesOf(4, values);
const short = (...values) => bytesOf(2, values);

const sizeOf = (parts) => parts.reduce((sum, part) => sum + part.length, 0);

function box(name, ...content) {
  const parts = content.flat(Infinity);
  return [long(8 + sizeOf(parts)), letters(name), ...parts];
}

// A box with version 0 and flags.
const full = (name, flags, ...content) => box(name, long(flags), ...content);

// `frames` are [{timestamp, isKey, data}] in ms, in their order; `description` is the decoder's configuration
// (avcC).
export function mp4File(frames, { width, height, duration, description }) {
  const ends = [...frames.slice(1).map(({ timestamp }) => timestamp), duration];
  const lasts = frames.map(({ timestamp }, i) => Math.max(1, Math.round(ends[i]) - Math.round(timestamp)));
  const shape = { width, height, total: lasts.reduce((sum, last) => sum + last, 0) };
  const type = box("ftyp", letters("isom"), long(0x200), letters("isomiso2avc1mp41"));
  const tables = (offset) => movie(shape, sampleTable(frames, lasts, shape, description, offset));
  const offset = sizeOf(type) + sizeOf(tables(0)) + 8;
  const media = box("mdat", ...frames.map(({ data }) => data));
  return new Blob([...type, ...tables(offset), ...media], { type: "video/mp4" });
}

function movie({ width, height, total }, samples) {
  const none = long(0, 0);
  const rest = long(...MATRIX, 0, 0, 0, 0, 0, 0, 2); // the next track would be the second
  const head = full("mvhd", 0, none, long(PER_SECOND, total, 0x10000), short(0x100, 0), none, rest);
  const size = long(width * 65536, height * 65536);
  const track = full("tkhd", 3, none, long(1, 0, total), none, short(0, 0, 0, 0), long(...MATRIX), size);
  const clock = full("mdhd", 0, none, long(PER_SECOND, total), short(0x55c4, 0)); // no language
  const kind = full("hdlr", 0, long(0), letters("vide"), long(0, 0, 0), letters("video\0"));
  const here = box("dinf", full("dref", 0, long(1), full("url ", 1)));
  const info = box("minf", full("vmhd", 1, short(0, 0, 0, 0)), here, samples);
  return box("moov", head, box("trak", track, box("mdia", clock, kind, info)));
}

function sampleTable(frames, lasts, { width, height }, description, offset) {
  const name = new Uint8Array(32);
  const size = [short(width, height), long(RESOLUTION, RESOLUTION, 0)];
  const look = [short(0, 0), long(0, 0, 0), ...size, short(1), name, short(24, 0xffff)];
  const entry = box("avc1", short(0, 0, 0, 1), ...look, box("avcC", new Uint8Array(description)));
  const times = lasts.flatMap((last) => [1, last]);
  const keys = frames.flatMap(({ isKey }, i) => (isKey ? [i + 1] : []));
  return box(
    "stbl",
    full("stsd", 0, long(1), entry),
    full("stts", 0, long(lasts.length, ...times)),
    full("stss", 0, long(keys.length, ...keys)),
    full("stsc", 0, long(1, 1, frames.length, 1)),
    full("stsz", 0, long(0, frames.length, ...frames.map(({ data }) => data.length))),
    full("stco", 0, long(1, offset)),
  );
}
