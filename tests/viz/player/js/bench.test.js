import assert from "node:assert/strict";
import { test } from "node:test";
import { benchLayout, placesOf } from "../../../../viz/player/js/grid/layout.js";
import { filledOf, heldIn, matricesIn, progressOf, roleOf } from "../../../../viz/player/js/run/bench.js";
import { pairOf } from "../../../../viz/player/js/grid/pair.js";
import { overtureOf } from "../../../../viz/player/js/overture.js";
import { movedOf, storedTiles } from "../../../../viz/player/js/run/stored.js";
import { figureOf, goodTile, matrixNamed, rowNamed } from "../../../../viz/player/js/run/figure.js";
import { addedIn } from "../../../../viz/player/js/grid/lens.js";
import { Timeline } from "../../../../viz/player/js/run/timeline.js";
import { bytesSoFar, sum } from "../../../../viz/player/js/run/model.js";
import { given, givenRun, isNear, range } from "./given.js";

// The cursor of a run at a position, as the pane makes it.
function standingAt({ model }, position, melt = 0) {
  const line = new Timeline(model);
  const at = line.cursor(position);
  at.kernel = model.kernel[Math.max(at.step, 0)];
  at.head = model.head[Math.max(at.step, 0)];
  at.progress = at.step < 0 ? [] : progressOf(model, line, at, melt);
  return at;
}

const algorithms = given("algorithms");

for (const name of algorithms) {
  test(`every phase of ${name} goes from 0 to 1 in its turn, and melted ones end with the step`, () => {
    const run = givenRun(name);
    const { model } = run;
    for (const step of [0, Math.floor(model.count / 2), model.count - 1]) {
      const [start, end] = [model.phaseStart[step], model.phaseStart[step + 1]];
      for (const position of range(end - start).map((k) => start + k + 0.5)) {
        const { progress, phase } = standingAt(run, position);
        const now = model.phases[step].indexOf(phase);
        if (now < 0) continue;
        assert.deepEqual(
          progress,
          progress.map((_, k) => (k < now ? 1 : k === now ? 0.5 : 0)),
        );
      }
      const melted = [0.2, 0.6].map((part) => standingAt(run, start + part * (end - start), 1).progress);
      melted[0].forEach((early, k) => assert.ok(early <= melted[1][k]));
      const phases = model.phases[step];
      for (const position of range(19).map((k) => start + ((k + 1) * (end - start)) / 20)) {
        const { progress } = standingAt(run, position, 0.6);
        for (const [i, { needs }] of phases.entries()) {
          const brings = ({ loads }) => needs.some((each) => loads.includes(each));
          const hasLanded = phases.slice(0, i).every((phase, k) => !brings(phase) || isNear(progress[k], 1));
          assert.ok(progress[i] === 0 || hasLanded);
        }
      }
      assert.ok(standingAt(run, end, 1).progress.every((part) => part === 1));
    }
  });

  test(`all that ${name} holds on the chip has a place on the bench`, () => {
    const { model } = givenRun(name);
    for (const kernel of model.kernels) {
      const bench = benchLayout({ x: 10, y: 20, w: 700, h: 400 }, kernel.slots, kernel.series.includes("l"));
      const boxes = kernel.slots.map((slot) => bench.slots[slot.name]);
      for (const box of boxes) {
        assert.ok(box.x >= 9.9 && box.y >= 19.9 && box.x + box.w <= 710.1 && box.y + box.h <= 420.1);
      }
      boxes.forEach((one, i) =>
        boxes.slice(i + 1).forEach((other) => {
          const apart = (from, size) =>
            one[from] + one[size] <= other[from] + 0.1 || other[from] + other[size] <= one[from] + 0.1;
          assert.ok(apart("x", "w") || apart("y", "h"));
        }),
      );
    }
  });
}

test("a product lines up with its factors: rows with the left one, columns with the one above", () => {
  const { model } = givenRun("every_flash2");
  const { slots, state } = benchLayout({ x: 0, y: 0, w: 700, h: 400 }, model.kernels[0].slots, true);
  assert.ok(slots.Q.y === slots.S.y && slots.Q.h === slots.S.h && slots.Q.x + slots.Q.w < slots.S.x);
  assert.ok(slots.K.x === slots.S.x && slots.K.w === slots.S.w && slots.K.y + slots.K.h < slots.S.y);
  assert.ok(slots.O.y === slots.S.y && slots.V.x === slots.O.x && slots.O.x > slots.S.x + slots.S.w);
  assert.ok(state.x > slots.O.x + slots.O.w && state.h === slots.S.h); // nothing flies over it
});

test("a tile of K comes with its phase, and scores are gone once they were used", () => {
  const run = givenRun("causal");
  const { model } = run;
  const step = 2;
  const names = model.phases[step].map(({ name }) => name);
  const after = (name, slot, part = 1) =>
    heldIn(model, standingAt(run, model.phaseStart[step] + names.indexOf(name) + part), slot);
  assert.equal(after("load K", "K", 0.25).held, 0.25);
  assert.equal(after("QK^T", "K").held, 1);
  assert.deepEqual([after("load K", "S").held, after("QK^T", "S").held], [0, 1]);
  assert.deepEqual(
    [after("load V", "S").used, after("PV", "S", 0.5).used, after("PV", "S").used],
    [0, 0.5, 1],
  );
  assert.equal(after("load V", "O").held, 1);
  assert.equal(heldIn(model, standingAt(run, model.phaseStart[model.count]), "O").held, 1); // a copy went
});

for (const name of [...algorithms, "hopper", "hopper_wide"]) {
  test(`what a phase of ${name} moves or makes fills its part of the chip`, () => {
    const run = givenRun(name);
    const { model } = run;
    model.phases.forEach((phases, step) => {
      for (const [k, phase] of phases.entries()) {
        const at = standingAt(run, model.phaseStart[step] + k + 0.5);
        const own = [...phase.loads, ...phase.makes, ...(phase.stores.length ? phase.needs : [])];
        const { parts } = model.kernels[at.kernel];
        const worked = parts.filter(({ holds }) => own.some((each) => holds.includes(each)));
        const filled = worked.map((part) => filledOf(model, at, part));
        assert.ok(filled.length > 0 && filled.every((part) => part > 0 && part <= 1), phase.name);
      }
    });
  });
}

function fills(name, part, positions) {
  const run = givenRun(name);
  const own = run.model.kernels[0].parts.find(({ holds }) => holds.includes(part));
  return positions.map((position) => filledOf(run.model, standingAt(run, position), own));
}

test("a part of the chip is empty before its tile comes, and whole rows fill tile by tile", () => {
  assert.deepEqual(fills("causal", "K", [0.5, 1.25, 3]), [0, 0.25, 1]);
  const { model } = givenRun("every_row_wise");
  const ends = range(model.kvTiles).map((step) => model.phaseStart[step + 1]);
  const shares = ends.map((_, tile) => (tile + 1) / model.kvTiles);
  assert.deepEqual(fills("every_row_wise", "S", ends), shares);
});

const hasDs = ({ name }) => name === "dS";

test("P and dP stay while dS is made of them, and leave with the next phase", () => {
  const run = givenRun("backward");
  const { model } = run;
  const step = range(model.count).find((i) => model.phases[i].some(hasDs));
  const k = model.phases[step].findIndex(hasDs);
  const { slots } = model.kernels[model.kernel[step]];
  const slot = slots.find(hasDs);
  const seen = [1, 1.9].map((part) => {
    const at = standingAt(run, model.phaseStart[step] + k + part);
    const { old } = matricesIn(model, figureOf(model, step), slot, at);
    return [heldIn(model, at, "S").used, old.name];
  });
  assert.deepEqual(seen, [
    [0, "dP"],
    [1, "dP"],
  ]);
});

test("what a phase loads is whole once it has landed, before the work of the phase begins", () => {
  const run = givenRun("backward");
  const { model } = run;
  const placeOfP = (i) => model.phases[i].findIndex(({ name }) => name === "P from lse");
  const step = range(model.count).find((i) => placeOfP(i) >= 0);
  const at = standingAt(run, model.phaseStart[step] + placeOfP(step) + 0.41);
  const slots = ["lse", "S"].map((name) => model.kernels[at.kernel].slots.find((each) => each.name === name));
  const [lse, weights] = slots.map((slot) => matricesIn(model, figureOf(model, step), slot, at).part);
  assert.ok(lse === 1 && heldIn(model, at, "lse").held === 1 && weights < 0.1);
});

test("the sums of a step begin with those of the step before, and end as recorded", () => {
  const run = givenRun("causal");
  const { model, trace } = run;
  const step = range(model.count).find((i) => i > 0 && model.turn[i] === model.turn[i - 1]);
  const slot = model.kernels[0].slots.find(({ name }) => name === "O");
  const figure = figureOf(model, step);
  const start = matricesIn(model, figure, slot, standingAt(run, model.phaseStart[step] + 1));
  const end = matricesIn(
    model,
    figure,
    slot,
    standingAt(run, model.phaseStart[step + 1] - (model.turnLast[step] === step ? 1 : 0)),
  );
  const columns = model.data.problem.head_dim;
  const sent = (i, r, c) => trace.acc[i][r][c];
  assert.ok(Math.abs(start.now.at(1, columns - 1) - sent(step - 1, 1, columns - 1)) < 1e-5);
  assert.ok(Math.abs(end.now.at(1, columns - 1) - sent(step, 1, columns - 1)) < 1e-5);
  assert.equal(end.old.name, "O rescaled");
});

test("the sums of a key tile stay while queries pass, and begin anew with the next one", () => {
  const run = givenRun("backward");
  const { model } = run;
  const sums = (step) => {
    const slot = model.kernels[model.kernel[step]].slots.find(({ name }) => name === "dV");
    const standing = standingAt(run, model.phaseStart[step] + 1);
    return slot && [slot, matricesIn(model, figureOf(model, step), slot, standing)];
  };
  const turns = range(model.count).filter((step) => sums(step));
  assert.ok(new Set(turns.map((step) => model.turn[step])).size > 1);
  for (const step of turns) {
    const [slot, start] = sums(step);
    const isFirst = model.turnFirst[step] === step;
    if (!isFirst) {
      const figure = figureOf(model, step - 1);
      const before = matricesIn(model, figure, slot, standingAt(run, model.phaseStart[step]));
      assert.ok(isNear(start.now.at(0, 0), before.now.at(0, 0)));
    }
    assert.equal(isFirst, !start);
  }
});

test("what a phase does is seen by what it needs and makes", () => {
  const { model } = givenRun("causal");
  const names = ["load Q", "load K", "QK^T", "mask", "row max", "exponentials", "rescale", "load V", "PV"];
  const roles = ["move", "move", "product", "mask", "max", "exponentials", "rescale", "move", "product"];
  const phases = model.kernelPhases[0].map((phase) => [phase.name, roleOf(phase)]);
  assert.deepEqual(phases, [...names.map((name, i) => [name, roles[i]]), ["store O, lse", "move"]]);
});

test("HBM and the chip share the stage without overlap, beside each other or below", () => {
  for (const [width, height] of [
    [1200, 460],
    [366, 620],
  ]) {
    for (const isOpen of [false, true]) {
      const { hbm, chip } = placesOf(width, height, isOpen);
      assert.ok(hbm.w > 0.15 * width && hbm.h > 0.15 * height);
      assert.ok(hbm.x + hbm.w <= chip.x || hbm.y + hbm.h <= chip.y);
      assert.ok(
        chip.x + chip.w <= width + 0.1 && chip.y + chip.h <= height + 0.1 && chip.h > 0 && chip.w > 0,
      );
    }
  }
});

test("the first film asks early, and is read to its end in two minutes", () => {
  const { model } = givenRun("first");
  const [acts, good] = [overtureOf(model, given("film")), goodTile(model)];
  assert.deepEqual([model.turnFirst[good], model.turnLast[good]], [good - 1, good]); // its row has two tiles
  const stored = acts.filter((act) => act.scene(1).stored > 0);
  assert.equal(`${stored.map((act) => act.scene(1).stored)}`, "1,2,3,4");
  const first = storedTiles(1, 4);
  assert.equal(["Q", "S", "P", "O"].map((name) => movedOf(name, first)).join(" "), "1 0.5 0 0");
  const places = acts.flatMap(({ from, to }) => [from, to]);
  assert.ok(places.every((each, i) => !i || each >= places[i - 1])); // never back
  const begins = (is) => sum(acts.slice(0, acts.findIndex(is)).map(({ ms }) => ms)) / 1000;
  assert.ok(begins((act) => act.scene(0).many) < 15);
  assert.ok(begins(({ says }) => says.includes("α")) < 85);
  assert.ok(sum(acts.map(({ ms }) => ms)) < 120_000);
  assert.ok(acts.every(({ ms, says }) => ms >= 50 * says.split("\n")[1].length)); // 20 letters a second
  const told = acts.filter((act) => act.scene(1).near === 1);
  assert.ok(told.every(({ rate }) => rate(0.5) < 1));
});

test("number by number, a query times a key comes to the score that the kernel recorded", () => {
  const { model } = givenRun("first");
  for (const row of range(model.offsets.length)) {
    const { score, products } = pairOf(model, 1, row);
    const size = sum(products.map(Math.abs));
    assert.ok(Math.abs(sum(products) - score) <= 2 ** -10 * size); // what is sent is float16
  }
});

test("value by value, what is added to O comes to what the kernel recorded", () => {
  const { model } = givenRun("causal");
  const [step, row] = [goodTile(model), 1];
  const [before, after] = ["rescale", "PV"].map((phase) => {
    const { name } = model.kernels[0].figure.matrices.find(
      (each) => each.slot === "O" && each.phase === phase,
    );
    return matrixNamed(model, name, step);
  });
  const phase = model.phases[step].find(({ name }) => name === "PV");
  const addsAt = (part) => addedIn(model, { step }, row, { old: before, part, phase });
  const [all, r] = [addsAt(0.999), model.offsets[row]];
  const weights = rowNamed(model, "P", step, row);
  for (const c of range(after.columns)) {
    const most =
      sum(weights.map((weight, k) => weight * Math.abs(all.V.at(k, c)))) + Math.abs(before.at(r, c));
    assert.ok(Math.abs(all.now(c) - after.at(r, c)) <= 2 ** -9 * most); // P and what is sent are float16
    assert.equal(addsAt(0.01).now(c), before.at(r, c));
  }
  const third = addsAt(3.2 / (weights.length + 2));
  assert.equal(third.weight, weights[third.key]);
  assert.ok(third.key === 2 && third.part > 0 && third.part < 1);
});

test("tiles count as bytes when they land, and never more than the phase moves", () => {
  const { model } = givenRun("causal");
  const line = new Timeline(model);
  const total = (position) => {
    const at = line.cursor(position);
    at.isDone = (step) => line.isDone(at, step);
    return bytesSoFar(line, at).total;
  };
  const start = model.phaseStart[2];
  const load = start + model.phases[2].findIndex(({ loads }) => loads.length > 0);
  const [before, early, late, after] = [0, 0.2, 0.97, 1].map((part) => total(load + part));
  assert.ok(before === early && late === after && after > before);
  assert.ok(total(load + 0.7) > before && total(load + 0.7) < after);
  assert.equal(total(line.last()), model.bytes[model.count]);
});
