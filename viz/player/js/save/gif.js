// An animated GIF, for places that show no video. Each frame is the box that changed, with up to 256 colours
// of its own, after CompuServe's GIF89a specification.

const MOST_COLORS = 256;
const CODE_BITS = 8;
const [CLEAR, END] = [256, 257];
const MOST_CODES = 4096;

export class GifTape {
  constructor(width, height) {
    Object.assign(this, { width, height, standing: null });
    const size = [...two(width), ...two(height)];
    this.parts = [
      bytesOf("GIF89a"),
      new Uint8Array([...size, 0x70, 0, 0]), // no colours for all frames
      new Uint8Array([0x21, 0xff, 11, ...bytesOf("NETSCAPE2.0"), 3, 1, 0, 0, 0]), // again and again
    ];
  }

  // A frame from `time` on, in ms. One that is like the frame before it lengthens that one.
  async add(canvas, time) {
    const { data } = canvas.getContext("2d").getImageData(0, 0, this.width, this.height);
    const pixels = new Uint32Array(data.buffer);
    const box = this.changed(pixels);
    this.pixels = pixels;
    if (!box) return;
    this.write(time);
    this.standing = { box, time, image: imageOf(pixels, this.width, box) };
    await new Promise((resolve) => setTimeout(resolve)); // the page does what it has to
  }

  async end(duration) {
    this.write(duration);
    this.parts.push(new Uint8Array([0x3b]));
  }

  close() {}

  file() {
    return new Blob(this.parts, { type: "image/gif" });
  }

  // The smallest box that holds all that is not as it was; null if nothing changed.
  changed(pixels) {
    const { width, height, pixels: before } = this;
    if (!before) return { x: 0, y: 0, w: width, h: height };
    let [left, right, top, bottom] = [width, -1, height, -1];
    for (let y = 0, i = 0; y < height; y++) {
      for (let x = 0; x < width; x++, i++) {
        if (pixels[i] === before[i]) continue;
        if (x < left) left = x;
        if (x > right) right = x;
        if (y < top) top = y;
        bottom = y;
      }
    }
    return right < 0 ? null : { x: left, y: top, w: right - left + 1, h: bottom - top + 1 };
  }

  // The frame that stands, until `time`. A GIF counts hundredths of a second.
  write(time) {
    if (!this.standing) return;
    const { box, time: from, image } = this.standing;
    const delay = Math.max(1, Math.round(time / 10) - Math.round(from / 10));
    const control = [0x21, 0xf9, 4, 4, ...two(delay), 0, 0]; // what is not drawn over stays
    const place = [box.x, box.y, box.w, box.h].flatMap(two);
    this.parts.push(new Uint8Array([...control, 0x2c, ...place, 0x87]), image.colors, image.data);
  }
}

const two = (number) => [number & 255, number >> 8];
const bytesOf = (words) => new TextEncoder().encode(words);

// A box of pixels (each 0xAABBGGRR) as a table of 256 colours and the compressed numbers of its pixels'
// colours.
function imageOf(pixels, width, { x, y, w, h }) {
  const inside = new Uint32Array(w * h);
  for (let row = 0; row < h; row++) {
    const from = (y + row) * width + x;
    inside.set(pixels.subarray(from, from + w), row * w);
  }
  const counts = new Map();
  for (const pixel of inside) counts.set(pixel, (counts.get(pixel) ?? 0) + 1);
  const byCount = [...counts.keys()].toSorted((a, b) => counts.get(b) - counts.get(a));
  const kept = paletteOf(byCount);
  const numbers = new Map(kept.map((color, i) => [color, i]));
  for (const color of byCount) if (!numbers.has(color)) numbers.set(color, nearest(color, kept));
  const colors = new Uint8Array(3 * MOST_COLORS);
  kept.forEach((color, i) => colors.set(channels(color), 3 * i));
  return { colors, data: compressed(inside, numbers) };
}

// The colours to keep of many, the most frequent first: half of them far from each other, so that thin lines
// of a rare colour keep it, and the most frequent of the others.
function paletteOf(byCount) {
  if (byCount.length <= MOST_COLORS) return byCount;
  const taken = new Set();
  const apart = byCount.filter((color) => {
    const about = color & 0xe0e0e0;
    return !taken.has(about) && taken.add(about);
  });
  const kept = new Set(apart.slice(0, MOST_COLORS / 2));
  for (const color of byCount) if (kept.size < MOST_COLORS) kept.add(color);
  return [...kept];
}

function channels(color) {
  return [color & 255, (color >> 8) & 255, (color >> 16) & 255];
}

function nearest(color, among) {
  const [r, g, b] = channels(color);
  let [best, least] = [0, Infinity];
  among.forEach((other, i) => {
    const [dr, dg, db] = [(other & 255) - r, ((other >> 8) & 255) - g, ((other >> 16) & 255) - b];
    const far = dr * dr + dg * dg + db * db;
    if (far < least) [best, least] = [i, far];
  });
  return best;
}

// LZW: runs of pixels that came before get a code, whose bits grow as there are more of them. In blocks of
// 255 bytes.
function compressed(pixels, numbers) {
  const bytes = [];
  let [held, heldBits, bits, codes] = [0, 0, CODE_BITS + 1, new Map()];
  const put = (code) => {
    held |= code << heldBits;
    for (heldBits += bits; heldBits >= 8; heldBits -= 8, held >>>= 8) bytes.push(held & 255);
  };
  put(CLEAR);
  let run = numbers.get(pixels[0]);
  for (let i = 1; i < pixels.length; i++) {
    const next = numbers.get(pixels[i]);
    const longer = (run << CODE_BITS) | next;
    const code = codes.get(longer);
    if (code !== undefined) {
      run = code;
      continue;
    }
    put(run);
    run = next;
    const made = END + 1 + codes.size;
    if (made === MOST_CODES) {
      put(CLEAR);
      [bits, codes] = [CODE_BITS + 1, new Map()];
      continue;
    }
    codes.set(longer, made);
    if (made === 1 << bits) bits += 1;
  }
  put(run);
  put(END);
  if (heldBits) bytes.push(held & 255);
  return inBlocks(bytes);
}

function inBlocks(bytes) {
  const blocks = new Uint8Array(2 + bytes.length + Math.ceil(bytes.length / 255));
  let to = 0;
  blocks[to++] = CODE_BITS;
  for (let from = 0; from < bytes.length; from += 255) {
    const block = bytes.slice(from, from + 255);
    blocks[to++] = block.length;
    blocks.set(block, to);
    to += block.length;
  }
  return blocks; // its last byte is 0, which ends them
}
