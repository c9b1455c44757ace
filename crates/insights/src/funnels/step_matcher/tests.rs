use super::*;

/// `a` is step 0, `b` step 1 and so on; capitals are exclusions, `.` is any other event. An event
/// stands at each whole second.
fn events(journey: &str) -> Vec<ActorEvent> {
    let event = |(at, letter): (usize, char)| {
        let tag = match letter {
            'a'..='z' => letter as u32 - 'a' as u32,
            'A'..='Z' => EXCLUSION + letter as u32 - 'A' as u32,
            '.' => OTHER,
            _ => return None,
        };
        Some(ActorEvent { actor: 0, time: at as i64, tag })
    };
    journey.chars().enumerate().filter_map(event).collect()
}

fn rules(steps: usize, order: Order) -> Rules {
    let overlaps = vec![0; steps];
    Rules { steps, order, window: 100, overlaps, optional: 0, exclusions: Vec::new() }
}

fn best(rules: &Rules, journey: &str) -> Vec<i64> {
    let conversion = StepMatcher::new(rules).best(&events(journey));
    conversion.map(|conversion| conversion.times[..conversion.level].to_vec()).unwrap_or_default()
}

#[test]
fn ordered_steps_may_have_others_between_them() {
    let rules = rules(3, Order::Ordered);
    for (journey, times) in [
        ("abc", &[0, 1, 2][..]),
        ("a-b-c", &[0, 2, 4]),
        ("acb", &[0, 2]),
        ("cba", &[2]),
        ("bc", &[]),
        // The earliest of equally good runs.
        ("aab", &[0, 2]),
        ("ab-abc", &[0, 1, 5]),
    ] {
        assert_eq!(best(&rules, journey), times, "{journey}");
    }
}

#[test]
fn the_window_is_measured_from_the_first_step() {
    let rules = Rules { window: 2, ..rules(3, Order::Ordered) };
    assert_eq!(best(&rules, "abc"), [0, 1, 2]);
    assert_eq!(best(&rules, "ab-c"), [0, 1]);
    // A later start can be the better one.
    assert_eq!(best(&rules, "ab-abc"), [3, 4, 5]);
}

#[test]
fn strict_steps_follow_each_other() {
    let rules = rules(3, Order::Strict);
    assert_eq!(best(&rules, "abc"), [0, 1, 2]);
    assert_eq!(best(&rules, "a.bc"), [0]);
    assert_eq!(best(&rules, "a.b.abc"), [4, 5, 6]);
    assert_eq!(best(&rules, "aabc"), [1, 2, 3]);
    assert_eq!(best(&rules, "a--b.c"), [0, 3]);
}

#[test]
fn unordered_steps_are_done_in_any_order() {
    let rules = Rules { window: 3, ..rules(3, Order::Unordered) };
    for (journey, times) in [
        ("cab", &[0, 1, 2][..]),
        ("aab", &[0, 2]),
        ("a---bc", &[4, 5]),
        ("a--b-c-a", &[0, 3]),
        ("a--bca", &[3, 4, 5]),
    ] {
        assert_eq!(best(&rules, journey), times, "{journey}");
    }
}

#[test]
fn one_event_never_serves_two_steps() {
    let twice = |order| Rules { overlaps: vec![2, 1], ..rules(2, order) };
    let events = |times: &[i64]| -> Vec<ActorEvent> {
        let both = |time: &i64| [0, 1].map(|tag| ActorEvent { actor: 0, time: *time, tag });
        times.iter().flat_map(both).collect()
    };
    for order in [Order::Ordered, Order::Strict, Order::Unordered] {
        let rules = twice(order);
        let level = |times: &[i64]| StepMatcher::new(&rules).best(&events(times)).unwrap().level;
        assert_eq!(level(&[5]), 1, "{order:?}");
        assert_eq!(level(&[5, 5]), 1, "{order:?}");
        assert_eq!(level(&[5, 9]), 2, "{order:?}");
    }
}

#[test]
fn different_events_at_one_moment_are_in_any_order() {
    let both = [1, 0].map(|tag| ActorEvent { actor: 0, time: 5, tag });
    for order in [Order::Ordered, Order::Strict, Order::Unordered] {
        let rules = rules(2, order);
        let mut events = both;
        events.sort_unstable_by_key(|event| (event.time, event.tag));
        assert_eq!(StepMatcher::new(&rules).best(&events).unwrap().level, 2, "{order:?}");
    }
}

#[test]
fn a_step_makes_room_for_another_when_the_order_is_free() {
    // The first event matches both steps, the second only the first one.
    let rules = Rules { overlaps: vec![2, 1], ..rules(2, Order::Unordered) };
    let events = [(1, 0), (1, 1), (2, 0)].map(|(time, tag)| ActorEvent { actor: 0, time, tag });
    let conversion = StepMatcher::new(&rules).best(&events).unwrap();
    assert_eq!((conversion.level, conversion.by_step[0], conversion.by_step[1]), (2, 2, 1));
}

#[test]
fn an_exclusion_counts_between_its_steps_only() {
    let exclusions = vec![Exclusion { from: 0, to: 1 }];
    let rules = Rules { exclusions, ..rules(3, Order::Ordered) };
    let mut step_matcher = StepMatcher::new(&rules);
    for (journey, excluded) in
        [("aAbc", true), ("abAc", false), ("Aabc", false), ("aA", false), ("abcA", false)]
    {
        let events = events(journey);
        let conversion = step_matcher.best(&events).unwrap();
        assert_eq!(step_matcher.excludes(&conversion, &events), excluded, "{journey}");
    }
}

#[test]
fn optional_steps_never_delay_required_ones() {
    let steps = |rules: &Rules, journey: &str| {
        StepMatcher::new(rules).best(&events(journey)).unwrap().steps(rules)
    };
    let rules = |order: Order, optional: u32| Rules { optional, ..rules(3, order) };
    let ordered = rules(Order::Ordered, 0b10);
    let strict = rules(Order::Strict, 0b10);
    for (journey, both) in [
        ("abc", &[(0, 0), (1, 1), (2, 2)][..]),
        ("ac", &[(0, 0), (2, 1)]),
        ("acb", &[(0, 0), (2, 1)]),
        ("acbc", &[(0, 0), (2, 1)]),
        ("ab", &[(0, 0), (1, 1)]),
    ] {
        assert_eq!(steps(&ordered, journey), both, "{journey}");
        assert_eq!(steps(&strict, journey), both, "{journey}");
    }
    assert_eq!(steps(&ordered, "a.b.c"), [(0, 0), (1, 2), (2, 4)]);
    assert_eq!(steps(&strict, "a.c"), [(0, 0)]);
    assert_eq!(steps(&strict, "ab.c"), [(0, 0), (1, 1)]);
    // The last step that is reached counts, and those before it that lie in order.
    assert_eq!(steps(&rules(Order::Ordered, 0b110), "acb"), [(0, 0), (2, 1)]);
    let late = Rules { window: 1, ..rules(Order::Ordered, 0b10) };
    assert_eq!(steps(&late, "a-bac"), [(0, 3), (2, 4)]);
}
