//! Mutated statements: tokens of valid statements are moved, dropped and replaced. Every plan that
//! results satisfies the invariants in the crate's documentation.

use hogql::functions::functions;
use hogql::{PlaceholderValues, Reason, parse};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::resolve::project;
use crate::round_trip::check;

const SEEDS: &[&str] = &[
    "select event , count ( ) as c from events group by event having c > 1 order by c desc",
    "with t as ( select event , properties . $browser b from events ) \
     select count ( distinct b ) from t union all select 1",
    "select arrayMap ( ( x , y ) -> x + y , [ 1 , 2 ] , [ 3 , 4 ] ) [ 1 ] , ( 1 , 'a' ) . 2 , \
     { filters } , - 1 :: Float64 from events e left join persons p on e . person_id = p . id",
    "select row_number ( ) over ( partition by event order by timestamp desc rows between 1 \
     preceding and current row ) as n from events where timestamp > now ( ) - interval 1 day \
     limit 1 by event limit 10 offset 3",
    "select arrayJoin ( groupArray ( event ) ) as e , arrayJoin ( [ 'a' ] ) as f from events \
     group by f",
    "select case when event = 'a' then 1 else null end ?? 3 , event in ( 'a' , 'b' ) ? 'x' : 'y' \
     , event not like '%a' and uuid is not null from events",
    "select x , y from events left array join elements_chain_ids as x , [ 1 ] as y \
     where x between 'a' and 'b'",
    "select sum ( count ( ) ) over ( partition by toDate ( timestamp ) ) from events \
     group by toDate ( timestamp )",
    "select quantile ( 0.5 ) ( x ) , sumIf ( x , x > 1 ) from ( select arrayJoin ( [ 1 , 2 ] ) \
     as x ) group by x % 2",
    "select distinct on ( event ) ( count ( ) as c ) * 2 , c , event , f'{ event } x' from events final e \
     any left join persons p on e . person_id = p . id group by all qualify row_number ( ) over \
     ( order by event ) < 3 order by 1 limit ( 2 * 3 ) with ties",
    "with final ( a , b ) as ( select 1 , 2 ) ( select * exclude ( b ) from final ) union select \
     length ( [ number ] [ 1 : 2 ] ) from numbers ( 3 , 4 ) order by 1 limit 5",
    "select key , g . properties . a . 1 from groups g full join persons using ( created_at ) \
     where key in ( select session . session_id from events )",
];

/// Tokens of the seed statements that are values.
const OPERANDS: &[&str] = &["event", "timestamp", "x", "y", "c", "1", "3", "'a'", "key", "b"];

/// Replacements for them.
const GRAFTS: &[&str] = &[
    "event",
    "c",
    "count ( )",
    "max ( event )",
    "arrayJoin ( [ 1 , 2 ] )",
    "arrayJoin ( groupArray ( 1 ) )",
    "sum ( 1 ) over ( order by event )",
    "sum ( count ( ) ) over ( )",
    "( select count ( ) from events )",
    "properties . amount",
    "person . properties . age",
    "arrayExists ( x -> x = 1 , [ 1 ] )",
    "( event , 1 )",
    "toString ( event )",
    "null",
];

#[derive(Clone, Debug)]
enum Edit {
    /// Replaces a value.
    Graft(Index, Index),
    Remove(Index),
    Insert(Index, Index),
    Replace(Index, Index),
    Swap(Index, Index),
    /// Copies a run of tokens to another position.
    Repeat(Index, usize, Index),
}

fn edit() -> impl Strategy<Value = Edit> {
    let place = any::<Index>;
    prop_oneof![
        8 => (place(), place()).prop_map(|(at, graft)| Edit::Graft(at, graft)),
        1 => place().prop_map(Edit::Remove),
        1 => (place(), place()).prop_map(|(at, word)| Edit::Insert(at, word)),
        1 => (place(), place()).prop_map(|(at, word)| Edit::Replace(at, word)),
        1 => (place(), place()).prop_map(|(at, other)| Edit::Swap(at, other)),
        1 => (place(), 1..12usize, place()).prop_map(|(at, len, to)| Edit::Repeat(at, len, to)),
    ]
}

fn edited() -> BoxedStrategy<String> {
    let known = SEEDS.iter().flat_map(|seed| seed.split_whitespace());
    let known: Vec<&str> = known.chain(functions().map(|function| function.name)).collect();
    let seeds = prop::sample::select(SEEDS);
    (seeds, vec(edit(), 1..3))
        .prop_map(move |(seed, edits)| {
            let mut words: Vec<&str> = seed.split_whitespace().collect();
            for edit in edits {
                let len = words.len();
                match edit {
                    Edit::Graft(at, graft) => {
                        let is_operand = |at: &usize| OPERANDS.contains(&words[*at]);
                        let places: Vec<usize> = (0..len).filter(is_operand).collect();
                        if !places.is_empty() {
                            words[*at.get(&places)] = *graft.get(GRAFTS);
                        }
                    }
                    Edit::Remove(at) if len > 1 => drop(words.remove(at.index(len))),
                    Edit::Remove(_) => {}
                    Edit::Insert(at, word) => words.insert(at.index(len), *word.get(&known)),
                    Edit::Replace(at, word) => words[at.index(len)] = *word.get(&known),
                    Edit::Swap(at, other) => words.swap(at.index(len), other.index(len)),
                    Edit::Repeat(at, run, to) => {
                        let start = at.index(len);
                        let run = words[start..len.min(start + run)].to_vec();
                        let to = to.index(len);
                        words.splice(to..to, run);
                    }
                }
            }
            words.join(" ")
        })
        .boxed()
}

#[test]
fn every_seed_statement_resolves() {
    for seed in SEEDS {
        let plan = hogql::plan(seed, &PlaceholderValues::default(), &project(), None);
        assert!(plan.is_ok(), "{seed}: {plan:?}");
    }
}

#[test]
fn mutated_statement_fails_or_satisfies_the_plan_invariants() {
    check(edited, |text| {
        let Ok(tree) = parse(&text) else { return Ok(()) };
        match parse(&tree.to_string()) {
            Ok(again) => prop_assert_eq!(again, tree),
            Err(error) => prop_assert!(matches!(error.reason, Reason::TooLarge { .. }), "{error}"),
        }
        let Ok(plan) = hogql::plan(&text, &PlaceholderValues::default(), &project(), None) else {
            return Ok(());
        };
        let inside = format!("{plan:?}");
        for unfinished in ["AggregateCall(", "WindowCall(", "Unnested {"] {
            prop_assert!(!inside.contains(unfinished), "{unfinished} in {plan}");
        }
        let projects = inside.matches("ProjectId(").count();
        prop_assert_eq!(projects, inside.matches("ProjectId(7)").count());
        Ok(())
    });
}
