import { useEffect, useState } from "react";
import { dateTime, relativeTime } from "./format";
import { Tooltip } from "./Tooltip";

const TICK_MS = 30_000;

/// An age that stays true, with the exact time in UTC and in the browser's zone on hover.
export function RelativeTime({ at, short = false }: { at: string | Date; short?: boolean }) {
  const [, tick] = useState(0);
  useEffect(() => {
    const timer = setInterval(() => tick((count) => count + 1), TICK_MS);
    return () => clearInterval(timer);
  }, []);
  const date = typeof at === "string" ? new Date(at) : at;
  if (Number.isNaN(date.getTime())) return null;
  return (
    <Tooltip
      label={
        <>
          {dateTime(date)} here
          <br />
          {dateTime(date, "UTC")} UTC
        </>
      }
    >
      <time dateTime={date.toISOString()} className="whitespace-nowrap">
        {relativeTime(date, undefined, short ? "short" : "long")}
      </time>
    </Tooltip>
  );
}
