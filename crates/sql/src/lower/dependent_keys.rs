//! Keys of a grouping that are functions of its other keys: `x`, `x - 1` and a constant group as `x` does.

use hogql::plan::{Expr, ExprKind, Select, Set};

use super::leaves::{Leaf, leaves, walk};

/// The select without such keys, which are computed for each group instead; none if it has none.
pub(super) fn without_dependent_keys(select: &Select) -> Option<Select> {
    let keys = &select.grouping.as_ref()?.keys;
    let mut computed: Vec<Option<Expr>> = vec![None; keys.len()];
    // Keys that computed ones need.
    let mut needed = vec![false; keys.len()];
    for no in (0..keys.len()).rev().filter(|_| keys.len() > 1) {
        let others: Vec<usize> =
            (0..keys.len()).filter(|other| *other != no && computed[*other].is_none()).collect();
        if needed[no] || others.is_empty() {
            continue;
        }
        let (mut expr, mut used) = (keys[no].clone(), Vec::new());
        replace(&mut expr, &mut |part| {
            let other = others.iter().copied().find(|other| keys[*other] == *part)?;
            let is_constant = matches!(part.kind, ExprKind::Value(_));
            (!is_constant).then(|| {
                used.push(other);
                key(other, part)
            })
        });
        if reads_only_keys(&expr) {
            used.into_iter().for_each(|other| needed[other] = true);
            computed[no] = Some(expr);
        }
    }
    if computed.iter().all(Option::is_none) {
        return None;
    }
    let place = |no: usize| computed[..no].iter().filter(|key| key.is_none()).count();
    let mut renumber = |part: &Expr| match part.kind {
        ExprKind::Key(no) => Some(key(place(no), part)),
        _ => None,
    };
    let mut moved = computed.clone();
    moved.iter_mut().flatten().for_each(|expr| replace(expr, &mut renumber));
    let mut changed = |part: &Expr| match part.kind {
        ExprKind::Key(no) => Some(moved[no].clone().unwrap_or_else(|| key(place(no), part))),
        _ => None,
    };
    let mut select = select.clone();
    let grouping = select.grouping.as_mut()?;
    let mut is_kept = computed.iter().map(Option::is_none);
    grouping.keys.retain(|_| is_kept.next().unwrap_or(true));
    for expr in after_grouping(&mut select) {
        replace(expr, &mut changed);
    }
    Some(select)
}

fn key(no: usize, of: &Expr) -> Expr {
    Expr { kind: ExprKind::Key(no), ty: of.ty.clone(), span: of.span }
}

fn reads_only_keys(expr: &Expr) -> bool {
    let mut only_keys = true;
    leaves(expr, &mut |leaf| only_keys &= matches!(leaf, Leaf::Key(_)));
    walk(expr, &mut |part| {
        only_keys &= !matches!(
            part.kind,
            ExprKind::Query(_) | ExprKind::In { set: Set::Query(_) | Set::Cohort(_), .. }
        );
    });
    only_keys
}

/// The expressions over groups.
fn after_grouping(select: &mut Select) -> Vec<&mut Expr> {
    let mut all: Vec<&mut Expr> = select.columns.iter_mut().collect();
    all.extend(select.grouping.iter_mut().flat_map(|grouping| &mut grouping.having));
    all.extend(select.late_unnests.iter_mut().flat_map(|unnest| &mut unnest.arrays));
    for window in &mut select.windows {
        all.extend(window.call.args.iter_mut().chain(&mut window.call.filter));
        all.extend(&mut window.partition);
        all.extend(window.order.iter_mut().map(|order| &mut order.expr));
    }
    all.extend(&mut select.qualify);
    all.extend(select.order.iter_mut().map(|order| &mut order.expr));
    all.extend(select.limit_by.iter_mut().flat_map(|limit_by| &mut limit_by.by));
    all
}

/// Replaces the outermost parts for which there is another.
fn replace(expr: &mut Expr, with: &mut impl FnMut(&Expr) -> Option<Expr>) {
    if let Some(other) = with(expr) {
        *expr = other;
        return;
    }
    match &mut expr.kind {
        ExprKind::Property { of: part, .. }
        | ExprKind::Lambda { body: part, .. }
        | ExprKind::Not(part)
        | ExprKind::Interval(part, _)
        | ExprKind::IsNull { expr: part, .. }
        | ExprKind::Cast { expr: part, .. }
        | ExprKind::Unnested { array: part } => replace(part, with),
        ExprKind::Call { args: parts, .. } | ExprKind::And(parts) | ExprKind::Or(parts) => {
            parts.iter_mut().for_each(|part| replace(part, with));
        }
        ExprKind::Compare(_, sides) => sides.iter_mut().for_each(|side| replace(side, with)),
        ExprKind::In { expr, set, .. } => {
            replace(expr, with);
            match set {
                Set::List(items) => items.iter_mut().for_each(|item| replace(item, with)),
                Set::Array(array) => replace(array, with),
                Set::Query(_) | Set::Cohort(_) => {}
            }
        }
        ExprKind::Value(_)
        | ExprKind::Column { .. }
        | ExprKind::Output { .. }
        | ExprKind::Element(..)
        | ExprKind::Key(_)
        | ExprKind::Aggregate(_)
        | ExprKind::Window(_)
        | ExprKind::Param(_)
        | ExprKind::Query(_)
        | ExprKind::AggregateCall(_)
        | ExprKind::WindowCall(_) => {}
    }
}
