//! The JSON of all properties of a row, which is stored by property.

use crate::client::{Parameter, Parameters};

/// The JSON of an encoded value `x.2`.
const VALUE: &str = "multiIf(x.2 = 'z', 'null', startsWith(x.2, 't'), \
     toJSONString(substring(x.2, 2)), substring(x.2, 2))";

fn object(pairs: &str) -> String {
    format!(
        "concat('{{', arrayStringConcat(arrayMap(x -> concat(toJSONString(x.1), ':', {VALUE}), \
         arraySort(arrayFilter(x -> x.2 != '', {pairs}))), ','), '}}')"
    )
}

fn pairs_of(map: &str) -> String {
    format!("arrayZip(arrayMap(k -> toString(k), mapKeys({map})), mapValues({map}))")
}

/// Of a column that holds a map of encoded values.
pub(super) fn of_map(map: &str) -> String {
    object(&pairs_of(map))
}

/// Of an event: the properties with a column, and the rest. What was stored before a property got its
/// column is in both.
pub(super) fn of_event(columns: &[(&str, String)], parameters: &mut Parameters) -> String {
    if columns.is_empty() {
        return of_map("e.rest");
    }
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    let names = parameters.add(Parameter::Strings(&names));
    let values: Vec<String> = columns.iter().map(|(_, column)| format!("e.{column}")).collect();
    let rest = pairs_of("e.rest");
    object(&format!(
        "arrayConcat(arrayZip({names}, [{}]), arrayFilter(x -> NOT has({names}, x.1), {rest}))",
        values.join(", ")
    ))
}
