//! The clauses of a statement and the forms of an expression, for `docs/HOGQL.md`.

/// A clause, what is to know about it, and a statement that has it.
pub struct Clause {
    pub syntax: &'static str,
    pub note: &'static str,
    pub example: &'static str,
}

const fn clause(syntax: &'static str, note: &'static str, example: &'static str) -> Clause {
    Clause { syntax, note, example }
}

pub const CLAUSES: &[Clause] = &[
    clause(
        "WITH",
        "subqueries and values; a subquery is computed once",
        "with t as (select 1 as x) select x from t",
    ),
    clause(
        "WITH t(a, b) AS, RECURSIVE, MATERIALIZED",
        "new names of columns; the two words change nothing",
        "with t(a) as (select event from events) select a from t",
    ),
    clause("SELECT [DISTINCT]", "", "select distinct event from events"),
    clause(
        "DISTINCT ON (…)",
        "the first row of each",
        "select distinct on (event) event, timestamp from events order by event, timestamp",
    ),
    clause(
        "*, t.*, * EXCEPT / EXCLUDE / REPLACE, COLUMNS('regex')",
        "",
        "select * except (properties) from events",
    ),
    clause(
        "AS name, AS 'name'",
        "also inside an expression",
        "select (count() as c) * 2, c from events",
    ),
    clause(
        "FROM",
        "a table, a subquery, `numbers(n)`, `numbers(a, n)`",
        "select number from numbers(3)",
    ),
    clause("FINAL, SAMPLE 1", "change nothing", "select event from events final"),
    clause(
        "[INNER | LEFT | RIGHT | FULL | CROSS] JOIN",
        "`ON` or `USING`; a missing side is NULL",
        "select a.x from (select 1 as x) a left join (select 1 as x) b on a.x = b.x",
    ),
    clause(
        "ANY, SEMI, ANTI JOIN",
        "only with equalities between the tables",
        "select a.x from (select 1 as x) a semi join (select 1 as x) b on a.x = b.x",
    ),
    clause("[LEFT] ARRAY JOIN", "", "select x from events array join [1, 2] as x"),
    clause(
        "PREWHERE, WHERE",
        "",
        "select event from events prewhere event = 'a' where event != 'b'",
    ),
    clause(
        "GROUP BY",
        "expressions, aliases, positions, `ALL`",
        "select event, count() from events group by event",
    ),
    clause(
        "ROLLUP, CUBE, GROUPING SETS",
        "also `WITH ROLLUP` and `WITH CUBE`; a key that is not in a row's set has the default of its \
         type, NULL where that may be; at most 64 sets",
        "select event, count() from events group by rollup(event)",
    ),
    clause("HAVING", "", "select event from events group by event having count() > 1"),
    clause(
        "WINDOW, OVER",
        "`ROWS` and `RANGE` frames",
        "select sum(1) over w from events window w as (order by timestamp)",
    ),
    clause(
        "QUALIFY",
        "a condition on windows",
        "select event, row_number() over (order by timestamp) as n from events qualify n < 3",
    ),
    clause(
        "FILTER (WHERE …)",
        "of an aggregate",
        "select count() filter (where event = 'a') from events",
    ),
    clause(
        "percentile_cont(p) WITHIN GROUP (ORDER BY x)",
        "is `quantile(p)(x)`",
        "select percentile_cont(0.5) within group (order by length(event)) from events",
    ),
    clause(
        "ORDER BY",
        "`NULLS FIRST`, `NULLS LAST`",
        "select event from events order by event desc nulls last",
    ),
    clause("LIMIT n BY", "", "select event from events limit 1 by event"),
    clause(
        "LIMIT [WITH TIES], OFFSET",
        "constant expressions; 100 rows without it, at most 50,000",
        "select event from events limit 5 offset 5",
    ),
    clause(
        "UNION [ALL | DISTINCT], INTERSECT, EXCEPT",
        "without `ALL` duplicates are removed",
        "select 1 union all select 2",
    ),
    clause(
        "CASE, ?:, ??, ?., BETWEEN, IN, LIKE, ILIKE, ~, =~, !~, IS [NOT] DISTINCT FROM",
        "comparisons are never NULL",
        "select case when event like 'a%' then 1 else 0 end from events",
    ),
    clause(
        "IN COHORT",
        "a cohort's id or name",
        "select event from events where person_id in cohort 2",
    ),
    clause("INTERVAL", "", "select now() - interval 7 day"),
    clause(
        "x::T, CAST, TRY_CAST, EXTRACT(… FROM …)",
        "",
        "select try_cast('1' as Int64), extract(year from now())",
    ),
    clause("x[1], x[1:2], t.1, [a, b], (a, b)", "", "select [1, 2, 3][1:2]"),
    clause(
        "<tag attribute='…'>… {x} …</tag>",
        "tags that a table shows: `a`, `Sparkline`, `redacted` and those that format text",
        "select <a href={f'/users/{distinct_id}'}>{event}</a> from events",
    ),
    clause("{'key': value}", "an object, for tags", "select {'name': 'a', 'values': [1, 2]}"),
    clause("f'… {x} …'", "a template string", "select f'{event} of {distinct_id}' from events"),
    clause(
        "{filters}, {filters.dateRange.from}, {variables.x}",
        "placeholders of a request",
        "select event from events where {filters}",
    ),
    clause("x -> …", "the first argument of array functions", "select arrayMap(x -> x * 2, [1])"),
];
