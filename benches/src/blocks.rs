//! Interleaved blocks: side A, side B, …, then A, B, … again, and the samples they gave.
//!
//! Before the first block each side is calibrated: its rounds are doubled until one block lasts
//! long enough to be timed, then scaled so that a block lasts about [`Plan::block_ms`]. All blocks
//! of a side have the same number of rounds.

use std::time::{Duration, Instant};

use crate::Failure;
use crate::stats::{Summary, paired_ratios, summarise};

/// Fewest blocks a comparison may rest on (docs/perf.md).
pub const BLOCKS_MIN: usize = 15;

/// One side of a comparison; it is set up when it is made and idle between blocks.
pub trait Side {
    /// Short name, the key of its samples.
    fn name(&self) -> &str;

    /// Runs `rounds` rounds after a warm-up of its own; nanoseconds per unit (hop, pair, …).
    ///
    /// # Errors
    /// A peer process died, a rival answered nonsense, a message was lost.
    fn block(&mut self, rounds: u64) -> Result<f64, Failure>;
}

/// How much to measure.
#[derive(Debug, Clone, Copy)]
pub struct Plan {
    /// Blocks of each side; at least [`BLOCKS_MIN`].
    pub blocks: usize,
    /// Wanted length of one block of one side.
    pub block_ms: u64,
    /// After this long no further blocks are begun, once there are [`BLOCKS_MIN`]. A quiet machine
    /// is done long before.
    pub budget_ms: u64,
}

/// Samples of all sides, one per block.
#[derive(Debug)]
pub struct Table {
    sides: Vec<(String, Vec<f64>)>,
}

impl Table {
    /// The samples of a side, by block.
    ///
    /// # Errors
    /// No side of that name was measured.
    pub fn samples(&self, side: &str) -> Result<&[f64], Failure> {
        let found = self.sides.iter().find(|(name, _)| name == side);
        found
            .map(|(_, samples)| samples.as_slice())
            .ok_or_else(|| format!("no side named {side:?} was measured").into())
    }

    /// Whether a side of that name was measured.
    #[must_use]
    pub fn has(&self, side: &str) -> bool {
        self.sides.iter().any(|(name, _)| name == side)
    }

    /// Summary of a side's samples.
    ///
    /// # Errors
    /// As [`Table::samples`]; or a sample is not a number.
    pub fn summary(&self, side: &str) -> Result<Summary, Failure> {
        summarise(self.samples(side)?)
            .ok_or_else(|| format!("side {side:?} gave no usable sample").into())
    }

    /// Summary of the paired ratios `a / b`.
    ///
    /// # Errors
    /// As [`Table::samples`]; or a ratio is not a number.
    pub fn ratio(&self, a: &str, b: &str) -> Result<Summary, Failure> {
        summarise(&paired_ratios(self.samples(a)?, self.samples(b)?))
            .ok_or_else(|| format!("{a:?} over {b:?} gave no usable ratio").into())
    }
}

/// Measures all sides in turn, `plan.blocks` times.
///
/// # Errors
/// The plan has too few blocks, or a side failed (its name is in the text).
pub fn interleave(plan: Plan, sides: &mut [Box<dyn Side>]) -> Result<Table, Failure> {
    if plan.blocks < BLOCKS_MIN {
        return Err(format!("{} blocks planned, at least {BLOCKS_MIN} needed", plan.blocks).into());
    }
    let mut rounds = Vec::with_capacity(sides.len());
    for side in sides.iter_mut() {
        rounds.push(calibrate(side.as_mut(), Duration::from_millis(plan.block_ms))?);
    }
    let mut table: Vec<(String, Vec<f64>)> =
        sides.iter().map(|side| (side.name().to_owned(), Vec::new())).collect();
    let started = Instant::now();
    for block in 0..plan.blocks {
        let spent = started.elapsed() > Duration::from_millis(plan.budget_ms);
        if spent && block >= BLOCKS_MIN {
            break;
        }
        for (side, (rounds, (_, samples))) in
            sides.iter_mut().zip(rounds.iter().zip(table.iter_mut()))
        {
            samples.push(run(side.as_mut(), *rounds)?);
        }
    }
    Ok(Table { sides: table })
}

fn run(side: &mut dyn Side, rounds: u64) -> Result<f64, Failure> {
    let sample = side
        .block(rounds)
        .map_err(|error| format!("side {:?}, block of {rounds}: {error}", side.name()))?;
    if sample.is_finite() && sample > 0.0 {
        Ok(sample)
    } else {
        Err(format!("side {:?} measured {sample} ns, which is no time", side.name()).into())
    }
}

/// Rounds for which a block of `side` lasts about `wanted`.
fn calibrate(side: &mut dyn Side, wanted: Duration) -> Result<u64, Failure> {
    let mut rounds = 1u64;
    loop {
        let spent = fastest_of_three(side, rounds)?;
        if spent * 4 >= wanted {
            let scale = wanted.as_nanos().max(1) * u128::from(rounds) / spent.as_nanos().max(1);
            return Ok(u64::try_from(scale)?.max(1));
        }
        rounds = rounds.saturating_mul(2);
    }
}

/// One disturbed block must not make all blocks of a side too short.
fn fastest_of_three(side: &mut dyn Side, rounds: u64) -> Result<Duration, Failure> {
    let mut fastest = Duration::MAX;
    for _ in 0..3 {
        let started = Instant::now();
        run(side, rounds)?;
        fastest = fastest.min(started.elapsed());
    }
    Ok(fastest)
}

#[cfg(test)]
mod tests {
    use super::{BLOCKS_MIN, Failure, Plan, Side, interleave};
    use std::cell::RefCell;
    use std::rc::Rc;
    use std::time::{Duration, Instant};

    struct Fake {
        name: &'static str,
        ns: f64,
        log: Log,
    }

    impl Side for Fake {
        fn name(&self) -> &str {
            self.name
        }

        fn block(&mut self, rounds: u64) -> Result<f64, Failure> {
            let started = Instant::now();
            while started.elapsed() < Duration::from_micros(rounds) {}
            self.log.borrow_mut().push(self.name);
            Ok(self.ns)
        }
    }

    type Log = Rc<RefCell<Vec<&'static str>>>;

    fn sides(ns: [f64; 2]) -> (Log, Vec<Box<dyn Side>>) {
        let log = Rc::new(RefCell::new(Vec::new()));
        let make = |name, ns| Box::new(Fake { name, ns, log: log.clone() }) as Box<dyn Side>;
        let both = vec![make("a", ns[0]), make("b", ns[1])];
        (log, both)
    }

    #[test]
    fn blocks_alternate_and_ratios_are_paired() {
        let (log, mut sides) = sides([6.0, 3.0]);
        let plan = Plan { blocks: BLOCKS_MIN, block_ms: 1, budget_ms: 1000 };
        let table = interleave(plan, &mut sides).unwrap();
        let log = log.borrow();
        let measured = &log[log.len() - 2 * BLOCKS_MIN..];
        assert!(measured.chunks(2).all(|pair| pair == ["a", "b"]));
        assert_eq!(table.samples("a").unwrap().len(), BLOCKS_MIN);
        assert_eq!(table.ratio("a", "b").unwrap().median, 2.0);
        assert!(table.samples("c").is_err() && !table.has("c"));
    }

    #[test]
    fn a_spent_budget_leaves_the_fewest_blocks() {
        let (_, mut sides) = sides([6.0, 3.0]);
        let plan = Plan { blocks: 2 * BLOCKS_MIN, block_ms: 1, budget_ms: 0 };
        let table = interleave(plan, &mut sides).unwrap();
        assert_eq!(table.samples("b").unwrap().len(), BLOCKS_MIN);
    }

    #[test]
    fn too_few_blocks_are_refused() {
        let (_, mut sides) = sides([1.0, 1.0]);
        assert!(
            interleave(Plan { blocks: BLOCKS_MIN - 1, block_ms: 1, budget_ms: 1000 }, &mut sides)
                .is_err()
        );
    }

    #[test]
    fn a_side_without_time_is_named() {
        let (_, mut sides) = sides([1.0, 0.0]);
        let plan = Plan { blocks: BLOCKS_MIN, block_ms: 1, budget_ms: 1000 };
        let text = interleave(plan, &mut sides).unwrap_err().to_string();
        assert!(text.contains("\"b\""), "{text}");
    }
}
