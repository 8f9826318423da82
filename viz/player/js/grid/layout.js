// Where things lie on the stage: the grid of score tiles, the strips beside it, one small grid per head.

export const STRIP = 13; // thickness of a strip
export const LETTER = 6.5; // width of a letter of a strip's name, about
const WORD = 54; // width of a strip's name in words
export const LABEL = 12; // height of the labels above the strips

// The grid of one head, with room for labels and strips around it; `room` is the width of it all.
function stageLayout(width, height, model) {
  const count = (side) => model.strips.filter((strip) => strip.side === side).length;
  const names = model.strips.map(({ side, name }) => (side === "top" ? name.length : 0));
  const inWords = width > 420 && count("left") === 1; // else there is no room to spare
  const side = inWords ? WORD - STRIP : 30;
  const left = Math.max(side, LETTER * Math.max(...names)) + count("left") * (STRIP + 4) + 2;
  const top = LABEL + count("top") * (STRIP + 2) + 18;
  const right = 6 + count("right") * (STRIP + 4) + (inWords ? WORD - STRIP : 20);
  let cellWidth = (width - left - right) / model.kvTiles;
  let cellHeight = (height - top - 6) / model.qTiles;
  cellWidth = Math.min(cellWidth, Math.max(cellHeight * 3, 24));
  cellHeight = Math.min(cellHeight, Math.max(cellWidth * 3, 24, 150 / model.qTiles));
  const grid = { width: cellWidth * model.kvTiles, height: cellHeight * model.qTiles };
  const x = left + Math.max(0, (width - left - right - grid.width) / 2);
  return { x, y: top, cellWidth, cellHeight, ...grid, room: width };
}

// One grid per head, if all programs are shown at once; the tiles are as large as they can be. `room` is the
// width of a grid and its gap; of very many heads the gaps are narrower, so that each keeps half its room.
export function headLayouts(width, height, model, heads) {
  if (heads.length === 1) return [stageLayout(width, height, model)];
  const sizes = (columns) => {
    const [w, h] = [width / columns, height / Math.ceil(heads.length / columns)];
    const [across, down] = [Math.min(8, w / 2), Math.min(16, h / 2)];
    const [cellWidth, cellHeight] = [(w - across) / model.kvTiles, (h - down) / model.qTiles];
    return { w, h, across, down, cellWidth, cellHeight, shortest: Math.min(cellWidth, cellHeight) };
  };
  const longer = (best, _, i) => (sizes(i + 1).shortest > sizes(best).shortest ? i + 1 : best);
  const columns = heads.reduce(longer, 1);
  const { w, h, across, down, cellWidth, cellHeight } = sizes(columns);
  return heads.map((_, i) => ({
    x: (i % columns) * w + across / 2,
    y: Math.floor(i / columns) * h + (7 / 8) * down,
    cellWidth,
    cellHeight,
    width: w - across,
    height: h - down,
    room: w,
  }));
}

export function cellBox(layout, model, step) {
  const x = layout.x + model.kv[step] * layout.cellWidth;
  const span = Math.max(1, model.kvEnd[step] - model.kv[step]);
  const y = layout.y + model.q[step] * layout.cellHeight;
  return { x, y, w: layout.cellWidth * span, h: layout.cellHeight };
}

// Where a strip lies: along the top, or left or right of the grid.
export function stripBox(strip, layout) {
  if (strip.side === "top") {
    return { x: layout.x, y: LABEL + 2 + strip.place * (STRIP + 2), step: layout.cellWidth, vertical: false };
  }
  const away = 6 + strip.place * (STRIP + 4);
  const x = strip.side === "left" ? layout.x - away - STRIP : layout.x + layout.width + away;
  return { x, y: layout.y, step: layout.cellHeight, vertical: true };
}

// The tile of the grid under a point, and the row inside it; null beside the grids.
export function tileAt(x, y, layouts, blockM) {
  const inside = (grid) => x >= grid.x && x < grid.x + grid.width && y >= grid.y && y < grid.y + grid.height;
  const index = layouts.findIndex(inside);
  if (index < 0) return null;
  const grid = layouts[index];
  const across = (y - grid.y) / grid.cellHeight;
  const q = Math.floor(across);
  return { index, q, kv: Math.floor((x - grid.x) / grid.cellWidth), offset: (across - q) * blockM };
}
