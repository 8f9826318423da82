// Where a talk stands: the scene, and its beat. Each stop is one, but for the place that a scene opens from.

// The first stop that a scene shows: 1 if it opens in motion, on the way to it.
export const firstStop = ({ stops, chart }) => Number(!chart && stops[1]?.seconds >= 1);

export const beatsOf = (scene) => scene.stops.length - firstStop(scene);

// The place one beat on (1) or back (-1); the same at either end of the talk.
export function moved(scenes, { scene, beat }, direction) {
  const next = beat + direction;
  if (next >= 0 && next < beatsOf(scenes[scene])) return { scene, beat: next };
  const other = scene + direction;
  if (other < 0 || other >= scenes.length) return { scene, beat };
  return { scene: other, beat: direction > 0 ? 0 : beatsOf(scenes[other]) - 1 };
}

export function isLast(scenes, place) {
  const { scene, beat } = moved(scenes, place, 1);
  return scene === place.scene && beat === place.beat;
}

// The sentence of a stop: its own, or that of the last stop before it that has one, or the scene's.
export const sentenceAt = (scene, stop) =>
  scene.stops.slice(0, stop + 1).findLast(({ sentence }) => sentence)?.sentence ?? scene.sentence;

// "4.2" is the second beat of the fourth scene, as in the address after "#".
export const placeText = ({ scene, beat }) => `${scene + 1}.${beat + 1}`;

// The place of such words; the beginning for others.
export function placeOfText(scenes, words) {
  const [, number, beat] = /^#?(\d+)(?:\.(\d+))?$/.exec(words ?? "") ?? [];
  const scene = Math.max(0, Math.min(scenes.length, Number(number ?? 1)) - 1);
  return { scene, beat: Math.max(0, Math.min(beatsOf(scenes[scene]), Number(beat ?? 1)) - 1) };
}
