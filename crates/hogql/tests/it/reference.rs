//! `docs/HOGQL.md`: the reference of the language, generated from its tables.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hogql::clauses::CLAUSES;
use hogql::functions::{
    ABSENT, Arg, Function, FunctionKind, Lambda, Nulls, Returns, function_named, functions,
};
use hogql::system::SYSTEM_TABLES;
use hogql::tables::Table;

const PATH: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/HOGQL.md");
/// Where the calls that the tests draw differ from ClickHouse's results.
const DIFFERENT: &str = include_str!("../../../eval/tests/it/different.in");

#[test]
fn reference_is_generated_from_the_code() {
    let written = std::fs::read_to_string(PATH).unwrap_or_default();
    let command = "cargo test -p hogql --test it -- --ignored write_hogql_reference";
    assert!(written == reference(), "docs/HOGQL.md is stale; write it again with: {command}");
}

#[test]
#[ignore = "writes docs/HOGQL.md"]
fn write_hogql_reference() {
    std::fs::write(PATH, reference()).unwrap();
}

#[test]
fn examples_of_clauses_parse_and_absent_functions_are_absent() {
    for clause in CLAUSES {
        hogql::parse(clause.example).unwrap_or_else(|error| panic!("{}: {error}", clause.syntax));
    }
    let names = ABSENT.iter().flat_map(|family| family.names);
    let there: Vec<_> = names.filter(|name| function_named(name).is_some()).collect();
    assert!(there.is_empty(), "listed as absent: {there:?}");
}

fn differences() -> BTreeMap<&'static str, &'static str> {
    let lines = DIFFERENT.lines().filter_map(|line| {
        let mut parts = line.split('"');
        Some((parts.nth(1)?, parts.nth(1)?))
    });
    lines.collect()
}

fn reference() -> String {
    let mut out = String::from(
        "# HogQL\n\nGenerated from the code: `cargo test -p hogql --test it -- --ignored write_hogql_reference`.\n\n\
         HogQL is PostHog's SQL dialect: ClickHouse's with PostHog's tables and fields. What differs as a whole is \
         in [DIFFERENCES.md](DIFFERENCES.md), section HogQL; this page has what each table, clause and function is.\n",
    );
    clauses(&mut out);
    tables(&mut out);
    system_tables(&mut out);
    table_of_functions(&mut out);
    absent(&mut out);
    out
}

fn clauses(out: &mut String) {
    out.push_str("\n## Clauses\n\n| clause | note | example |\n|---|---|---|\n");
    for clause in CLAUSES {
        let _ = writeln!(
            out,
            "| {} | {} | {} |",
            code(clause.syntax),
            clause.note,
            code(clause.example)
        );
    }
}

fn tables(out: &mut String) {
    out.push_str("\n## Tables\n\nThe columns of `*`, with their types in a project; `→` marks the row of another table, `=` a field outside of `*`. `raw_` before a name other than `events` is the same table.\n");
    out.push_str("\n| table | columns |\n|---|---|\n");
    for table in Table::ALL {
        let columns = table
            .columns()
            .iter()
            .filter_map(|(name, _)| table.column(name).map(|(_, ty)| format!("`{name}` {ty}")));
        let links = ["person", "pdi", "session", "group_0"].into_iter();
        let links = links.filter_map(|name| {
            let link = table.link(name)?;
            Some(format!("`{name}` → `{}`", link.table().name()))
        });
        let derived = table.derived().map(|field| {
            let property = field.property.map(|name| format!(".{name}")).unwrap_or_default();
            format!("`{}` = `{}({}{property})`", field.name, field.function, field.column)
        });
        let columns: Vec<String> = columns.chain(links).chain(derived).collect();
        let _ = writeln!(out, "| `{}` | {} |", table.name(), columns.join(", "));
    }
}

fn system_tables(out: &mut String) {
    out.push_str("\n### System tables\n\nThe project's objects that the caller may view, and a description of the tables. A query that reads objects needs their scope.\n");
    out.push_str("\n| table | scope | columns |\n|---|---|---|\n");
    for table in SYSTEM_TABLES {
        let scope = table.object().map(|object| format!("`{object}:read`")).unwrap_or_default();
        let columns: Vec<String> = table.columns.iter().map(|(name, _)| code(name)).collect();
        let _ = writeln!(out, "| `{}` | {scope} | {} |", table.name, columns.join(", "));
    }
}

fn table_of_functions(out: &mut String) {
    let differences = differences();
    let kinds = [
        (
            FunctionKind::Aggregate,
            "Aggregates",
            "Each also takes `OVER` and suffixes of its name: \
          `If` (a condition as last argument), `Distinct`, `Array`, `ForEach`, `Map`, `ArgMin`, `ArgMax`, `OrNull` and `OrDefault`. `State` of an aggregate of one argument is the array of \
          what it aggregates, which its `Merge` takes.",
        ),
        (FunctionKind::Window, "Window functions", "Only with `OVER`."),
        (
            FunctionKind::Scalar,
            "Functions",
            "Names are case-insensitive where that is not ambiguous. `x…` may repeat. \
          A missing argument gives NULL unless the function is marked `*`.",
        ),
    ];
    for (kind, title, note) in kinds {
        let _ =
            writeln!(out, "\n## {title}\n\n{note}\n\n| function | also | note |\n|---|---|---|");
        let mut rows: Vec<&Function> =
            functions().filter(|function| function.kind == kind).collect();
        rows.sort_by_key(|function| function.name.to_lowercase());
        for function in rows {
            let aliases: Vec<String> = function.aliases.iter().map(|alias| code(alias)).collect();
            let mut notes: Vec<String> = Vec::new();
            if let Some(body) = function.bodies.last() {
                notes.push(format!("is {}", code(body)));
            }
            notes.extend(differences.get(function.name).map(|why| format!("differs: {why}")));
            let _ = writeln!(
                out,
                "| {} | {} | {} |",
                code(&signature(function)),
                aliases.join(", "),
                notes.join("; ")
            );
        }
    }
}

fn signature(function: &Function) -> String {
    let mut args: Vec<String> = Vec::new();
    if function.lambda != Lambda::None {
        args.push(
            if function.lambda == Lambda::Required { "lambda" } else { "[lambda]" }.to_owned(),
        );
    }
    let required = function.args.len() - function.optional;
    for (no, arg) in function.args.iter().enumerate() {
        let last = no + 1 == function.args.len();
        let more = if last && function.repeats { "…" } else { "" };
        let word = format!("{}{more}", word(*arg));
        args.push(if no < required { word } else { format!("[{word}]") });
    }
    let parameters = match function.parameters {
        (0, 0) => String::new(),
        (_, 1) => "(parameter)".to_owned(),
        _ => "(parameters…)".to_owned(),
    };
    let returns = match function.returns {
        Returns::Kind(kind) => format!(" → {kind:?}"),
        _ => String::new(),
    };
    let nulls = match function.nulls {
        Nulls::Custom if function.kind == FunctionKind::Scalar => "*",
        _ => "",
    };
    format!("{}{nulls}{parameters}({}){returns}", function.name, args.join(", "))
}

fn word(arg: Arg) -> &'static str {
    match arg {
        Arg::Any => "any",
        Arg::String => "string",
        Arg::Int => "int",
        Arg::Number => "number",
        Arg::Condition => "condition",
        Arg::Time => "time",
        Arg::Interval => "interval",
        Arg::Array => "array",
        Arg::Map => "map",
        Arg::Tuple => "tuple",
        Arg::Unit => "'unit'",
        Arg::Zone => "'zone'",
        Arg::ConstString => "'string'",
        Arg::ConstInt => "constant int",
        Arg::Key => "key",
    }
}

fn absent(out: &mut String) {
    out.push_str(
        "\n## Functions of PostHog that are not there\n\n| family | why | names |\n|---|---|---|\n",
    );
    for family in ABSENT {
        let names: Vec<String> = family.names.iter().map(|name| code(name)).collect();
        let _ = writeln!(out, "| {} | {} | {} |", family.family, family.why, names.join(", "));
    }
}

/// Code in a cell of a table.
fn code(text: &str) -> String {
    format!("`{}`", text.replace('|', "\\|"))
}
