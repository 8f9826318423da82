// An animated GIF, for places that show no video. Each frame has up to 256 colours of its own.

import { media } from "../vendor/media.js";

const { GIFEncoder, applyPalette, quantize } = media.gif;

export class GifTape {
  constructor(width, height) {
    Object.assign(this, { width, height, encoder: GIFEncoder() });
  }

  // A frame from `time` to `until`, in ms. A GIF counts hundredths of a second.
  async add(canvas, time, until) {
    const { width, height } = this;
    const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
    const palette = quantize(data, 256);
    const delay = Math.max(10, 10 * (Math.round(until / 10) - Math.round(time / 10)));
    this.encoder.writeFrame(applyPalette(data, palette), width, height, { palette, delay });
    await turn();
  }

  async end() {
    this.encoder.finish();
  }

  close() {}

  file() {
    return new Blob([this.encoder.bytes()], { type: "image/gif" });
  }
}

// Let the page do what it has to. Unlike a timer this is as quick in a hidden tab.
export async function turn() {
  const { port1, port2 } = new MessageChannel();
  await new Promise((resolve) => {
    port1.addEventListener("message", resolve);
    port1.start();
    port2.postMessage(null);
  });
  port1.close();
}
