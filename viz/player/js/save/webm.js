// Writes frames of VP9 or VP8 as a WebM file (Matroska, https://www.matroska.org/technical/elements.html).

const LONGEST_CLUSTER_MS = 30_000; // a block counts from the start of its cluster, in 16 bits with a sign
const VIDEO = 1;
const ID = {
  EBML: 0x1a45dfa3,
  EBMLVersion: 0x4286,
  EBMLReadVersion: 0x42f7,
  EBMLMaxIDLength: 0x42f2,
  EBMLMaxSizeLength: 0x42f3,
  DocType: 0x4282,
  DocTypeVersion: 0x4287,
  DocTypeReadVersion: 0x4285,
  Segment: 0x18538067,
  Info: 0x1549a966,
  TimestampScale: 0x2ad7b1,
  Duration: 0x4489,
  MuxingApp: 0x4d80,
  WritingApp: 0x5741,
  Tracks: 0x1654ae6b,
  TrackEntry: 0xae,
  TrackNumber: 0xd7,
  TrackUID: 0x73c5,
  TrackType: 0x83,
  FlagLacing: 0x9c,
  CodecID: 0x86,
  Video: 0xe0,
  PixelWidth: 0xb0,
  PixelHeight: 0xba,
  Cues: 0x1c53bb6b,
  CuePoint: 0xbb,
  CueTime: 0xb3,
  CueTrackPositions: 0xb7,
  CueTrack: 0xf7,
  CueClusterPosition: 0xf1,
  Cluster: 0x1f43b675,
  Timestamp: 0xe7,
  SimpleBlock: 0xa3,
};

// Numbers have 8 bytes everywhere, so that no size depends on a value.
function eightBytes(write) {
  const bytes = new Uint8Array(8);
  write(new DataView(bytes.buffer));
  return bytes;
}

const whole = (value) => eightBytes((view) => view.setBigUint64(0, BigInt(Math.round(value))));
const real = (value) => eightBytes((view) => view.setFloat64(0, value));
const letters = (words) => new TextEncoder().encode(words);

const sizeOf = (parts) =>
  parts.reduce((sum, part) => sum + (Array.isArray(part) ? sizeOf(part) : part.length), 0);

// An element as a list of byte arrays: its name, the size of its content, its content.
function made(name, ...content) {
  const id = [];
  for (let rest = ID[name]; rest > 0; rest = Math.floor(rest / 256)) id.unshift(rest % 256);
  const size = whole(sizeOf(content));
  size[0] = 1; // the size follows in 7 bytes
  return [Uint8Array.from(id), size, ...content];
}

// `frames` are [{timestamp, isKey, data}] in ms, in their order; `codec` is "V_VP9" or "V_VP8".
export function webmFile(frames, { codec, width, height, duration }) {
  const header = made(
    "EBML",
    made("EBMLVersion", whole(1)),
    made("EBMLReadVersion", whole(1)),
    made("EBMLMaxIDLength", whole(4)),
    made("EBMLMaxSizeLength", whole(8)),
    made("DocType", letters("webm")),
    made("DocTypeVersion", whole(4)),
    made("DocTypeReadVersion", whole(2)),
  );
  const app = letters("FlashAttention, played back");
  const info = made(
    "Info",
    made("TimestampScale", whole(1_000_000)),
    made("Duration", real(duration)),
    made("MuxingApp", app),
    made("WritingApp", app),
  );
  const video = made("Video", made("PixelWidth", whole(width)), made("PixelHeight", whole(height)));
  const entry = [made("TrackNumber", whole(1)), made("TrackUID", whole(1)), made("TrackType", whole(VIDEO))];
  const track = made(
    "TrackEntry",
    ...entry,
    made("FlagLacing", whole(0)),
    made("CodecID", letters(codec)),
    video,
  );
  const head = [info, made("Tracks", track)];
  const clusters = clustersOf(frames);
  const cues = (start) => made("Cues", ...cuePoints(clusters, start));
  const start = sizeOf([...head, cues(0)]);
  const segment = made("Segment", ...head, cues(start), ...clusters.map(({ bytes }) => bytes));
  return new Blob([header, segment].flat(Infinity), { type: "video/webm" });
}

// A cluster begins with a key frame, or if the one before is long.
function clustersOf(frames) {
  const clusters = [];
  for (const frame of frames) {
    const { start } = clusters.at(-1) ?? {};
    if (start === undefined || frame.isKey || frame.timestamp - start > LONGEST_CLUSTER_MS) {
      clusters.push({ start: frame.timestamp, isKey: frame.isKey, blocks: [] });
    }
    const cluster = clusters.at(-1);
    const since = Math.round(frame.timestamp - cluster.start);
    const head = Uint8Array.from([0x81, since >> 8, since & 255, frame.isKey ? 0x80 : 0]);
    cluster.blocks.push(made("SimpleBlock", head, frame.data));
  }
  for (const cluster of clusters) {
    cluster.bytes = made("Cluster", made("Timestamp", whole(cluster.start)), ...cluster.blocks);
  }
  return clusters;
}

// Where a player finds the key frames, counted from the beginning of the segment's content.
function cuePoints(clusters, start) {
  let at = start;
  return clusters.flatMap(({ start: time, isKey, bytes }) => {
    const place = made(
      "CueTrackPositions",
      made("CueTrack", whole(1)),
      made("CueClusterPosition", whole(at)),
    );
    at += sizeOf(bytes);
    return isKey ? [made("CuePoint", made("CueTime", whole(time)), place)] : [];
  });
}
