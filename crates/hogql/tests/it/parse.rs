//! Parsing: statements in their printed form, and errors with their positions.

use hogql::{parse, parse_expr};

#[test]
fn tags_and_objects_parse_as_tuples() {
    for (text, printed) in [
        ("<b>x</b>", "tuple('__hx_tag', 'b', 'children', tuple('x'))"),
        ("<hr/>", "tuple('__hx_tag', 'hr')"),
        ("<b></b>", "tuple('__hx_tag', 'b')"),
        (
            "<a href='/x' target={f'{a}'}>{b < c} d</a>",
            "tuple('__hx_tag', 'a', 'href', '/x', 'target', concat(a), 'children', \
             tuple(b < c, ' d'))",
        ),
        (
            "<p>a <b>{c}</b>\n  <i>d</i>\n</p>",
            "tuple('__hx_tag', 'p', 'children', tuple('a ', tuple('__hx_tag', 'b', 'children', \
             tuple(c)), tuple('__hx_tag', 'i', 'children', tuple('d'))))",
        ),
        (
            "<Sparkline data={[{'values': [1, 2]}]} />",
            "tuple('__hx_tag', 'Sparkline', 'data', tuple(tuple('__hx_tag', '__hx_obj', \
             'values', tuple(1, 2))))",
        ),
        (
            "{'a': 1, 'b': {'c': x}}",
            "tuple('__hx_tag', '__hx_obj', 'a', 1, 'b', \
          tuple('__hx_tag', '__hx_obj', 'c', x))",
        ),
        ("a <b and c> d", "a < b AND c > d"),
        ("count() <b", "count() < b"),
        ("f'{<i>x</i>}'", "concat(tuple('__hx_tag', 'i', 'children', tuple('x')))"),
    ] {
        let parsed = parse_expr(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parsed.to_string(), printed, "{text}");
    }
    for text in [
        "<b",
        "<b>",
        "<b>x",
        "<b>x</b",
        "<b>{x</b>",
        "<b>x</i>",
        "<x>y</x>",
        "<b c='d'>e</b>",
        "<a ?>b</a>",
        "<b>a < b</b>",
        "{'a': 1",
        "{'a': }",
    ] {
        assert!(parse_expr(text).is_err(), "{text}");
    }
}

#[test]
fn expressions_parse_with_operator_precedence() {
    for (text, printed) in [
        ("1 + 2*3 - 4", "1 + 2 * 3 - 4"),
        ("(1 + 2) * 3", "(1 + 2) * 3"),
        ("1 - (2 - 3)", "1 - (2 - 3)"),
        ("a == b", "a = b"),
        ("a <> b", "a != b"),
        ("not a = b and c or d", "NOT a = b AND c OR d"),
        ("a and (b and c)", "a AND b AND c"),
        ("a and (b or c)", "a AND (b OR c)"),
        ("a = b ?? c", "a = b ?? c"),
        ("a = (b ?? c)", "a = (b ?? c)"),
        ("a ? b : c ? d : e", "a ? b : c ? d : e"),
        ("(a ? b : c) ? d : e", "(a ? b : c) ? d : e"),
        ("x between 1 and 2 and y", "x BETWEEN 1 AND 2 AND y"),
        ("x not between 1 + 1 and 2", "x NOT BETWEEN 1 + 1 AND 2"),
        ("x is not null", "x IS NOT NULL"),
        ("x not in (1, 2)", "x NOT IN (1, 2)"),
        ("x in (select 1)", "x IN (SELECT 1)"),
        ("person_id in cohort 5", "person_id IN COHORT 5"),
        ("person_id not in cohort 'beta'", "person_id NOT IN COHORT 'beta'"),
        ("x in cohort", "x IN cohort"),
        ("a not like 'x%' or b ILIKE c", "a NOT LIKE 'x%' OR b ILIKE c"),
        ("a =~ '\\d' and a !~* 'x'", "a =~ '\\\\d' AND a !~* 'x'"),
        ("'it''s' || 'it\\'s'", "'it\\'s' || 'it\\'s'"),
        ("-x * -1", "-x * -1"),
        ("- -1", "-(-1)"),
        ("x::Nullable(Float64)", "CAST(x AS Nullable(Float64))"),
        ("cast(x as DateTime64(6, 'UTC'))", "CAST(x AS DateTime64(6, 'UTC'))"),
        ("interval 7 day", "INTERVAL 7 DAY"),
        ("now() - interval '3 hours'", "now() - INTERVAL 3 HOUR"),
        ("date '2024-01-01'", "toDate('2024-01-01')"),
        ("properties.$browser", "properties.$browser"),
        ("properties['$feature/a b']", "properties['$feature/a b']"),
        ("properties.items.1.id", "properties.items.1.id"),
        ("properties.items[1]", "properties.items[1]"),
        ("(1, 'a').2", "(1, 'a').2"),
        ("t.1.2", "t.1.2"),
        ("(1,)", "(1,)"),
        ("[1, 2][1]", "[1, 2][1]"),
        (".5 + 1. + 1e3 + 0x1F", "0.5 + 1.0 + 1000.0 + 31"),
        ("99999999999999999999", "1e20"),
        ("arrayMap(x -> x + 1, [1])", "arrayMap(x -> x + 1, [1])"),
        ("arrayMap((x, y) -> (x, y), a, b)", "arrayMap((x, y) -> (x, y), a, b)"),
        ("quantile(0.5)(x)", "quantile(0.5)(x)"),
        ("count(distinct a, b)", "count(DISTINCT a, b)"),
        ("COUNT(*)", "COUNT(*)"),
        ("left(s, 1)", "left(s, 1)"),
        ("case when a then 1 else 2 end", "CASE WHEN a THEN 1 ELSE 2 END"),
        ("case a when 1 then 'x' end", "CASE a WHEN 1 THEN 'x' END"),
        ("{variables.x} = {y}", "{variables.x} = {y}"),
        ("`a b`.\"c\".select", "`a b`.c.`select`"),
        (
            "sum(x) over (partition by a order by b desc rows 3 preceding)",
            "sum(x) OVER (PARTITION BY a ORDER BY b DESC ROWS BETWEEN 3 PRECEDING AND CURRENT ROW)",
        ),
        ("null ?? true", "NULL ?? true"),
        ("a /* b */ + -- c\n 1", "a + 1"),
        ("'\0'", "'\\0'"),
        ("a // b\n+ 1", "a + 1"),
        ("a ~ 'x' or a ~* 'y'", "a =~ 'x' OR a =~* 'y'"),
        ("a?.b?.c || properties?.['x']", "a.b.c || properties['x']"),
        ("a is distinct from b and a is not distinct from c", "a != b AND a = c"),
        ("try_cast(x as Int64)", "TRY_CAST(x AS Int64)"),
        ("cast(x, 'Nullable(String)')", "CAST(x AS Nullable(String))"),
        ("x::String[]", "CAST(x AS Array(String))"),
        ("extract(month from timestamp)", "toMonth(timestamp)"),
        ("extract(url, 'a(b)')", "extract(url, 'a(b)')"),
        ("x[1:5]", "arraySlice(x, 1, 5)"),
        ("x[2:]", "arraySlice(x, 2)"),
        ("x[:3]", "arraySlice(x, 1, 3)"),
        ("x[-3:-2]", "arraySlice(x, -3, 2)"),
        ("x[2:-2]", "arraySlice(x, 2, -1)"),
        ("x[5:3]", "arraySlice(x, 5, 0)"),
        ("x[a:b]", "arraySlice(x, a, greatest(0, b - a + 1))"),
        ("f''", "''"),
        ("f'it''s \\{x}'", "'it\\'s {x}'"),
        ("f'a {f'b {c['}']}'} d'", "concat('a ', concat('b ', c['}']), ' d')"),
        ("f'{a}{ {x} }'", "concat(a, {x})"),
        ("array[1, 2,]", "[1, 2]"),
        ("f(a, b,)", "f(a, b)"),
        ("arrayMap(lambda x: x + 1, y)", "arrayMap(x -> x + 1, y)"),
        ("+1 + +a", "1 + a"),
        ("round(sum(x) as total, 2) + total", "round((sum(x) AS total), 2) + total"),
        ("(count() as c) * 2", "(count() AS c) * 2"),
        ("sum(x) filter (where y > 1)", "sumIf(x, y > 1)"),
        ("count(*) filter (where y)", "countIf(y)"),
        ("date + timestamp + first + last + format", "date + timestamp + first + last + format"),
        ("final + interval - sample", "`final` + `interval` - `sample`"),
    ] {
        let parsed = parse_expr(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parsed.to_string(), printed, "{text}");
    }
}

#[test]
fn statements_parse_with_all_clauses() {
    for (text, printed) in [
        ("select 1;", "SELECT 1"),
        ("select a, b, from t", "SELECT a, b FROM t"),
        ("select distinct a x, b as y from t u", "SELECT DISTINCT a AS x, b AS y FROM t AS u"),
        ("select *, t.* from t", "SELECT *, t.* FROM t"),
        (
            "select 1 from a join b on a.x = b.x left outer join c using (y, z), d cross join e",
            "SELECT 1 FROM a JOIN b ON a.x = b.x LEFT JOIN c USING (y, z) CROSS JOIN d \
             CROSS JOIN e",
        ),
        ("select 1 from t left array join a as b, c", "SELECT 1 FROM t LEFT ARRAY JOIN a AS b, c"),
        (
            "select 1 from (select 2) s prewhere a where b group by c, d having e \
             window w as (order by f) order by g asc, h desc nulls first limit 3 offset 4",
            "SELECT 1 FROM (SELECT 2) AS s PREWHERE a WHERE b GROUP BY c, d HAVING e \
             WINDOW w AS (ORDER BY f) ORDER BY g, h DESC NULLS FIRST LIMIT 3 OFFSET 4",
        ),
        ("select 1 limit 4, 3", "SELECT 1 LIMIT 3 OFFSET 4"),
        ("select 1 limit 2 offset 1 by a limit 5", "SELECT 1 LIMIT 2 OFFSET 1 BY a LIMIT 5"),
        ("select 1 from numbers(10)", "SELECT 1 FROM numbers(10)"),
        (
            "with t as (select 1), 2 as x select * from t",
            "WITH t AS (SELECT 1), 2 AS x SELECT * FROM t",
        ),
        (
            "select 1 union all select 2 except select 3 intersect select 4",
            "SELECT 1 UNION ALL SELECT 2 EXCEPT (SELECT 3 INTERSECT SELECT 4)",
        ),
        (
            "(select 1 union distinct select 2) intersect select 3",
            "(SELECT 1 UNION DISTINCT SELECT 2) INTERSECT SELECT 3",
        ),
        ("select 1 union select 2", "SELECT 1 UNION DISTINCT SELECT 2"),
        (
            "select 1 except distinct select 2 intersect distinct select 3",
            "SELECT 1 EXCEPT DISTINCT (SELECT 2 INTERSECT DISTINCT SELECT 3)",
        ),
        (
            "(select a from t) union all (select b from u) order by 1 limit 3",
            "SELECT * FROM (SELECT a FROM t UNION ALL SELECT b FROM u) ORDER BY 1 LIMIT 3",
        ),
        ("select a as 'x', b as 'y z' from t", "SELECT a AS x, b AS `y z` FROM t"),
        (
            "select count() as order, min(t) as end from x",
            "SELECT count() AS `order`, min(t) AS `end` FROM x",
        ),
        ("select day: 1, from t", "SELECT 1 AS day FROM t"),
        (
            "with final as (select 1) select final.* from final",
            "WITH `final` AS (SELECT 1) SELECT `final`.* FROM `final`",
        ),
        (
            "with recursive t(a, b) as materialized (select 1, 2), select a from t",
            "WITH t(a, b) AS (SELECT 1, 2) SELECT a FROM t",
        ),
        ("select 1 from posthog.events final e sample 1", "SELECT 1 FROM events AS e"),
        ("select 1 from (select 2) as t(a)", "SELECT 1 FROM (SELECT 2) AS t(a)"),
        (
            "select 1 from a left any join b using x semi left join c using y anti join d using z",
            "SELECT 1 FROM a ANY LEFT JOIN b USING (x) SEMI LEFT JOIN c USING (y) \
             ANTI LEFT JOIN d USING (z)",
        ),
        ("select 1 from a global any inner join b on c", "SELECT 1 FROM a ANY JOIN b ON c"),
        (
            "select distinct on (a) a, b from t order by b",
            "SELECT a, b FROM t ORDER BY b LIMIT 1 BY a",
        ),
        ("select a, count() from t group by all", "SELECT a, count() FROM t GROUP BY ALL"),
        (
            "select a from t group by rollup(a, b)",
            "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (a), ())",
        ),
        (
            "select a from t group by a, b with cube having c",
            "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (a), (b), ()) HAVING c",
        ),
        (
            "select a from t group by grouping sets ((a, b), c, (), (b))",
            "SELECT a FROM t GROUP BY GROUPING SETS ((a, b), (c), (), (b))",
        ),
        (
            "select percentile_cont(0.25) within group (order by x desc) from t",
            "SELECT quantile(0.75)(x) FROM t",
        ),
        (
            "select a from t group by a, having b qualify c window w as () order by d descending,",
            "SELECT a FROM t GROUP BY a HAVING b WINDOW w AS () QUALIFY c ORDER BY d DESC",
        ),
        (
            "select a from t order by a limit (2 + 3) with ties offset 1",
            "SELECT a FROM t ORDER BY a LIMIT 2 + 3 WITH TIES OFFSET 1",
        ),
        (
            "select * exclude (a, b), t.* except c replace (d + 1 as d), columns('x.*') from t",
            "SELECT * EXCLUDE (a, b), t.* EXCLUDE (c) REPLACE (d + 1 AS d), COLUMNS('x.*') FROM t",
        ),
        ("select columns(* exclude (a)), columns(t.*) from t", "SELECT * EXCLUDE (a), t.* FROM t"),
        ("select * from t except select 1", "SELECT * FROM t EXCEPT SELECT 1"),
        ("\u{feff}select 1;;", "SELECT 1"),
    ] {
        let parsed = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(parsed.to_string(), printed, "{text}");
    }
}

// contract: query 12
#[test]
fn syntax_errors_name_the_expected_token_and_position() {
    for (text, message, byte) in [
        ("", "expected SELECT or WITH, found the end of the query", None),
        ("selec 1", "expected SELECT or WITH, found 'selec' (at line 1, column 1)", Some(0)),
        ("drop table events", "expected SELECT or WITH, found 'drop'", Some(0)),
        ("insert into events values (1)", "expected SELECT or WITH, found 'insert'", Some(0)),
        ("select 1 2", "expected the end of the query, found '2'", Some(9)),
        ("select 1; select 2", "expected the end of the query, found 'select'", Some(10)),
        ("select", "expected an expression, found the end of the query", Some(6)),
        ("select from events", "expected an expression, found 'from'", Some(7)),
        ("select 1 +", "expected an expression, found the end of the query", Some(10)),
        ("select f(1 2)", "expected ',' or ')', found '2'", Some(11)),
        ("select (1 2)", "expected ',' or ')', found '2'", Some(10)),
        ("select [1", "expected ',' or ']', found the end of the query", Some(9)),
        ("select\n  'a\n", "unterminated text (at line 2, column 3)", Some(9)),
        ("select `a", "unterminated name", Some(7)),
        ("select ``", "a name cannot be empty", Some(7)),
        ("select /* a", "unterminated comment", Some(7)),
        ("select 'é' # 1", "a character that means nothing here (at line 1, column 12)", Some(12)),
        ("select 1a", "a name cannot begin with a digit", Some(7)),
        ("select 0x", "a hexadecimal number needs 1 to 16 digits", Some(7)),
        ("select a from", "expected a table or a subquery", Some(13)),
        ("select a from t join u", "expected ON or USING", Some(22)),
        ("select f'a {b", "expected '}', found the end of the query", Some(13)),
        ("select f'a {b}", "unterminated text", Some(14)),
        ("select x[0:2]", "Elements are counted from 1", Some(9)),
        ("select 1 from a any full join b on c", "ANY of this join is not supported", Some(16)),
        ("select 1 from a semi full join b on c", "SEMI and ANTI JOIN are LEFT or RIGHT", Some(16)),
        ("select 1 from a order by b collate 'en'", "COLLATE is not supported", Some(27)),
        ("select 1 union all by name select 2", "BY NAME is not supported", Some(19)),
        ("select case end", "expected an expression, found 'end'", Some(12)),
        ("select case a end", "expected WHEN, found 'end'", Some(14)),
        ("select a ? b", "expected ':', found the end of the query", Some(12)),
        ("select {}", "expected a name, found '}'", Some(8)),
        ("select interval 1 fortnight", "expected a unit of time, found 'fortnight'", Some(18)),
        ("select x is 1", "expected NULL, found '1'", Some(12)),
        ("select a from t order by a nulls", "expected FIRST or LAST", Some(32)),
        ("select 1 settings max_threads = 1", "SETTINGS is not supported", Some(9)),
        ("select 1 from t sample 0.1", "SAMPLE of less than all rows is not supported", Some(16)),
        ("select 1 from t asof join u", "ASOF JOIN is not supported", Some(16)),
        ("select a from t group by a with totals", "WITH TOTALS is not supported", Some(27)),
        ("select 1 from file('x')) ", "expected the end of the query, found ')'", Some(23)),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.to_string().contains(message), "{text}: {error}");
        assert_eq!(error.at.map(|at| at.byte), byte, "{text}: {error}");
    }
}
