import type { Schemas } from "@/api/client";

export type Tile = Schemas["Tile"];

/// Where a tile is on the grid, in columns and rows.
export interface Place {
  id: number;
  x: number;
  y: number;
  w: number;
  h: number;
}

export const COLUMNS = 12;
export const ROW_PX = 60;
export const GAP_PX = 16;
export const WIDTH_MIN = 2;
const HEIGHT_MAX = 20;

function kindOf(tile: Tile): "insight" | "text" | "link" {
  return tile.insight ? "insight" : tile.text ? "text" : "link";
}

const SIZE = {
  insight: { w: 6, h: 5 },
  text: { w: 6, h: 2 },
  link: { w: 3, h: 1 },
} as const;
const HEIGHT_MIN = { insight: 2, text: 1, link: 1 } as const;

export function heightMin(tile: Tile): number {
  return HEIGHT_MIN[kindOf(tile)];
}

function overlaps(a: Place, b: Place): boolean {
  return a.id !== b.id && a.x < b.x + b.w && b.x < a.x + a.w && a.y < b.y + b.h && b.y < a.y + a.h;
}

function sharesColumns(a: Place, b: Place): boolean {
  return a.id !== b.id && a.x < b.x + b.w && b.x < a.x + a.w;
}

/// From top to bottom, then from left to right; among equals the given tile first.
function inOrder(places: readonly Place[], firstId?: number): Place[] {
  return [...places].sort(
    (a, b) =>
      a.y - b.y || Number(b.id === firstId) - Number(a.id === firstId) || a.x - b.x || a.id - b.id,
  );
}

/// Moves tiles up until each touches another or the top, without overlaps. The given tile goes before
/// those of the same row.
export function settle(places: readonly Place[], firstId?: number): Place[] {
  const settled: Place[] = [];
  for (const place of inOrder(places, firstId)) {
    let y = 0;
    for (const other of settled) {
      if (sharesColumns(place, other)) y = Math.max(y, other.y + other.h);
    }
    settled.push({ ...place, y });
  }
  return settled;
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(high, Math.max(low, Math.round(value)));
}

function stored(tile: Tile): Omit<Place, "id"> | null {
  const { x, y, w, h } = tile.layouts.sm ?? {};
  if (x === undefined || y === undefined || w === undefined || h === undefined) return null;
  const width = clamp(w, WIDTH_MIN, COLUMNS);
  return {
    x: clamp(x, 0, COLUMNS - width),
    y: Math.max(0, Math.round(y)),
    w: width,
    h: clamp(h, heightMin(tile), HEIGHT_MAX),
  };
}

/// The places of a dashboard's tiles. Those without a stored one follow below, two in a row.
export function placesOf(tiles: readonly Tile[]): Place[] {
  const places: Place[] = [];
  const unplaced: Tile[] = [];
  for (const tile of tiles) {
    const place = stored(tile);
    if (place) places.push({ id: tile.id, ...place });
    else unplaced.push(tile);
  }
  let bottom = Math.max(0, ...places.map(({ y, h }) => y + h));
  let x = 0;
  let rowHeight = 0;
  for (const tile of unplaced) {
    const { w, h } = SIZE[kindOf(tile)];
    if (x + w > COLUMNS) {
      bottom += rowHeight;
      x = 0;
      rowHeight = 0;
    }
    places.push({ id: tile.id, x, y: bottom, w, h });
    x += w;
    rowHeight = Math.max(rowHeight, h);
  }
  return settle(places);
}

/// Where a new tile goes: below all others.
export function placeForNew(kind: "insight" | "text" | "link", places: readonly Place[]) {
  return { x: 0, y: Math.max(0, ...places.map(({ y, h }) => y + h)), ...SIZE[kind] };
}

/// The tiles in reading order, for phones and screen readers.
export function readingOrder<T extends { id: number }>(
  tiles: readonly T[],
  places: readonly Place[],
): T[] {
  const rank = new Map(inOrder(places).map(({ id }, at) => [id, at]));
  return [...tiles].sort((a, b) => (rank.get(a.id) ?? 0) - (rank.get(b.id) ?? 0));
}

export type Move = "up" | "down" | "left" | "right";

/// What a drag does, as one step. Returns the same places if the tile cannot go there.
export function moveTile(places: readonly Place[], id: number, move: Move): readonly Place[] {
  const tile = places.find((place) => place.id === id);
  if (!tile) return places;
  const change = (changes: Map<number, Partial<Place>>, firstId: number) =>
    settle(
      places.map((place) => ({ ...place, ...changes.get(place.id) })),
      firstId,
    );
  if (move === "left" || move === "right") {
    const x = clamp(tile.x + (move === "left" ? -tile.w : tile.w), 0, COLUMNS - tile.w);
    return x === tile.x ? places : change(new Map([[id, { x }]]), id);
  }
  const neighbours = places.filter((place) => sharesColumns(place, tile));
  if (move === "up") {
    const above = neighbours.filter(({ y }) => y < tile.y);
    if (above.length === 0) return places;
    const y = Math.max(...above.map((place) => place.y));
    return change(new Map([[id, { y }]]), id);
  }
  const below = inOrder(neighbours.filter(({ y }) => y > tile.y))[0];
  if (!below) return places;
  return change(
    new Map([
      [below.id, { y: tile.y }],
      [id, { y: tile.y + below.h }],
    ]),
    below.id,
  );
}

export function resizeTile(
  places: readonly Place[],
  id: number,
  size: { w?: number; h?: number },
): readonly Place[] {
  return settle(
    places.map((place) => {
      if (place.id !== id) return place;
      const w = clamp(size.w ?? place.w, WIDTH_MIN, COLUMNS);
      const h = clamp(size.h ?? place.h, 1, HEIGHT_MAX);
      return { ...place, w, h, x: Math.min(place.x, COLUMNS - w) };
    }),
    id,
  );
}

/// The tiles whose place differs from the stored one, as the API takes them. Other sizes of screen,
/// which other front-ends may have stored, stay.
export function layoutChanges(tiles: readonly Tile[], places: readonly Place[]) {
  const changes: Pick<Tile, "id" | "layouts">[] = [];
  for (const { id, x, y, w, h } of places) {
    const tile = tiles.find((candidate) => candidate.id === id);
    if (!tile) continue;
    const before = stored(tile);
    if (before && before.x === x && before.y === y && before.w === w && before.h === h) continue;
    changes.push({ id, layouts: { ...tile.layouts, sm: { x, y, w, h } } });
  }
  return changes;
}

/// Whether no two tiles overlap and all are on the grid.
export function isValid(places: readonly Place[]): boolean {
  return places.every(
    (place) =>
      place.x >= 0 &&
      place.x + place.w <= COLUMNS &&
      !places.some((other) => overlaps(place, other)),
  );
}
