import { expect, test } from "vitest";
import { formatSql } from "./formatSql";

const SQL =
  "WITH moments AS (SELECT person_id AS actor, max(event = '$pageview') AS s1 FROM events " +
  "WHERE timestamp >= toDateTime64('2026-11-11T00:00:00Z', 6, 'UTC') AND (event = '$pageview' OR event = 'a, (b) AND c') " +
  "GROUP BY actor, t), actors AS (SELECT actor FROM moments LEFT JOIN b ON a = b AND c = d) " +
  "SELECT quantileIf(0.5)((p[2] - p[1]) / 1000000, length(p) >= 2) AS median_2 FROM actors " +
  "WHERE x IN (SELECT 1 UNION ALL SELECT 2) ORDER BY a DESC, b LIMIT 50000";

test("clauses, columns and conditions get lines, strings and calls stay whole", () => {
  expect(formatSql(SQL)).toBe(
    `WITH moments AS (
  SELECT
    person_id AS actor,
    max(event = '$pageview') AS s1
  FROM events
  WHERE
    timestamp >= toDateTime64('2026-11-11T00:00:00Z', 6, 'UTC')
    AND (event = '$pageview' OR event = 'a, (b) AND c')
  GROUP BY actor, t
),
actors AS (
  SELECT
    actor
  FROM moments
  LEFT JOIN b ON a = b AND c = d
)
SELECT
  quantileIf(0.5)((p[2] - p[1]) / 1000000, length(p) >= 2) AS median_2
FROM actors
WHERE
  x IN (
    SELECT
      1
    UNION ALL
    SELECT
      2
  )
ORDER BY a DESC, b
LIMIT 50000`,
  );
});

test("only white space changes", () => {
  const bare = (text: string) => text.replace(/\s+/g, "");
  for (const sql of [SQL, "select 1", "", "))((", "SELECT 'it''s \\' , -- ok' FROM `odd, name`"]) {
    expect(bare(formatSql(sql))).toBe(bare(sql));
  }
});
