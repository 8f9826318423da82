// What a longer text takes, in a film: its times as recorded, and its bytes as modelled.

import { FONT, fillBox, text, wrapped } from "./draw.js";
import { clamp, smooth, within } from "../run/easing.js";
import { formatBytes, formatMs } from "../run/formats.js";
import { sum } from "../run/model.js";

const WAYS = ["standard attention", "FlashAttention"];
const COLORS = ["muted", "good"];
const [PAD, BEGINS] = [12, 0.2]; // part of the room that is for the first bytes

// Both ways as bars, [{segments: [color, part of the room, name], label}]: at once, in slow motion.
function timesAt({ ms }, clock) {
  const longest = Math.max(...ms);
  return ms.map((all, way) => {
    const now = Math.min(clamp(clock) * longest, all);
    const label = now === all ? formatMs(all) : `${now.toFixed(1)} ms`;
    return { segments: [[COLORS[way], now / longest]], label };
  });
}

const isSquare = ({ name }) => "SP".includes(name);

// For a `count` of words: the bars grow from those of the `first` count, then are seen from afar.
function bytesAt({ parts, words }, count, first) {
  const bytesOf = (part, n) => part.bytes * (n / words) ** (isSquare(part) ? 2 : 1);
  const total = (own, n) => sum(own.map((part) => bytesOf(part, n)));
  const unit = Math.min(BEGINS / total(parts, first), 1 / total(parts, count));
  return [parts, parts.filter((part) => !isSquare(part))].map((own) => ({
    segments: own.map((part) => [part.color, unit * bytesOf(part, count), part.name]),
    label: formatBytes(total(own, count)),
  }));
}

export function drawTook(context, { x, y, w, h }, { palette, at }) {
  const size = Math.min(34, w / 16, h / 11);
  const write = (words, left, middle, color, more) =>
    text(context, words, left, y + middle * h, color, { size, weight: "650", ...more });
  const draw = (bars, what, tops, high) =>
    bars.forEach(({ segments, label }, way) => {
      write(`${WAYS[way]}: ${what}`, x + PAD, tops[way] - 0.035, palette[COLORS[way]], { size: 0.6 * size });
      let left = x + PAD;
      for (const [fill, part, name] of segments) {
        const box = { x: left, y: y + tops[way] * h, w: part * (w - 5 * size), h: high * h };
        fillBox(context, palette[fill], { ...box, w: Math.max(box.w - 1, 0.5) });
        const inside = { size: 0.5 * size, align: "center", alpha: Number(box.w > 2 * size) };
        write(name ?? "", box.x + box.w / 2, tops[way] + high / 2, palette.background, inside);
        left += box.w;
      }
      write(label, left + 10, tops[way] + high / 2, palette.text);
    });
  if ("clock" in at) draw(timesAt(at.took, at.clock), "time", [0.14, 0.55], 0.27);
  else {
    const count = at.first * (at.took.words / at.first) ** smooth(at.races);
    write(`${Math.round(count).toLocaleString("en-US")} words`, x + PAD, 0.06, palette.text);
    draw(bytesAt(at.took, count, at.first), "bytes", [0.2, 0.37], 0.09);
    if (at.races > 1) draw(timesAt(at.took, at.races - 1), "time", [0.56, 0.73], 0.09);
    const come = { align: "right", alpha: within(at.races, 1.9, 2) };
    write(`${at.took.faster}× faster`, x + w - PAD, 0.775, palette.good, come);
  }
  context.font = `15px ${FONT}`;
  const notes = wrapped(context, at.under, w - 2 * PAD).toReversed();
  const note = { size: 15, weight: "" };
  notes.forEach((line, i) => write(line, x + PAD, 1 - (12 + 18 * i) / h, palette.muted, note));
}
