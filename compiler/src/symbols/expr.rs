//! Dims as expressions of symbols: sums of products, with rounded quotients, in one normal form.
//!
//! Two expressions that are written alike are the same number for all values of the symbols. The
//! other direction does not hold for every pair, but does for what windows, strides and scales
//! make of a dim: `ceil(ceil(h / 2) / 2)` and `ceil(h / 4)` have one form, and with `32 * k` for
//! `h` both are `8 * k`. A symbol stands for a whole number that is not negative.

use std::collections::BTreeMap;
use std::fmt;

/// Most terms and atoms, also within quotients; what is larger is not followed.
const SIZE_MAX: usize = 512;

/// Most characters of a name that are said.
const NAME_MAX: usize = 64;

/// Most quotients within quotients.
const DEPTH_MAX: usize = 8;

/// A factor that is not a number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Atom {
    /// A dim of an input, by its name.
    Symbol(String),
    /// The next whole number at or below a quotient; the divisor is above 1.
    Floor(Box<Expr>, i64),
    /// A number of which nothing is known; each has its own.
    Unknown(usize),
}

/// A sum of products of atoms. No factor is 0, and atoms of a product are in order.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Expr(BTreeMap<Vec<Atom>, i64>);

impl Expr {
    /// A number.
    pub(crate) fn number(value: i64) -> Self {
        Self(BTreeMap::from([(Vec::new(), value)]).into_iter().filter(|(_, of)| *of != 0).collect())
    }

    /// A dim; `None` beyond the numbers that are counted with.
    pub(crate) fn of(dim: usize) -> Option<Self> {
        i64::try_from(dim).ok().map(Self::number)
    }

    /// A symbol.
    pub(crate) fn symbol(name: &str) -> Self {
        Self(BTreeMap::from([(vec![Atom::Symbol(name.to_owned())], 1)]))
    }

    /// What nothing is known of; `id` is used once.
    pub(crate) fn unknown(id: usize) -> Self {
        Self(BTreeMap::from([(vec![Atom::Unknown(id)], 1)]))
    }

    /// Its value, if there is nothing but a number.
    #[must_use]
    pub fn as_number(&self) -> Option<i64> {
        match self.0.first_key_value() {
            None => Some(0),
            Some((atoms, value)) if atoms.is_empty() && self.0.len() == 1 => Some(*value),
            Some(_) => None,
        }
    }

    /// Whether something in it is unknown.
    #[must_use]
    pub fn has_unknown(&self) -> bool {
        self.atoms().any(|atom| match atom {
            Atom::Symbol(_) => false,
            Atom::Floor(of, _) => of.has_unknown(),
            Atom::Unknown(_) => true,
        })
    }

    /// Names of its symbols; some may be there twice.
    #[must_use]
    pub fn symbols(&self) -> Vec<&str> {
        fn of(atom: &Atom) -> Vec<&str> {
            match atom {
                Atom::Symbol(name) => vec![name],
                Atom::Floor(of, _) => of.symbols(),
                Atom::Unknown(_) => Vec::new(),
            }
        }
        self.atoms().flat_map(of).collect()
    }

    fn atoms(&self) -> impl Iterator<Item = &Atom> {
        self.0.keys().flatten()
    }

    fn size(&self) -> usize {
        let of = |atom: &Atom| if let Atom::Floor(of, _) = atom { of.size() + 1 } else { 1 };
        self.0.len() + self.atoms().map(of).sum::<usize>()
    }

    fn depth(&self) -> usize {
        let of = |atom: &Atom| if let Atom::Floor(of, _) = atom { of.depth() + 1 } else { 0 };
        self.atoms().map(of).max().unwrap_or(0)
    }

    /// Whether it is at least 0 whatever its symbols are; what nothing is known of counts as a dim.
    pub(crate) fn is_natural(&self) -> bool {
        let atom = |atom: &Atom| match atom {
            Atom::Symbol(_) | Atom::Unknown(_) => true,
            Atom::Floor(of, _) => of.is_natural(),
        };
        self.0.iter().all(|(atoms, factor)| *factor > 0 && atoms.iter().all(atom))
    }

    /// Whether it becomes no smaller when a symbol becomes larger.
    pub(crate) fn grows(&self) -> bool {
        let within = |atom: &Atom| !matches!(atom, Atom::Floor(of, _) if !of.grows());
        let natural = |atom: &Atom| !matches!(atom, Atom::Floor(of, _) if !of.is_natural());
        self.0.iter().all(|(atoms, factor)| {
            atoms.is_empty()
                || *factor > 0
                    && atoms.iter().all(within)
                    && (atoms.len() == 1 || atoms.iter().all(natural))
        })
    }

    /// Whether every term is so many times a whole number.
    pub(crate) fn is_multiple(&self, by: i64) -> bool {
        self.0.values().all(|factor| factor.checked_rem(by) == Some(0))
    }

    /// The sum with `factor` times another one; `None` beyond what is followed.
    pub(crate) fn plus(&self, factor: i64, other: &Self) -> Option<Self> {
        let mut sum = self.0.clone();
        for (atoms, value) in &other.0 {
            let own = sum.entry(atoms.clone()).or_default();
            *own = own.checked_add(value.checked_mul(factor)?)?;
        }
        sum.retain(|_, factor| *factor != 0);
        Some(Self(sum)).filter(|sum| sum.size() <= SIZE_MAX)
    }

    /// The sum with a number.
    pub(crate) fn shifted(&self, by: i64) -> Option<Self> {
        self.plus(1, &Self::number(by))
    }

    /// So many times it.
    pub(crate) fn scaled(&self, factor: i64) -> Option<Self> {
        Self::default().plus(factor, self)
    }

    /// The product.
    pub(crate) fn times(&self, other: &Self) -> Option<Self> {
        let mut product = Self::default();
        for (own, factor) in &self.0 {
            for (atoms, by) in &other.0 {
                let mut all = [&own[..], &atoms[..]].concat();
                all.sort();
                let term = Self(BTreeMap::from([(all, factor.checked_mul(*by)?)]));
                product = product.plus(1, &term)?;
            }
        }
        Some(product)
    }

    /// The product of all.
    pub(crate) fn product<'a>(all: impl IntoIterator<Item = &'a Self>) -> Option<Self> {
        all.into_iter().try_fold(Self::number(1), |product, by| product.times(by))
    }

    /// The next whole number at or below the quotient by a number above 0.
    pub(crate) fn floor(&self, by: i64) -> Option<Self> {
        if by <= 1 {
            return (by == 1).then(|| self.clone());
        }
        // Whole quotients of factors leave; what is left has factors below the divisor.
        let (mut whole, mut rest) = (Self::default(), Self::default());
        for (atoms, factor) in &self.0 {
            for (to, factor) in
                [(&mut whole, factor.div_euclid(by)), (&mut rest, factor.rem_euclid(by))]
            {
                if factor != 0 {
                    to.0.insert(atoms.clone(), factor);
                }
            }
        }
        let constant = rest.0.remove(&Vec::new()).unwrap_or(0);
        if rest.0.is_empty() {
            return Some(whole);
        }
        // (g x + c) / (g k) is (x + c / g) / k, rounded down, for whole x.
        let common = rest.0.values().fold(by, |common, factor| gcd(common, *factor));
        rest.0.values_mut().for_each(|factor| *factor /= common);
        let (by, constant) = (by / common, constant / common);
        if by == 1 {
            return whole.plus(1, &rest)?.shifted(constant);
        }
        // (x / a + c) / k is (x + c a) / (a k), both rounded down.
        if let Some((atoms, 1)) = rest.0.first_key_value()
            && let (1, [Atom::Floor(of, inner)]) = (rest.0.len(), &atoms[..])
        {
            let all = of.shifted(constant.checked_mul(*inner)?)?;
            return all.floor(inner.checked_mul(by)?)?.plus(1, &whole);
        }
        let within = rest.shifted(constant)?;
        if within.depth() >= DEPTH_MAX {
            return None;
        }
        whole.plus(1, &Self(BTreeMap::from([(vec![Atom::Floor(Box::new(within), by)], 1)])))
    }

    /// The next whole number at or above the quotient.
    pub(crate) fn ceil(&self, by: i64) -> Option<Self> {
        self.shifted(by.checked_sub(1)?)?.floor(by)
    }

    /// The quotient by one product of atoms, where nothing is left of any term.
    pub(crate) fn exactly(&self, by: &Self) -> Option<Self> {
        let (divisor, factor) = by.0.first_key_value().filter(|_| by.0.len() == 1)?;
        let mut quotient = Self::default();
        for (atoms, own) in &self.0 {
            let mut left = atoms.clone();
            for atom in divisor {
                let at = left.iter().position(|own| own == atom)?;
                left.remove(at);
            }
            let whole = own.checked_rem(*factor)? == 0;
            quotient.0.insert(left, own.checked_div(*factor).filter(|_| whole)?);
        }
        Some(quotient)
    }

    /// The value with numbers for symbols; `None` if one is missing, or beyond 64 bits.
    #[must_use]
    pub fn value(&self, of: &dyn Fn(&str) -> Option<i64>) -> Option<i64> {
        let value = self.with(&|name| of(name).map(Self::number))?;
        value.as_number()
    }

    /// With other expressions for some symbols.
    pub(crate) fn with(&self, of: &dyn Fn(&str) -> Option<Self>) -> Option<Self> {
        let mut sum = Self::default();
        for (atoms, factor) in &self.0 {
            let mut product = Self::number(*factor);
            for atom in atoms {
                let own = match atom {
                    Atom::Symbol(name) => of(name).unwrap_or_else(|| Self::symbol(name)),
                    Atom::Floor(within, by) => within.with(of)?.floor(*by)?,
                    Atom::Unknown(id) => Self::unknown(*id),
                };
                product = product.times(&own)?;
            }
            sum = sum.plus(1, &product)?;
        }
        Some(sum)
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl fmt::Display for Atom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol(name) => match name.char_indices().nth(NAME_MAX) {
                None => f.write_str(name),
                Some((end, _)) => write!(f, "{}…", &name[..end]),
            },
            Self::Floor(of, by) if of.0.len() == 1 => write!(f, "floor({of} / {by})"),
            Self::Floor(of, by) => write!(f, "floor(({of}) / {by})"),
            Self::Unknown(_) => f.write_str("?"),
        }
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Products first, the number last.
        let terms = self.0.iter().filter(|(atoms, _)| !atoms.is_empty());
        let number = self.0.get_key_value(&[][..]);
        for (index, (atoms, factor)) in terms.chain(number).enumerate() {
            match (index, factor.is_negative()) {
                (0, false) => {}
                (0, true) => f.write_str("-")?,
                (_, false) => f.write_str(" + ")?,
                (_, true) => f.write_str(" - ")?,
            }
            let factor = factor.unsigned_abs();
            if factor != 1 || atoms.is_empty() {
                write!(f, "{factor}")?;
            }
            for (index, atom) in atoms.iter().enumerate() {
                let by = if index > 0 || factor != 1 { " * " } else { "" };
                write!(f, "{by}{atom}")?;
            }
        }
        if self.0.is_empty() { f.write_str("0") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn h() -> Expr {
        Expr::symbol("h")
    }

    #[test]
    fn halves_of_halves_are_quarters() {
        let quarter = h().ceil(2).unwrap().ceil(2).unwrap();
        assert_eq!(quarter, h().ceil(4).unwrap());
        assert_eq!(quarter.to_string(), "floor((h + 3) / 4)");
        let multiple = h().scaled(32);
        assert_eq!(quarter.with(&|_| multiple.clone()), h().scaled(8));
        let odd = h().scaled(3).unwrap().shifted(1).unwrap().floor(2).unwrap();
        assert_eq!(odd.to_string(), "h + floor((h + 1) / 2)");
        let even = h().scaled(2).unwrap().shifted(3).unwrap().floor(4).unwrap();
        assert_eq!(even.to_string(), "floor((h + 1) / 2)");
    }

    #[test]
    fn quotients_without_a_rest() {
        let all = Expr::product([&h(), &Expr::symbol("w"), &Expr::number(12)]).unwrap();
        assert_eq!(all.to_string(), "12 * h * w");
        let part = Expr::product([&h(), &Expr::number(4)]).unwrap();
        assert_eq!(all.exactly(&part).unwrap().to_string(), "3 * w");
        assert_eq!(all.exactly(&Expr::number(5)), None);
        assert_eq!(part.exactly(&Expr::symbol("w")), None);
        assert_eq!(Expr::number(0).exactly(&Expr::number(0)), None);
        assert_eq!(h().exactly(&Expr::number(0)), None);
    }

    #[test]
    fn what_is_too_large_is_not_followed() {
        assert_eq!(Expr::number(i64::MAX).shifted(1), None);
        assert_eq!(Expr::number(i64::MIN).scaled(-1), None);
        assert_eq!(h().scaled(i64::MAX).and_then(|large| large.times(&large)), None);
        let mut deep = h();
        let grow = |own: &Expr| own.shifted(1)?.times(&own.floor(3)?)?.shifted(1)?.floor(2);
        let more = (0..100).find(|_| match grow(&deep) {
            Some(more) => {
                deep = more;
                false
            }
            None => true,
        });
        assert!(more.is_some());
        let square = |own: &Expr| own.times(own);
        let last = std::iter::successors(Some(h()), square).last().unwrap();
        assert_eq!(last.value(&|_| Some(1)), Some(1));
        let sums = |own: &Expr| own.shifted(1)?.times(&own.floor(7)?.shifted(2)?);
        let last = std::iter::successors(Some(h()), sums).last().unwrap();
        assert!(last.size() > SIZE_MAX / 20 && last.size() <= SIZE_MAX);
        assert_eq!(h().floor(0), None);
        assert_eq!(h().floor(-2), None);
    }

    /// Steps of a stack machine on expressions and, beside it, on numbers.
    #[derive(Clone, Debug)]
    enum Step {
        Symbol(usize),
        Number(i64),
        Plus(i64),
        Times,
        Floor(i64),
        Ceil(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0usize..2).prop_map(Step::Symbol),
            (-9i64..10).prop_map(Step::Number),
            (-3i64..4).prop_map(Step::Plus),
            Just(Step::Times),
            (1i64..9).prop_map(Step::Floor),
            (1i64..9).prop_map(Step::Ceil),
        ]
    }

    const NAMES: [&str; 2] = ["a", "b"];

    fn apply(stack: &mut Vec<(Expr, i64)>, step: &Step, values: [i64; 2]) -> Option<()> {
        let made = match step {
            Step::Symbol(index) => (Expr::symbol(NAMES[*index]), values[*index]),
            Step::Number(value) => (Expr::number(*value), *value),
            Step::Floor(by) => {
                let (expr, value) = stack.pop()?;
                (expr.floor(*by)?, value.div_euclid(*by))
            }
            Step::Ceil(by) => {
                let (expr, value) = stack.pop()?;
                (expr.ceil(*by)?, -(-value).div_euclid(*by))
            }
            Step::Plus(_) | Step::Times => {
                let ((a, x), (b, y)) = (stack.pop()?, stack.pop()?);
                match step {
                    Step::Plus(factor) => (a.plus(*factor, &b)?, x + factor * y),
                    _ => (a.times(&b)?, x.checked_mul(y)?),
                }
            }
        };
        stack.push(made);
        Some(())
    }

    proptest! {
        #[test]
        fn the_value_is_that_of_the_numbers(
            steps in proptest::collection::vec(step(), 1..24),
            a in 0i64..200,
            b in 0i64..200,
        ) {
            let mut stack = Vec::new();
            for step in &steps {
                let _ = apply(&mut stack, step, [a, b]);
            }
            let of = |name: &str| Some(if name == "a" { a } else { b });
            for (expr, value) in &stack {
                if let Some(found) = expr.value(&of) {
                    prop_assert_eq!(found, *value, "{}", expr);
                } else {
                    prop_assert!(value.unsigned_abs() > 1 << 40, "{} has no value", expr);
                }
                if expr.is_natural() {
                    prop_assert!(*value >= 0, "{}", expr);
                }
                // The normal form is found again, however it is reached.
                prop_assert_eq!(&expr.with(&|_| None).unwrap(), expr);
            }
        }
    }
}
