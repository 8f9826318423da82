// Where the rows and tracks of the shown SMs lie, from top to bottom.

export const AXIS = 20; // height of the time axis
export const HEADING = 17; // above the rows of a run
const TRACK = 15;
const ROW_GAP = 5;
const RUN_GAP = 8;
const [NARROW_LABELS, WIDE_LABELS] = [94, 132];

// {height, left, runs: [{run, index, y, tracks: [{track, y, h}]}]}; `chosen` has the index of the SM that
// each run shows.
export function layoutLanes(model, chosen, width) {
  let y = AXIS;
  const runs = model.runs.map((run, index) => {
    const heading = y;
    y += HEADING;
    const tracks = run.sms[chosen[index]].tracks.map((track) => {
      if (track.begins) y += ROW_GAP;
      const placed = { track, y, h: TRACK };
      y += TRACK + 1;
      return placed;
    });
    y += RUN_GAP;
    return { run, index, y: heading, end: y - RUN_GAP / 2, tracks };
  });
  return { runs, height: y, left: width < 520 ? NARROW_LABELS : WIDE_LABELS, width };
}

// The run and track at a height of the view; null between them.
export function trackAt(layout, y) {
  for (const { run, index, tracks } of layout.runs) {
    const found = tracks.find((each) => y >= each.y && y < each.y + each.h);
    if (found) return { run, index, track: found.track };
  }
  return null;
}

export function timeAt({ left, width }, span, x) {
  return span.from + ((x - left) / (width - left)) * span.length;
}

export function xOf({ left, width }, span, time) {
  return left + ((time - span.from) / span.length) * (width - left);
}
