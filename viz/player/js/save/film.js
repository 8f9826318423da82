// An animation of a span of steps, made in the browser: each frame is the picture of a step, drawn at its own
// time and not when the screen happens to show it. The browser encodes videos (WebCodecs).

import { media } from "../vendor/media.js";
import { GifTape } from "./gif.js";

const TRANSITION_FRAME_MS = 1000 / 30;
const SHORTEST_FRAME_MS = 1000 / 60;
const STANDS_AT_LEAST_MS = 1000; // at the end
const KEY_FRAME_EVERY_MS = 4000; // so that a film can be wound to a place
const BITS_PER_PIXEL = 3; // a second: lines and letters stay sharp
const QUEUE = 3; // frames that wait for the encoder

// [name in the file, codec of the browser] of each format, the better first.
const CODECS = {
  mp4: [
    ["avc", "avc1.640034"],
    ["avc", "avc1.420034"],
  ],
  webm: [
    ["V_VP9", "vp09.00.51.08"],
    ["V_VP8", "vp8"],
  ],
};

// When what is shown, at the present speed, from one position to another: [{position, tween, time}] in ms,
// and how long it takes. Steps that are too fast for a screen are left out.
export function shotsOf(owner, from, to) {
  const { track, speed } = owner.transport;
  const before = track.position;
  const each = 1000 / (speed * track.ticksPerStep);
  const shots = [];
  const add = (shot) => {
    if (!shots.length || shot.time - shots.at(-1).time >= SHORTEST_FRAME_MS - 1e-6) shots.push(shot);
    else Object.assign(shots.at(-1), { position: shot.position, tween: shot.tween });
  };
  let time = 0;
  for (let position = from; ; time += each) {
    track.position = position;
    const changes = position === from ? 0 : Math.min(owner.transitionMs, each);
    for (let since = 0; since < changes; since += TRANSITION_FRAME_MS) {
      add({ position, tween: since / changes, time: time + since });
    }
    add({ position, tween: 1, time: time + changes });
    const next = Math.min(track.played(), to);
    if (next <= position) break;
    position = next;
  }
  track.position = before;
  return { shots, duration: time + Math.max(each, STANDS_AT_LEAST_MS) };
}

// How the browser encodes a format at a size; null if it cannot. Sizes are even numbers: colours have half of
// them.
async function configOf(format, width, height) {
  if (!window.VideoEncoder) return null;
  const bitrate = Math.round(width * height * BITS_PER_PIXEL);
  const asked = CODECS[format].map(async ([codec, browserCodec]) => {
    const config = { codec: browserCodec, width, height, bitrate, framerate: 30, latencyMode: "quality" };
    const { supported } = await VideoEncoder.isConfigSupported(config).catch(() => ({ supported: false }));
    return supported && { config, codec };
  });
  return (await Promise.all(asked)).find(Boolean) ?? null;
}

// The file as a Blob. The picture's owner is moved from shot to shot. `onProgress` is called with the part
// that is done; `signal` ends it with its reason. Throws an Error with words for the reader if the browser
// cannot encode.
export async function film(picture, { format, scale, shots, duration, onProgress, signal }) {
  const { transport } = picture.owner;
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [picture.width, picture.height].map(
    (size) => 2 * Math.round((size * scale) / 2),
  );
  const tape = await tapeOf(format, canvas.width, canvas.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  try {
    for (const [i, { position, tween, time }] of shots.entries()) {
      signal.throwIfAborted();
      transport.track.position = position;
      picture.paint(context, scale, tween);
      // oxlint-disable-next-line no-await-in-loop -- frames are encoded one after another
      await tape.add(canvas, time, shots[i + 1]?.time ?? duration);
      onProgress((i + 1) / shots.length);
    }
    await tape.end(canvas, duration);
  } finally {
    tape.close();
  }
  return tape.file();
}

// What takes the frames of a format. Throws an Error with words for the reader if the browser cannot encode
// it.
async function tapeOf(format, width, height) {
  if (format === "gif") return new GifTape(width, height);
  const found = await configOf(format, width, height);
  if (!found) throw new Error(refusal(format, width, height));
  return new VideoTape(format, found);
}

function refusal(format, width, height) {
  const name = { mp4: "MP4 (H.264)", webm: "WebM (VP9)" }[format];
  const other = "Try a smaller size or the other format.";
  if (window.VideoEncoder) return `This browser does not encode ${name} at ${width} × ${height}. ${other}`;
  return "This browser encodes video only in pages from localhost, from https or from a file.";
}

// What the browser's encoder gives, as a file.
class VideoTape {
  constructor(format, { config, codec }) {
    const { Muxer, Target } = media[format];
    const { width, height } = config;
    this.format = format;
    this.keyAt = -Infinity;
    this.muxer = new Muxer({ target: new Target(), video: { codec, width, height }, fastStart: "in-memory" });
    this.encoder = new VideoEncoder({
      output: (chunk, about) => this.muxer.addVideoChunk(chunk, about),
      error: (error) => (this.error = error),
    });
    this.encoder.configure(config);
  }

  async add(canvas, time, until) {
    const keyFrame = time - this.keyAt >= KEY_FRAME_EVERY_MS;
    if (keyFrame) this.keyAt = time;
    const [timestamp, end] = [time, until].map((ms) => Math.round(ms * 1000));
    const frame = new VideoFrame(canvas, { timestamp, duration: end - timestamp });
    this.encoder.encode(frame, { keyFrame });
    frame.close();
    do {
      // oxlint-disable-next-line no-await-in-loop -- the encoder is asked again after each turn
      await turn();
      if (this.error) throw this.error;
    } while (this.encoder.encodeQueueSize > QUEUE);
  }

  async end(canvas, duration) {
    await this.add(canvas, duration - SHORTEST_FRAME_MS, duration); // a WebM ends with its last frame's start
    await this.encoder.flush();
    if (this.error) throw this.error;
    this.muxer.finalize();
  }

  close() {
    if (this.encoder.state !== "closed") this.encoder.close();
  }

  file() {
    return new Blob([this.muxer.target.buffer], { type: `video/${this.format}` });
  }
}

// Let the page do what it has to. Unlike a timer this is as quick in a hidden tab.
function turn() {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.addEventListener("message", () => {
      port1.close();
      resolve();
    });
    port1.start();
    port2.postMessage(null);
  });
}
