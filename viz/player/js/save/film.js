// An animation of a span of steps, made in the browser: each frame is the picture of a step, drawn at its own
// time and not when the screen happens to show it. The browser encodes videos (WebCodecs).

import { media } from "../vendor/media.js";

const { GIFEncoder, applyPalette, quantize } = media.gif;
const FRAME_MS = 1000 / 30;
const GIF_FRAME_MS = 1000 / 15; // half as many: each is stored whole where it changes
const STANDS_AT_LEAST_MS = 1000; // at the end
const KEY_FRAME_EVERY_MS = 4000; // so that a film can be wound to a place
const BITS_PER_PIXEL = 3; // a second: lines and letters stay sharp
const QUEUE = 3; // frames that wait for the encoder

// The format of each codec by its name of the browser, and its name in the file; the better first.
const CODECS = {
  "avc1.640034": ["mp4", "avc"],
  "avc1.420034": ["mp4", "avc"],
  "vp09.00.51.08": ["webm", "V_VP9"],
  vp8: ["webm", "V_VP8"],
};
const NO_ENCODER = "This browser encodes video only in pages from localhost, from https or from a file.";

// What is shown when, at the present speed: [{position, time}] in ms, and how long it takes.
export function shotsOf(owner, [from, to], isGif = false) {
  const { track, speed } = owner.transport;
  const frame = isGif ? GIF_FRAME_MS : FRAME_MS;
  const before = track.position;
  const shots = [];
  track.position = from;
  for (let time = 0; ; time += frame) {
    shots.push({ position: track.position, time });
    if (track.position >= to) break;
    track.position = Math.min(track.played((speed * frame) / 1000), to);
  }
  track.position = before;
  return { shots, duration: shots.at(-1).time + STANDS_AT_LEAST_MS };
}

// The file as a Blob; the picture's owner is moved from shot to shot. `onProgress(part)` is called; `signal`
// ends it with its reason. Throws an Error with words for the reader if the browser cannot encode.
export async function film(picture, { isGif, scale, shots, duration, onProgress, signal }) {
  const { transport } = picture.owner;
  const canvas = document.createElement("canvas");
  const even = (size) => 2 * Math.round((size * scale) / 2);
  [canvas.width, canvas.height] = [picture.width, picture.height].map(even);
  const tape = await tapeOf(isGif, canvas.width, canvas.height);
  const context = canvas.getContext("2d", { willReadFrequently: true });
  try {
    for (const [i, { position, time }] of shots.entries()) {
      signal.throwIfAborted();
      transport.track.position = position;
      picture.paint(context, scale, transport.track.tileRate(transport.speed));
      // oxlint-disable-next-line no-await-in-loop -- frames are encoded one after another
      await tape.add(canvas, time, shots[i + 1]?.time ?? duration);
      onProgress((i + 1) / shots.length);
    }
    return await tape.end(canvas, duration);
  } finally {
    tape.close?.();
  }
}

async function tapeOf(isGif, width, height) {
  if (isGif) return new GifTape(width, height);
  if (!window.VideoEncoder) throw new Error(NO_ENCODER);
  const bitrate = Math.round(width * height * BITS_PER_PIXEL);
  const about = { width, height, bitrate, framerate: 30, latencyMode: "quality" };
  const asked = Object.keys(CODECS).map((codec) => VideoEncoder.isConfigSupported({ codec, ...about }));
  const { config } = (await Promise.allSettled(asked)).find(({ value }) => value?.supported)?.value ?? {};
  if (config) return new VideoTape(config, ...CODECS[config.codec]);
  throw new Error(`This browser encodes no video of ${width} × ${height}. Try a smaller size, or a GIF.`);
}

// What the browser's encoder gives, as a file. Sizes are even numbers: colours have half of them.
class VideoTape {
  constructor(config, format, codec) {
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
    await this.add(canvas, duration - FRAME_MS, duration); // a WebM ends with its last frame's start
    await this.encoder.flush();
    if (this.error) throw this.error;
    this.muxer.finalize();
    return new Blob([this.muxer.target.buffer], { type: `video/${this.format}` });
  }

  close() {
    if (this.encoder.state !== "closed") this.encoder.close();
  }
}

// An animated GIF, for places that show no video. Each frame has up to 255 colours of its own, and a clear
// one for what stays as it was: the file is several times smaller.
class GifTape {
  constructor(width, height) {
    Object.assign(this, { width, height, encoder: GIFEncoder() });
  }

  // A frame from `time` to `until`, in ms. A GIF counts hundredths of a second.
  async add(canvas, time, until) {
    const { width, height } = this;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const palette = quantize(data, 255);
    const transparentIndex = palette.length;
    const pixels = new Uint32Array(data.buffer);
    const isAsBefore = (i) => pixels[i] === this.before?.[i];
    const colors = applyPalette(data, palette).map((color, i) => (isAsBefore(i) ? transparentIndex : color));
    this.before = pixels;
    palette.push([0, 0, 0]);
    const delay = Math.max(10, 10 * (Math.round(until / 10) - Math.round(time / 10)));
    const look = { palette, delay, transparent: true, transparentIndex, dispose: 1 };
    this.encoder.writeFrame(colors, width, height, look);
    await turn();
  }

  async end() {
    this.encoder.finish();
    return new Blob([this.encoder.bytes()], { type: "image/gif" });
  }
}

// Let the page do what it has to. Unlike a timer this is as quick in a hidden tab.
async function turn() {
  const { port1, port2 } = new MessageChannel();
  await new Promise((resolve) => {
    port1.addEventListener("message", resolve);
    port1.start();
    port2.postMessage(null);
  });
  port1.close();
}
