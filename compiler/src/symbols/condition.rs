//! What has to hold so that shapes in symbols are those of a run, and for which dims it does.

use std::collections::BTreeSet;
use std::fmt;

use super::expr::Expr;

/// Largest number that dims are tried as multiples of.
const MULTIPLE_MAX: i64 = 64;

/// Most conditions that are looked at together, and most that are said.
const CONDITIONS_MAX: usize = 256;
const SAID_MAX: usize = 8;

/// Largest dim that is looked for as a least one.
const LEAST_MAX: i64 = 1 << 20;

/// What a node asks of dims.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Condition {
    /// Both are the same number.
    Equal(Expr, Expr),
    /// It is at least so much.
    Least(Expr, i64),
    /// It is so many times a whole number.
    Multiple(Expr, i64),
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equal(a, b) => write!(f, "{a} = {b}"),
            Self::Least(of, least) => write!(f, "{of} is at least {least}"),
            Self::Multiple(of, by) => write!(f, "{of} is a multiple of {by}"),
        }
    }
}

impl Condition {
    fn of(&self) -> Vec<&Expr> {
        match self {
            Self::Equal(a, b) => vec![a, b],
            Self::Least(of, _) | Self::Multiple(of, _) => vec![of],
        }
    }

    /// Names of what it depends on.
    pub(crate) fn symbols(&self) -> BTreeSet<&str> {
        self.of().into_iter().flat_map(Expr::symbols).collect()
    }

    pub(crate) fn has_unknown(&self) -> bool {
        self.of().into_iter().any(Expr::has_unknown)
    }

    /// Whether it holds for dims; `None` where that can't be said.
    pub(crate) fn holds(&self, of: &dyn Fn(&str) -> Option<i64>) -> Option<bool> {
        Some(match self {
            Self::Equal(a, b) => a.value(of)? == b.value(of)?,
            Self::Least(own, least) => own.value(of)? >= *least,
            Self::Multiple(own, by) => own.value(of)?.checked_rem(*by)? == 0,
        })
    }

    /// Whether it holds for every number of `1, 2, …` in the place of each symbol, times what
    /// `scale` says of the symbol.
    fn always(&self, scale: &dyn Fn(&str) -> i64) -> bool {
        let scaled = |own: &Expr| own.with(&|name| Expr::symbol(name).scaled(scale(name)));
        match self {
            Self::Equal(a, b) => scaled(a).zip(scaled(b)).is_some_and(|(a, b)| a == b),
            // What grows with each symbol is least where each is.
            Self::Least(own, least) => {
                own.grows()
                    && own.value(&|name| Some(scale(name))).is_some_and(|value| value >= *least)
            }
            Self::Multiple(own, by) => scaled(own).is_some_and(|own| own.is_multiple(*by)),
        }
    }
}

/// Which dims fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fits {
    /// A symbol, the number that it is a multiple of, and the least one that fits; none that may be
    /// anything above 0.
    pub dims: Vec<(String, i64, i64)>,
    /// What is left to be said.
    pub others: Vec<Condition>,
}

impl fmt::Display for Fits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims = self.dims.iter().map(|(name, multiple, least)| match (multiple, least) {
            (1, least) => format!("`{name}` is at least {least}"),
            (by, least) if least <= by => format!("`{name}` is a multiple of {by}"),
            (by, least) => format!("`{name}` is a multiple of {by}, at least {least}"),
        });
        let all: Vec<String> = dims.chain(self.others.iter().map(Condition::to_string)).collect();
        f.write_str(&all[..all.len().min(SAID_MAX)].join("; "))?;
        match all.len().saturating_sub(SAID_MAX) {
            0 => Ok(()),
            more => write!(f, "; and {more} conditions more"),
        }
    }
}

/// For which dims all conditions hold; those multiples are sufficient, not always necessary.
pub(crate) fn fits(conditions: &[Condition]) -> Fits {
    if conditions.len() > CONDITIONS_MAX {
        return Fits { dims: Vec::new(), others: conditions.to_vec() };
    }
    let names: BTreeSet<&str> = conditions.iter().flat_map(Condition::symbols).collect();
    let others = |scale: &dyn Fn(&str) -> i64| -> Vec<Condition> {
        let left = conditions.iter().filter(|own| !own.always(scale));
        left.filter(|own| !matches!(own, Condition::Least(..))).cloned().collect()
    };
    // One number for all symbols, then as small a part of it as does for each.
    let count = |multiple| others(&|_| multiple).len();
    let best = (1..=MULTIPLE_MAX).min_by_key(|multiple| count(*multiple)).unwrap_or(1);
    let mut multiples: Vec<(&str, i64)> = names.iter().map(|name| (*name, best)).collect();
    let left = count(best);
    for at in 0..multiples.len() {
        let parts = (1..=best).filter(|part| best % part == 0);
        let fewer = parts.into_iter().find(|part| {
            let mut tried = multiples.clone();
            tried[at].1 = *part;
            others(&|name| factor(&tried, name)).len() <= left
        });
        multiples[at].1 = fewer.unwrap_or(best);
    }
    let scale = |name: &str| factor(&multiples, name);
    let mut own = Fits { dims: Vec::new(), others: others(&scale) };
    for (name, multiple) in &multiples {
        let single = conditions.iter().filter(|own| own.symbols() == BTreeSet::from([*name]));
        let short: Vec<&Condition> = single.filter(|own| !own.always(&scale)).collect();
        let short = short.into_iter().filter(|own| matches!(own, Condition::Least(..)));
        let least = short.filter_map(|own| least(own, name, *multiple)).max();
        let least = least.unwrap_or(*multiple);
        if (*multiple, least) != (1, 1) {
            own.dims.push(((*name).to_owned(), *multiple, least));
        }
    }
    let found: BTreeSet<&str> = own.dims.iter().map(|(name, _, _)| name.as_str()).collect();
    let open = |own: &&Condition| {
        let symbols = own.symbols();
        let told = symbols.len() == 1 && symbols.is_subset(&found);
        matches!(own, Condition::Least(..)) && !own.always(&scale) && !told
    };
    own.others.extend(conditions.iter().filter(open).cloned());
    own
}

fn factor(multiples: &[(&str, i64)], name: &str) -> i64 {
    multiples.iter().find(|(own, _)| *own == name).map_or(1, |(_, multiple)| *multiple)
}

/// The least multiple that a condition on one growing dim holds for.
fn least(condition: &Condition, name: &str, multiple: i64) -> Option<i64> {
    let Condition::Least(of, _) = condition else { return None };
    let holds = |value: i64| condition.holds(&|own| (own == name).then_some(value)) == Some(true);
    if !of.grows() || !holds(LEAST_MAX / multiple * multiple) {
        return None;
    }
    let (mut below, mut above) = (0, LEAST_MAX / multiple);
    while above - below > 1 {
        let middle = below.midpoint(above);
        if holds(middle * multiple) { above = middle } else { below = middle }
    }
    Some(above * multiple)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const NAMES: [&str; 2] = ["h", "w"];

    fn one() -> impl Strategy<Value = Condition> {
        (0usize..2, 1i64..13, -9i64..10, 0usize..4).prop_map(|(name, by, shift, kind)| {
            let own = Expr::symbol(NAMES[name]);
            let rounded = own.ceil(by).unwrap();
            match kind {
                0 => Condition::Equal(rounded.scaled(by).unwrap(), own),
                1 => Condition::Least(rounded.shifted(-shift).unwrap(), 1),
                2 => Condition::Multiple(own, by),
                _ => Condition::Least(own.plus(1, &Expr::symbol("w")).unwrap(), shift),
            }
        })
    }

    proptest! {
        /// Dims that are said to fit do, where nothing else is said.
        #[test]
        fn what_fits_fulfils_all(
            conditions in proptest::collection::vec(one(), 1..6),
            (h, w) in (1i64..40, 1i64..40),
        ) {
            let fits = fits(&conditions);
            let of = |name: &str| {
                let value = if name == "h" { h } else { w };
                let own = fits.dims.iter().find(|(own, _, _)| own == name);
                Some(own.map_or(value, |(_, by, least)| least - by + value * by))
            };
            let others = fits.others.iter().all(|own| own.holds(&of) == Some(true));
            for condition in conditions.iter().filter(|_| others) {
                prop_assert_eq!(condition.holds(&of), Some(true), "{} {}", condition, fits);
            }
        }
    }

    #[test]
    fn the_least_multiple_is_found() {
        let h = || Expr::symbol("h");
        let fourth = h().ceil(4).unwrap().scaled(4).unwrap();
        let all = [
            Condition::Equal(fourth, h()),
            Condition::Least(h(), 10),
            Condition::Equal(Expr::symbol("w"), Expr::number(3)),
        ];
        assert_eq!(fits(&all).to_string(), "`h` is a multiple of 4, at least 12; w = 3");
        let many: Vec<_> = (0..300).map(|own| Condition::Least(h(), own)).collect();
        assert!(fits(&many).to_string().ends_with("; h is at least 7; and 292 conditions more"));
    }
}
