//! The text of an equation as numbers: `bij, bjk -> bik`, `...ii -> ...i`, `i,i`.

use super::steps::List;
use crate::shape::RANK_MAX;

/// Letters of the alphabet, capital and small; the dims of an ellipsis come behind them.
const ALPHABET: usize = 52;

fn number(letter: char) -> Option<usize> {
    // In the order of ASCII.
    let place = |first: char| usize::try_from(u32::from(letter) - u32::from(first)).ok();
    match letter {
        'A'..='Z' => place('A'),
        'a'..='z' => Some(26 + place('a')?),
        _ => None,
    }
}

/// One term: its letters in front of an ellipsis, whether there is one, and those behind it.
struct Term {
    front: Vec<usize>,
    ellipsis: bool,
    behind: Vec<usize>,
}

impl Term {
    fn parse(text: &str) -> Result<Self, String> {
        let text: String = text.chars().filter(|letter| *letter != ' ').collect();
        let (front, behind) = match text.split_once("...") {
            Some((front, behind)) => (front, Some(behind)),
            None => (text.as_str(), None),
        };
        let letters = |part: &str| -> Result<Vec<usize>, String> {
            let own = part.chars().map(|letter| {
                number(letter).ok_or_else(|| {
                    format!("terms of letters with one ellipsis at most, without `{letter}`")
                })
            });
            own.collect()
        };
        let ellipsis = behind.is_some();
        Ok(Self { front: letters(front)?, ellipsis, behind: letters(behind.unwrap_or(""))? })
    }

    fn letters(&self) -> impl Iterator<Item = usize> {
        self.front.iter().chain(&self.behind).copied()
    }

    /// All its letters, where an ellipsis stands for the last ones of so many dims.
    fn whole(&self, count: usize) -> Vec<usize> {
        let (first, end) = (ALPHABET + RANK_MAX - count, ALPHABET + RANK_MAX);
        let own = if self.ellipsis { first..end } else { end..end };
        self.front.iter().copied().chain(own).chain(self.behind.iter().copied()).collect()
    }
}

/// The letters of each operand's dims, and behind them those of the result.
pub(super) fn parse(text: &str, ranks: &[usize]) -> Result<Vec<List>, String> {
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text, None),
    };
    let operands: Vec<Term> = left.split(',').map(Term::parse).collect::<Result<_, _>>()?;
    if operands.len() != ranks.len() {
        return Err(format!("{} term(s), one for each input", ranks.len()));
    }
    let (mut terms, mut most) = (Vec::new(), 0);
    for (index, (term, rank)) in operands.iter().zip(ranks).enumerate() {
        let refuse = || format!("a letter for each of {rank} dim(s) of input {index}");
        let rest = rank.checked_sub(term.letters().count());
        let rest = rest.filter(|rest| term.ellipsis || *rest == 0).ok_or_else(refuse)?;
        terms.push(term.whole(rest));
        most = most.max(rest);
    }
    let count = |letter: usize| terms.iter().flatten().filter(|own| **own == letter).count();
    let result = match right {
        Some(right) => Term::parse(right)?,
        None => Term {
            front: Vec::new(),
            ellipsis: true,
            behind: (0..ALPHABET).filter(|letter| count(*letter) == 1).collect(),
        },
    };
    let whole = result.whole(most);
    for (place, letter) in whole.iter().enumerate() {
        if count(*letter) == 0 || whole[..place].contains(letter) {
            return Err("a result of letters that inputs have, each once".to_owned());
        }
    }
    terms.push(whole);
    let lists = terms.into_iter().map(|term| List::new(term.into_iter()));
    lists.collect::<Option<Vec<List>>>().ok_or_else(|| format!("up to {RANK_MAX} dims"))
}
