// Drawing on a canvas: sizes, text, outlines, hatching, colours.

export const FONT = '"Source Sans", "Source Sans Pro", system-ui, sans-serif';

// The canvas at the resolution of the screen; returns its context and its size in CSS pixels.
export function fitCanvas(canvas) {
  const ratio = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  return { context, width, height };
}

export function text(context, words, x, y, color, { size = 11, align = "left", weight = "" } = {}) {
  context.fillStyle = color;
  context.font = `${weight} ${size}px ${FONT}`;
  context.textAlign = align;
  context.textBaseline = "middle";
  context.fillText(words, x, y);
}

export function outline(context, box, color, width) {
  context.strokeStyle = color;
  context.lineWidth = width;
  context.strokeRect(box.x - 0.5, box.y - 0.5, Math.max(box.w, 3), Math.max(box.h, 3));
}

export function hatch(context, color, spacing = 5, cross = false) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = spacing * 2;
  const pen = tile.getContext("2d");
  pen.strokeStyle = color;
  pen.lineWidth = 1;
  for (let at = -spacing * 2; at <= spacing * 4; at += spacing) {
    pen.moveTo(at, spacing * 2);
    pen.lineTo(at + spacing * 2, 0);
    if (cross) {
      pen.moveTo(at, 0);
      pen.lineTo(at + spacing * 2, spacing * 2);
    }
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}

// The colour of a share of the row's attention; `part` is the share over the largest share that is drawn.
export function shareColor(palette, part) {
  const at = Math.sqrt(Math.min(1, part)) * (palette.scale.length - 1);
  const [low, high] = [Math.floor(at), Math.ceil(at)].map((i) => channels(palette.scale[i]));
  return `rgb(${low.map((channel, i) => Math.round(channel + (high[i] - channel) * (at % 1))).join()})`;
}

// The same scale as a gradient of the style sheet.
export function scaleGradient(palette) {
  const last = palette.scale.length - 1;
  const stops = palette.scale.map((color, i) => `${color} ${100 * (i / last) ** 2}%`);
  return `linear-gradient(90deg, ${stops.join(", ")})`;
}

function channels(color) {
  return [1, 3, 5].map((from) => parseInt(color.slice(from, from + 2), 16));
}
