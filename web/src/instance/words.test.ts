import { expect, it } from "vitest";
import { bytes } from "@/ui/format";
import { dropText, forecastText, lagText, settingsBySection } from "./words";

const disk = (growth: number | null, days: number | null) =>
  forecastText(
    {
      total_bytes: 1,
      free_bytes: 1,
      growth_seconds: 0,
      growth_bytes_per_day: growth,
      full_in_days: days,
    },
    bytes,
  );

it("says when the disk is full", () => {
  expect([
    disk(null, null),
    disk(0, null),
    disk(2 ** 31, 40.9),
    disk(2 ** 31, 0.4),
    disk(1_024, 1e6),
    disk(5 * 2 ** 20, null),
  ]).toEqual([
    "The forecast begins an hour after the start.",
    "The stored events do not grow.",
    "Full in 40 days at 2 GiB a day.",
    "Full within a day at 2 GiB a day.",
    "Full in more than ten years at 1 KiB a day.",
    "Grows by 5 MiB a day.",
  ]);
});

it("says what waits", () => {
  const lag = (records: number, replay = 0) =>
    lagText({ records, seconds: 0, replay_remaining: replay });
  expect([lag(0), lag(1), lag(1_200), lag(9, 5)]).toEqual([
    "Everything received is applied",
    "1 record wait",
    "1,200 records wait",
    "5 records of the journal are read again after the start",
  ]);
});

it("words every reason, also one that is new", () => {
  expect([dropText("too_large"), dropText("made_up_reason")]).toEqual([
    "The event was too large",
    "made up reason",
  ]);
});

it("finds settings by all words, below their headings", () => {
  const setting = (key: string, heading: string) => ({
    key,
    heading,
    help: "Where it listens",
    origin: "default",
    secret: false,
    value: "127.0.0.1",
  });
  const all = [
    setting("listen", "Server"),
    setting("data_dir", "Stores"),
    setting("port", "Server"),
  ];
  expect(
    settingsBySection(all, "").map(({ heading, settings }) => [heading, settings.length]),
  ).toEqual([
    ["Server", 2],
    ["Stores", 1],
  ]);
  expect(settingsBySection(all, "data 127")[0]?.settings[0]?.key).toBe("data_dir");
  expect(settingsBySection(all, "nothing such")).toEqual([]);
});
