//! Suggestions for misspelled names ("Did you mean …?").

/// Longer names are not compared: the cost is the product of both lengths.
const NAME_CHARS_MAX: usize = 64;

/// The known name with the smallest edit distance, if that is small for its length.
pub(super) fn suggest<'n>(name: &str, known: impl IntoIterator<Item = &'n str>) -> Option<String> {
    let lower = name.to_lowercase();
    let chars = lower.chars().count();
    if chars > NAME_CHARS_MAX {
        return None;
    }
    let close_enough = (chars / 3).min(3);
    known
        .into_iter()
        .filter(|other| other.len() <= NAME_CHARS_MAX && *other != name)
        .map(|other| (differences(&lower, &other.to_lowercase()), other))
        .filter(|(differences, _)| *differences <= close_enough)
        .min_by_key(|(differences, _)| *differences)
        .map(|(_, other)| other.to_owned())
}

/// Damerau-Levenshtein distance: insertions, deletions, substitutions and transpositions.
fn differences(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let changed = usize::from(a[i - 1] != b[j - 1]);
            let mut best =
                (rows[i - 1][j] + 1).min(row[j - 1] + 1).min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}
