import type { Event } from "./eventList";

/// Rows kept; older ones are in the explorer.
export const TAIL_ROWS_MAX = 2_000;
const RATE_SECONDS = 10;

export interface Tail {
  /// Newest first.
  rows: readonly Event[];
  /// Events since the tail began, dropped ones left out.
  received: number;
  missed: number;
}

export const EMPTY_TAIL: Tail = { rows: [], received: 0, missed: 0 };

export function addToTail(tail: Tail, arrived: readonly Event[], missed: number): Tail {
  if (arrived.length === 0 && missed === 0) return tail;
  const known = new Set(tail.rows.slice(0, arrived.length + 100).map(({ id }) => id));
  const fresh = arrived.filter(({ id }) => !known.has(id)).reverse();
  return {
    rows: [...fresh, ...tail.rows].slice(0, TAIL_ROWS_MAX),
    received: tail.received + fresh.length,
    missed: tail.missed + missed,
  };
}

/// Events per second over the last ten seconds.
export class Rate {
  private counts: { second: number; count: number }[] = [];
  private readonly began: number;

  constructor(now: number) {
    this.began = Math.floor(now / 1_000);
  }

  add(count: number, now: number): void {
    const second = Math.floor(now / 1_000);
    const last = this.counts.at(-1);
    if (last?.second === second) last.count += count;
    else this.counts.push({ second, count });
    this.prune(second);
  }

  perSecond(now: number): number {
    const second = Math.floor(now / 1_000);
    this.prune(second);
    const sum = this.counts.reduce((total, { count }) => total + count, 0);
    const seconds = Math.min(RATE_SECONDS, Math.max(1, second - this.began));
    return sum / seconds;
  }

  private prune(second: number): void {
    while (this.counts[0] && this.counts[0].second <= second - RATE_SECONDS) this.counts.shift();
  }
}

/// Whether the name, the person or a property contains the text.
export function tailMatches(event: Event, text: string): boolean {
  const needle = text.trim().toLowerCase();
  if (needle === "") return true;
  return (
    event.event.toLowerCase().includes(needle) ||
    event.distinct_id.toLowerCase().includes(needle) ||
    JSON.stringify(event.properties).toLowerCase().includes(needle)
  );
}
