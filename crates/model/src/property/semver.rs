//! Semantic versions, parsed leniently: `v` prefix, missing minor or patch, leading zeros.

use std::cmp::Ordering;

use super::Operator;

/// A version with a pre-release sorts before the same version without one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// Major, minor and patch.
    pub numbers: [u64; 3],
    /// The identifiers of the pre-release.
    pub pre: Vec<Identifier>,
}

/// Numeric identifiers sort before alphanumeric ones.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Identifier {
    Number(u64),
    Word(String),
}

/// The versions that a filter matches.
#[derive(Clone, Debug, PartialEq)]
pub enum Range {
    Compared(Operator, Version),
    /// From the first (inclusive) to the second (exclusive).
    Within(Version, Version),
}

impl Version {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split_once('+').map_or(text, |(version, _build)| version);
        let (numbers, pre) = match text.split_once('-') {
            Some((numbers, pre)) => (numbers, identifiers(pre)?),
            None => (text, Vec::new()),
        };
        let mut parts = numbers.split('.');
        let mut part = |missing| parts.next().map_or(Some(missing), digits);
        let numbers = [part(0).filter(|_| !numbers.is_empty())?, part(0)?, part(0)?];
        parts.next().is_none().then_some(Self { numbers, pre })
    }

    const fn plain(numbers: [u64; 3]) -> Self {
        Self { numbers, pre: Vec::new() }
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let pre = || match (self.pre.is_empty(), other.pre.is_empty()) {
            (true, false) => Ordering::Greater,
            (false, true) => Ordering::Less,
            _ => self.pre.cmp(&other.pre),
        };
        self.numbers.cmp(&other.numbers).then_with(pre)
    }
}

fn digits(text: &str) -> Option<u64> {
    let all = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    all.then(|| text.parse().ok())?
}

fn identifiers(text: &str) -> Option<Vec<Identifier>> {
    let valid = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    text.split('.')
        .map(|part| {
            let part = Some(part).filter(valid)?;
            Some(digits(part).map_or_else(|| Identifier::Word(part.to_owned()), Identifier::Number))
        })
        .collect()
}

impl Range {
    /// `None` if the operator is not a semver one, or the text is not a version.
    pub fn parse(operator: Operator, text: &str) -> Option<Self> {
        use Operator as O;
        match operator {
            O::SemverEq
            | O::SemverNeq
            | O::SemverGt
            | O::SemverGte
            | O::SemverLt
            | O::SemverLte => Some(Self::Compared(operator, Version::parse(text)?)),
            O::SemverTilde => {
                let low = Version::parse(text)?;
                let [major, minor, _] = low.numbers;
                Some(Self::Within(low, Version::plain([major, minor.checked_add(1)?, 0])))
            }
            O::SemverCaret => {
                let low = Version::parse(text)?;
                let high = match low.numbers {
                    [0, 0, patch] => [0, 0, patch.checked_add(1)?],
                    [0, minor, _] => [0, minor.checked_add(1)?, 0],
                    [major, ..] => [major.checked_add(1)?, 0, 0],
                };
                Some(Self::Within(low, Version::plain(high)))
            }
            O::SemverWildcard => Self::wildcard(text),
            _ => None,
        }
    }

    /// `1.*` and `1.2.*`.
    fn wildcard(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text).strip_suffix(".*")?;
        let mut parts = text.split('.');
        let major = parts.next().and_then(digits)?;
        let (low, high) = match parts.next() {
            None => ([major, 0, 0], [major.checked_add(1)?, 0, 0]),
            Some(minor) => {
                let minor = digits(minor)?;
                ([major, minor, 0], [major, minor.checked_add(1)?, 0])
            }
        };
        let complete = parts.next().is_none();
        complete.then(|| Self::Within(Version::plain(low), Version::plain(high)))
    }

    /// `None` if the text is not a version.
    pub fn contains(&self, text: &str) -> Option<bool> {
        let version = Version::parse(text)?;
        Some(match self {
            Self::Within(low, high) => *low <= version && version < *high,
            Self::Compared(operator, bound) => {
                let order = version.cmp(bound);
                match operator {
                    Operator::SemverEq => order.is_eq(),
                    Operator::SemverNeq => order.is_ne(),
                    Operator::SemverGt => order.is_gt(),
                    Operator::SemverGte => order.is_ge(),
                    Operator::SemverLt => order.is_lt(),
                    _ => order.is_le(),
                }
            }
        })
    }
}
