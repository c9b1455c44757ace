//! Printing and parsing round-trip, for generated trees.

use hogql::ast::*;
use hogql::{Span, parse, parse_expr};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

fn expr(kind: ExprKind) -> Expr {
    Expr { kind, span: Span::default() }
}

fn name() -> impl Strategy<Value = Name> {
    let words =
        vec!["a", "properties", "$browser", "select", "left", "Interval", "date", "null", "x1"];
    prop_oneof![
        4 => prop::sample::select(words).prop_map(str::to_owned),
        1 => "[ -~é\\n\\t]{1,6}",
    ]
    .prop_map(|text| Name::new(text, Span::default()))
}

fn literal() -> impl Strategy<Value = Expr> {
    prop_oneof![
        Just(Literal::Null),
        any::<bool>().prop_map(Literal::Bool),
        any::<u64>().prop_map(Literal::Int),
        any::<f64>().prop_map(|value| Literal::Float(value.abs())),
        "\\PC{0,8}|[\\\\'\\n\\x00`\"]{0,4}".prop_map(Literal::String),
    ]
    .prop_map(|literal| expr(ExprKind::Literal(literal)))
}

fn leaf() -> impl Strategy<Value = Expr> {
    prop_oneof![
        literal(),
        vec(name(), 1..4).prop_map(|chain| expr(ExprKind::Field(chain))),
        vec(name(), 1..3).prop_map(|chain| expr(ExprKind::Placeholder(chain))),
    ]
}

fn binary_op() -> impl Strategy<Value = BinaryOp> {
    use BinaryOp::*;
    prop::sample::select(vec![
        Add,
        Subtract,
        Multiply,
        Divide,
        Modulo,
        Concat,
        Coalesce,
        Equal,
        NotEqual,
        Less,
        LessOrEqual,
        Greater,
        GreaterOrEqual,
        Like,
        NotLike,
        ILike,
        NotILike,
        Match,
        NotMatch,
        IMatch,
        NotIMatch,
    ])
}

fn type_name() -> impl Strategy<Value = TypeName> {
    let plain = prop::sample::select(vec!["String", "Array", "Float64"])
        .prop_map(|text| TypeName { name: Name::new(text, Span::default()), args: Vec::new() });
    plain.prop_recursive(2, 4, 2, |inner| {
        let arg = prop_oneof![
            inner.prop_map(TypeArg::Type),
            any::<u64>().prop_map(TypeArg::Int),
            "[a-z'\\\\]{0,3}".prop_map(TypeArg::String),
        ];
        vec(arg, 0..3).prop_map(|args| TypeName { name: Name::new("T", Span::default()), args })
    })
}

fn logic(op: LogicOp, operands: Vec<Expr>) -> ExprKind {
    let mut flat = Vec::new();
    for operand in operands {
        match operand.kind {
            ExprKind::Logic(inner, operands) if inner == op => flat.extend(operands),
            _ => flat.push(operand),
        }
    }
    ExprKind::Logic(op, flat)
}

fn operators(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = ExprKind> {
    let boxed = inner.clone().prop_map(Box::new).boxed();
    let one = boxed.clone();
    let pair = (boxed.clone(), boxed.clone(), any::<bool>());
    prop_oneof![
        4 => (binary_op(), one.clone(), one.clone())
            .prop_map(|(op, left, right)| ExprKind::Binary(op, left, right)),
        1 => one.clone().prop_map(|operand| ExprKind::Unary(UnaryOp::Not, operand)),
        1 => one.clone().prop_map(|operand| ExprKind::Unary(UnaryOp::Negate, operand)),
        1 => vec(inner.clone(), 2..4).prop_map(|operands| logic(LogicOp::And, operands)),
        1 => vec(inner.clone(), 2..4).prop_map(|operands| logic(LogicOp::Or, operands)),
        1 => (one.clone(), any::<bool>())
            .prop_map(|(expr, negated)| ExprKind::IsNull { expr, negated }),
        1 => (one.clone(), pair.clone()).prop_map(|(expr, (low, high, negated))| {
            ExprKind::Between { expr, low, high, negated }
        }),
        1 => pair.clone().prop_map(|(expr, set, negated)| ExprKind::In { expr, set, negated }),
        1 => (one.clone(), prop_oneof![Just(5u64), Just(0)], any::<bool>()).prop_map(
            |(inner, id, negated)| ExprKind::InCohort {
                expr: inner,
                cohort: Box::new(expr(ExprKind::Literal(Literal::Int(id)))),
                negated,
            }
        ),
        1 => [inner.clone(), inner.clone(), inner.clone()]
            .prop_map(|parts| ExprKind::Ternary(Box::new(parts))),
        1 => (option::of(one.clone()), vec((inner.clone(), inner.clone()), 1..3), option::of(one))
            .prop_map(|(operand, branches, otherwise)| ExprKind::Case {
                operand,
                branches,
                otherwise
            }),
    ]
}

fn parts(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = ExprKind> {
    let boxed = inner.clone().prop_map(Box::new).boxed();
    prop_oneof![
        (boxed.clone(), name()).prop_map(|(base, name)| match base.kind {
            ExprKind::Field(mut chain) => {
                chain.push(name);
                ExprKind::Field(chain)
            }
            _ => ExprKind::Member(base, name),
        }),
        (boxed.clone(), any::<u64>()).prop_map(|(base, index)| ExprKind::Element(base, index)),
        (boxed.clone(), boxed.clone()).prop_map(|(base, index)| ExprKind::Index(base, index)),
        (boxed.clone(), type_name()).prop_map(|(base, to)| ExprKind::Cast(base, to)),
        (boxed.clone(), type_name()).prop_map(|(base, to)| ExprKind::TryCast(base, to)),
        (boxed.clone(), name()).prop_map(|(inner, name)| ExprKind::Alias(inner, name)),
        (boxed.clone(), prop::sample::select(&Unit::ALL[..]))
            .prop_map(|(count, unit)| ExprKind::Interval(count, unit)),
        (vec(name(), 1..3), boxed).prop_map(|(params, body)| ExprKind::Lambda(params, body)),
        vec(inner.clone(), 0..3).prop_map(ExprKind::Array),
        vec(inner.clone(), 1..3).prop_map(ExprKind::Tuple),
        call(inner.clone()).prop_map(|call| ExprKind::Call(Box::new(call))),
        query(inner).prop_map(|query| ExprKind::Query(Box::new(query))),
    ]
}

fn call(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Call> {
    let names = prop::sample::select(vec!["f", "count", "left", "and", "array", "toDate"]);
    let over =
        prop_oneof![name().prop_map(Over::Named), window(inner.clone()).prop_map(Over::Window),];
    let args = vec(inner.clone(), 1..3);
    (names, vec(inner, 0..2), any::<bool>(), args, option::of(over)).prop_map(
        |(name, parameters, distinct, args, over)| {
            let name = Name::new(name, Span::default());
            Call { name, parameters, distinct, args, over }
        },
    )
}

fn window(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Window> {
    let bound = prop_oneof![
        Just(Bound::UnboundedPreceding),
        any::<u64>().prop_map(Bound::Preceding),
        Just(Bound::CurrentRow),
        any::<u64>().prop_map(Bound::Following),
        Just(Bound::UnboundedFollowing),
    ];
    let unit = prop_oneof![Just(FrameUnit::Rows), Just(FrameUnit::Range)];
    let frame =
        (unit, bound.clone(), bound).prop_map(|(unit, start, end)| Frame { unit, start, end });
    (vec(inner.clone(), 0..2), vec(order(inner), 0..2), option::of(frame))
        .prop_map(|(partition, order, frame)| Window { partition, order, frame })
}

fn order(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Order> {
    (inner, any::<bool>(), option::of(any::<bool>()))
        .prop_map(|(expr, descending, nulls_first)| Order { expr, descending, nulls_first })
}

fn column(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Column> {
    (inner, option::of(name())).prop_map(|(expr, alias)| Column { expr, alias })
}

/// A column, or `*` with changes.
fn selected(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Column> {
    let replace = vec((inner.clone(), name()), 0..2);
    let set =
        (option::of(name()), vec(name(), 1..3), replace).prop_map(|(table, exclude, replace)| {
            let set = ColumnSet { table, pattern: None, exclude, replace };
            Column { expr: expr(ExprKind::Columns(Box::new(set))), alias: None }
        });
    let matching = "[a-z'\\\\$^]{1,4}".prop_map(|pattern| {
        let set = ColumnSet { pattern: Some(pattern), ..ColumnSet::default() };
        Column { expr: expr(ExprKind::Columns(Box::new(set))), alias: None }
    });
    prop_oneof![8 => column(inner), 1 => set, 1 => matching]
}

fn source(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Source> {
    let kind = prop_oneof![
        name().prop_map(SourceKind::Table),
        (name(), vec(inner.clone(), 0..2)).prop_map(|(name, args)| SourceKind::Call(name, args)),
        inner.prop_map(|inner| {
            let columns = vec![Column { expr: inner, alias: None }];
            let select = Select { columns, ..Select::default() };
            let body = Body::Select(Box::new(select));
            SourceKind::Query(Box::new(Query { with: Vec::new(), body }))
        }),
    ];
    (kind, option::of(name()), vec(name(), 0..2)).prop_map(|(kind, alias, columns)| {
        // Only an alias can be followed by names of columns.
        let columns = if alias.is_some() { columns } else { Vec::new() };
        Source { kind, alias, columns, span: Span::default() }
    })
}

fn from(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = From> {
    use JoinKind::*;
    let on =
        prop_oneof![inner.clone().prop_map(On::Condition), vec(name(), 1..3).prop_map(On::Using),];
    let kind = prop::sample::select(vec![Inner, Left, Right, Full, Cross]);
    let strictness = prop::sample::select(vec![
        Strictness::All,
        Strictness::Any,
        Strictness::Semi,
        Strictness::Anti,
    ]);
    let join =
        (kind, strictness, source(inner.clone()), on).prop_map(|(kind, strictness, source, on)| {
            let strictness = match kind {
                Left | Right => strictness,
                Inner if strictness == Strictness::Any => strictness,
                _ => Strictness::All,
            };
            Join { kind, strictness, source, on: (kind != Cross).then_some(on) }
        });
    (source(inner), vec(join, 0..2)).prop_map(|(first, joins)| From { first, joins })
}

fn select(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Select> {
    let maybe = || option::weighted(0.2, inner.clone());
    let array_join = (any::<bool>(), vec(column(inner.clone()), 1..2))
        .prop_map(|(keep_empty, arrays)| ArrayJoin { keep_empty, arrays });
    let limit_by = (inner.clone(), maybe(), vec(inner.clone(), 1..2))
        .prop_map(|(limit, offset, by)| LimitBy { limit, offset, by });
    let head = (
        any::<bool>(),
        vec(selected(inner.clone()), 1..3),
        option::of(from(inner.clone())),
        option::weighted(0.1, array_join),
        (maybe(), maybe(), vec(inner.clone(), 0..2), any::<bool>(), maybe()),
    );
    let tail = (
        vec((name(), window(inner.clone())), 0..2),
        vec(order(inner.clone()), 0..2),
        option::weighted(0.1, limit_by),
        (maybe(), maybe(), any::<bool>(), maybe()),
    );
    (head, tail).prop_map(|(head, tail)| {
        let (distinct, columns, from, array_join, (prewhere, filter, group, in_sets, having)) =
            head;
        // Keys that are written alike are one key of grouping sets.
        let in_sets = in_sets && group.len() == 1;
        let (windows, order, limit_by, (limit, offset, with_ties, qualify)) = tail;
        Select {
            with_ties: with_ties && limit.is_some(),
            qualify,
            group_all: false,
            group_sets: if in_sets { vec![vec![0], vec![]] } else { Vec::new() },
            span: Span::default(),
            distinct,
            columns,
            // `ARRAY JOIN` needs a table before it.
            array_join: array_join.filter(|_| from.is_some()),
            from,
            prewhere,
            filter,
            group,
            having,
            windows,
            order,
            limit_by,
            limit,
            offset,
        }
    })
}

fn query(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Query> {
    let one = select(inner.clone())
        .prop_map(|select| Query { with: Vec::new(), body: Body::Select(Box::new(select)) })
        .boxed();
    let op = prop::sample::select(vec![
        SetOp::UnionAll,
        SetOp::UnionDistinct,
        SetOp::Except,
        SetOp::ExceptDistinct,
    ]);
    let scalar = inner.prop_map(|expr| (Vec::new(), WithValue::Scalar(expr)));
    let columns = vec(name(), 0..3);
    let common = (columns, one.clone()).prop_map(|(names, query)| (names, WithValue::Query(query)));
    let with = (name(), prop_oneof![scalar, common]).prop_map(|(name, (columns, value))| With {
        name,
        columns,
        value,
    });
    (vec(with, 0..2), one.clone(), vec((op, one), 0..2)).prop_map(|(with, first, rest)| {
        if rest.is_empty() {
            return Query { with, body: first.body };
        }
        Query { with, body: Body::Set { first: Box::new(first), rest } }
    })
}

fn any_expr() -> BoxedStrategy<Expr> {
    leaf()
        .prop_recursive(4, 24, 3, |inner| {
            let inner = inner.boxed();
            prop_oneof![operators(inner.clone()), parts(inner)].prop_map(expr)
        })
        .boxed()
}

/// Runs on a large stack: the generators nest far deeper than the trees they generate.
pub(crate) fn check<T: std::fmt::Debug + 'static>(
    strategy: fn() -> BoxedStrategy<T>,
    holds: fn(T) -> Result<(), TestCaseError>,
) {
    const STACK_BYTES: usize = 64 * 1024 * 1024;
    let seed = testing::seed();
    let rng_seed = RngSeed::Fixed(*seed);
    let run = move || {
        let config =
            ProptestConfig { failure_persistence: None, rng_seed, ..ProptestConfig::default() };
        TestRunner::new(config).run(&strategy(), holds).map_err(|error| error.to_string())
    };
    let thread = std::thread::Builder::new().stack_size(STACK_BYTES).spawn(run);
    thread.expect("a thread").join().expect("no panic").unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn printed_expression_parses_to_the_same_tree() {
    check(any_expr, |tree| {
        let text = tree.to_string();
        let again = parse_expr(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
        prop_assert_eq!(again, tree, "{}", text);
        Ok(())
    });
}

#[test]
fn printed_statement_parses_to_the_same_tree() {
    check(
        || query(any_expr()).boxed(),
        |tree| {
            let text = tree.to_string();
            let again = parse(&text).map_err(|e| TestCaseError::fail(format!("{text}: {e}")))?;
            prop_assert_eq!(again, tree, "{}", text);
            Ok(())
        },
    );
}

#[test]
fn arbitrary_text_parses_to_a_printable_tree_or_fails() {
    const WORDS: &str = "select (select|from|in|not|is|null|[a-z]+|[0-9.]+|[-+*/%=<>!~?:.,;(){}\\[\\]'\"`\\\\]| ){0,12}";
    check(
        || WORDS.boxed(),
        |text| {
            if let Ok(tree) = parse(&text) {
                prop_assert_eq!(parse(&tree.to_string()).expect("printed"), tree);
            }
            Ok(())
        },
    );
}
