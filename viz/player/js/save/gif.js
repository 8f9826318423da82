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
    await new Promise((resolve) => setTimeout(resolve)); // the page does what it has to
  }

  async end() {
    this.encoder.finish();
  }

  close() {}

  file() {
    return new Blob([this.encoder.bytes()], { type: "image/gif" });
  }
}
