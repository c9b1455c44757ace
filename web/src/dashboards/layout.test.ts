import { describe, expect, it } from "vitest";
import {
  isValid,
  layoutChanges,
  moveTile,
  type Place,
  placesOf,
  readingOrder,
  resizeTile,
  settle,
  type Tile,
} from "./layout";

const place = (id: number, x: number, y: number, w = 6, h = 5): Place => ({ id, x, y, w, h });
const tile = (id: number, sm?: object, content: object = { insight: {} }) =>
  ({ id, layouts: sm ? { sm, xs: { y: id } } : {}, ...content }) as Tile;
const at = (places: readonly Place[], id: number) => {
  const { x, y, w, h } = places.find((candidate) => candidate.id === id) as Place;
  return [x, y, w, h];
};

describe("places of tiles", () => {
  it("are the stored ones; new tiles follow below, two in a row", () => {
    const places = placesOf([tile(1, { x: 0, y: 0, w: 12, h: 3 }), tile(2), tile(3), tile(4)]);
    expect(at(places, 2)).toEqual([0, 3, 6, 5]);
    expect(at(places, 3)).toEqual([6, 3, 6, 5]);
    expect(at(places, 4)).toEqual([0, 8, 6, 5]);
  });

  it("are on the grid, whatever was stored", () => {
    const places = placesOf([
      tile(1, { x: 40, y: 2, w: 99, h: 0 }),
      tile(2, { x: 0, y: 0, w: 6, h: 2.4 }),
      tile(3, { x: "0", y: 0, w: 6, h: 2 }),
      tile(4, { x: 3, y: 1, w: 1, h: 1 }),
    ]);
    expect(isValid(places)).toBe(true);
    expect(places).toHaveLength(4);
  });

  it("are read from top to bottom, then from left to right", () => {
    const tiles = [tile(1), tile(2), tile(3)];
    const places = [place(1, 0, 5), place(2, 6, 0), place(3, 0, 0)];
    expect(readingOrder(tiles, places).map(({ id }) => id)).toEqual([3, 2, 1]);
  });
});

describe("moving a tile", () => {
  const grid = [place(1, 0, 0), place(2, 6, 0), place(3, 0, 5), place(4, 6, 5, 6, 3)];

  it("up swaps it with the one above", () => {
    const moved = moveTile(grid, 3, "up");
    expect(at(moved, 3)).toEqual([0, 0, 6, 5]);
    expect(at(moved, 1)).toEqual([0, 5, 6, 5]);
    expect(at(moved, 2)).toEqual([6, 0, 6, 5]);
  });

  it("down swaps it with the one below", () => {
    const moved = moveTile(grid, 2, "down");
    expect(at(moved, 4)).toEqual([6, 0, 6, 3]);
    expect(at(moved, 2)).toEqual([6, 3, 6, 5]);
  });

  it("does nothing at an edge", () => {
    expect(moveTile(grid, 1, "up")).toBe(grid);
    expect(moveTile(grid, 3, "down")).toBe(grid);
    expect(moveTile(grid, 1, "left")).toBe(grid);
    expect(moveTile(grid, 2, "right")).toBe(grid);
  });

  it("never overlaps, whatever is done to whom", () => {
    let places: readonly Place[] = [...grid, place(5, 0, 10, 12, 2), place(6, 3, 12, 4, 4)];
    const steps = ["right", "down", "left", "up", "down", "right"] as const;
    for (let round = 0; round < 60; round += 1) {
      const id = (round % 6) + 1;
      places = moveTile(places, id, steps[round % steps.length] ?? "up");
      places = resizeTile(places, id, { w: 2 + ((round * 5) % 11), h: 1 + (round % 7) });
      expect(isValid(places)).toBe(true);
    }
  });
});

it("a wider tile stays on the grid and pushes others down", () => {
  const wide = resizeTile([place(1, 0, 0), place(2, 6, 0)], 2, { w: 12 });
  expect(at(wide, 2)).toEqual([0, 0, 12, 5]);
  expect(at(wide, 1)).toEqual([0, 5, 6, 5]);
});

it("tiles rise into gaps", () => {
  expect(at(settle([place(1, 0, 7)]), 1)).toEqual([0, 0, 6, 5]);
});

it("only changed tiles are sent, with what other front-ends stored", () => {
  const tiles = [tile(1, { x: 0, y: 0, w: 6, h: 5 }), tile(2, { x: 6, y: 0, w: 6, h: 5 })];
  expect(layoutChanges(tiles, [place(1, 0, 0), place(2, 0, 5)])).toEqual([
    { id: 2, layouts: { sm: { x: 0, y: 5, w: 6, h: 5 }, xs: { y: 2 } } },
  ]);
});
