//! Parsing: statements in their printed form, and errors with their positions.

use hogql::{parse, parse_expr};

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
        ("select 1 union select 2", "expected ALL or DISTINCT, found 'select'", Some(15)),
        ("select case end", "expected an expression, found 'end'", Some(12)),
        ("select case a end", "expected WHEN, found 'end'", Some(14)),
        ("select a ? b", "expected ':', found the end of the query", Some(12)),
        ("select {}", "expected a name, found '}'", Some(8)),
        ("select interval 1 fortnight", "expected a unit of time, found 'fortnight'", Some(18)),
        ("select x is 1", "expected NULL, found '1'", Some(12)),
        ("select a from t order by a nulls", "expected FIRST or LAST", Some(32)),
        ("select 1 settings max_threads = 1", "SETTINGS is not supported", Some(9)),
        ("select 1 from t final", "FINAL is not supported", Some(16)),
        ("select 1 from t sample 0.1", "SAMPLE is not supported", Some(16)),
        ("select 1 from t asof join u", "ASOF JOIN is not supported", Some(16)),
        ("select a from t group by a with totals", "WITH TOTALS is not supported", Some(27)),
        ("select 1 from file('x')) ", "expected the end of the query, found ')'", Some(23)),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.to_string().contains(message), "{text}: {error}");
        assert_eq!(error.at.map(|at| at.byte), byte, "{text}: {error}");
    }
}
