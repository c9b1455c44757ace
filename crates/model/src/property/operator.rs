//! Operators of property filters.

use super::FilterError;

macro_rules! operators {
    ($($name:ident = $word:literal),+ $(,)?) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Operator { $($name),+ }

        impl Operator {
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word),+ }
            }
        }
    };
}

operators! {
    Exact = "exact", IsNot = "is_not",
    IContains = "icontains", NotIContains = "not_icontains",
    IContainsMulti = "icontains_multi", NotIContainsMulti = "not_icontains_multi",
    StartsWith = "starts_with", NotStartsWith = "not_starts_with",
    EndsWith = "ends_with", NotEndsWith = "not_ends_with",
    Regex = "regex", NotRegex = "not_regex",
    Gt = "gt", Gte = "gte", Lt = "lt", Lte = "lte",
    Between = "between", NotBetween = "not_between",
    IsSet = "is_set", IsNotSet = "is_not_set",
    IsDateBefore = "is_date_before", IsDateAfter = "is_date_after", IsDateExact = "is_date_exact",
    SemverEq = "semver_eq", SemverNeq = "semver_neq", SemverGt = "semver_gt",
    SemverGte = "semver_gte", SemverLt = "semver_lt", SemverLte = "semver_lte",
    SemverTilde = "semver_tilde", SemverCaret = "semver_caret", SemverWildcard = "semver_wildcard",
    In = "in", NotIn = "not_in",
    FlagEvaluatesTo = "flag_evaluates_to",
}

impl Operator {
    /// Accepts the legacy names `min` and `max`, too.
    pub fn parse(word: &str) -> Result<Self, FilterError> {
        let known = match word {
            "min" => Some(Self::Gte),
            "max" => Some(Self::Lte),
            _ => Self::ALL.iter().copied().find(|operator| operator.as_str() == word),
        };
        known.ok_or_else(|| FilterError::UnknownOperator(word.to_owned()))
    }

    /// Matches a missing property. `semver_neq` does not: a missing version is not a version.
    pub(super) const fn is_negative(self) -> bool {
        matches!(
            self,
            Self::IsNot
                | Self::NotIContains
                | Self::NotIContainsMulti
                | Self::NotStartsWith
                | Self::NotEndsWith
                | Self::NotRegex
                | Self::NotBetween
                | Self::IsNotSet
        )
    }
}
