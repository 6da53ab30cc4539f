//! TfIdfVectorizer: how often each of some sequences of numbers is there.

use std::cmp::Ordering;

use crate::DataType;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Indices, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "TfIdfVectorizer",
    code: 196,
    versions: &[9],
    attributes: &[
        always("max_gram_length"),
        always("max_skip_count"),
        always("min_gram_length"),
        always("mode"),
        always("ngram_counts"),
        always("ngram_indexes"),
        always("pool_int64s"),
        always("weights"),
    ],
    types: &[(DataType::INT32, 9), (DataType::INT64, 9)],
    refused: "texts, a `max_skip_count` above 1000",
    import,
    decode,
    ..OpEntry::BASE
};

/// Most numbers that are skipped: work grows with them.
const SKIPS_MAX: usize = 1000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    /// Counts.
    Tf,
    /// Whether there are any, times a weight.
    Idf,
    /// Counts times a weight.
    Both,
}

const MODES: [(&str, Mode); 3] = [("TF", Mode::Tf), ("IDF", Mode::Idf), ("TFIDF", Mode::Both)];

/// A sequence, and the place of its count.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Gram {
    numbers: Vec<i64>,
    to: usize,
}

/// Counts of sequences.
#[derive(Clone, Debug)]
pub struct NGrams {
    mode: Mode,
    /// Most numbers that are skipped between two of a sequence.
    skips: usize,
    /// Counts of a row.
    width: usize,
    /// One a count, or none.
    weights: Vec<f32>,
    /// In order.
    grams: Vec<Gram>,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let given = node.text("mode")?.unwrap_or("");
    let mode = MODES.iter().find(|(name, _)| *name == given).map(|(_, mode)| *mode);
    let mode = mode.ok_or_else(|| OpError::attribute("mode", given, "TF, IDF, TFIDF"))?;
    let size = |name: &str, least: usize, most: usize| {
        let given = node.int(name)?.unwrap_or(-1);
        let own = usize::try_from(given).ok().filter(|own| (least..=most).contains(own));
        own.ok_or_else(|| OpError::attribute(name, given, format!("{least} to {most}")))
    };
    let (least, most) =
        (size("min_gram_length", 1, 1 << 20)?, size("max_gram_length", 1, 1 << 20)?);
    let skips = size("max_skip_count", 0, SKIPS_MAX)?;
    let pool = node.ints("pool_int64s")?.unwrap_or_default();
    let places = node.ints("ngram_indexes")?.unwrap_or_default();
    let begins = node.ints("ngram_counts")?.unwrap_or_default();
    let mut width = 0;
    for place in places {
        let own = usize::try_from(*place).ok().filter(|own| *own < 1 << 40);
        let own = own.ok_or_else(|| OpError::attribute("ngram_indexes", place, "0 or more"))?;
        width = width.max(own + 1);
    }
    let (mut grams, mut index) = (Vec::new(), 0);
    for (size, begin) in begins.iter().enumerate() {
        let wrong = || OpError::attribute("ngram_counts", format!("{begins:?}"), "begins in order");
        let from = usize::try_from(*begin).map_err(|_| wrong())?;
        let end = begins.get(size + 1).map_or(Ok(pool.len()), |end| usize::try_from(*end));
        let own = pool.get(from..end.map_err(|_| wrong())?).ok_or_else(wrong)?;
        for numbers in own.chunks_exact(size + 1) {
            let to = places.get(index).and_then(|place| usize::try_from(*place).ok());
            let few = || OpError::attribute("ngram_indexes", places.len(), "one for each sequence");
            let to = to.ok_or_else(few)?;
            index += 1;
            if (least..=most).contains(&numbers.len()) {
                grams.push(Gram { numbers: numbers.to_vec(), to });
            }
        }
    }
    grams.sort();
    let weights = match node.floats("weights")?.unwrap_or_default() {
        _ if mode == Mode::Tf => Vec::new(),
        own if own.is_empty() || own.len() == width => own.to_vec(),
        own => return Err(OpError::attribute("weights", own.len(), width.to_string())),
    };
    Ok(Imported::all(NGrams { mode, skips, width, weights, grams }, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let mode = MODES.get(from.size()?).map(|(_, mode)| *mode);
    let mode = mode.ok_or_else(|| OpError::params("no such mode"))?;
    let (skips, width, count) = (from.size()?, from.size()?, from.size()?);
    let mut weights = Vec::new();
    for _each in 0..count {
        weights.push(from.f32()?);
    }
    let mut grams: Vec<Gram> = Vec::new();
    for _each in 0..from.size()? {
        let (length, to) = (from.size()?, from.size()?);
        let mut numbers = Vec::new();
        for _each in 0..length {
            numbers.push(from.i64()?);
        }
        grams.push(Gram { numbers, to });
    }
    let inside = grams.iter().all(|gram| gram.to < width && !gram.numbers.is_empty());
    let weighed = weights.is_empty() || weights.len() == width;
    if !inside || !weighed || !grams.is_sorted() || skips > SKIPS_MAX {
        return Err(OpError::params("sequences in no order, or outside the counts"));
    }
    Ok(Box::new(NGrams { mode, skips, width, weights, grams }))
}

impl NGrams {
    /// The place of a sequence's count.
    fn find(&self, row: &Row<'_>) -> Option<usize> {
        let found = self.grams.binary_search_by(|gram| row.order(gram));
        found.ok().map(|at| self.grams[at].to)
    }
}

/// A sequence in a row of numbers.
struct Row<'a> {
    numbers: Indices<'a>,
    first: usize,
    step: usize,
    length: usize,
}

impl Row<'_> {
    /// Where a known sequence is from this one.
    fn order(&self, gram: &Gram) -> Ordering {
        let own = (0..self.length).map(|at| self.numbers.get(self.first + at * self.step));
        gram.numbers.iter().copied().cmp(own)
    }
}

impl Op for NGrams {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(MODES.iter().position(|(_, own)| *own == self.mode).unwrap_or(0));
        into.sizes(&[self.skips, self.width, self.weights.len()]);
        self.weights.iter().for_each(|weight| into.f32(*weight));
        into.size(self.grams.len());
        for gram in &self.grams {
            into.sizes(&[gram.numbers.len(), gram.to]);
            gram.numbers.iter().for_each(|number| into.i64(*number));
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let x = inputs[0].shape;
        let dims = match *x.dims() {
            [_] => vec![self.width],
            [rows, _] => vec![rows, self.width],
            _ => return Err(OpError::shape(format!("{x} is no row and no rows"))),
        };
        Ok(TensorInfo::new(DataType::FLOAT, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = inputs.dims(0).last().copied().unwrap_or(0);
        let out = output.elements::<f32>()?;
        out.fill(0.0);
        let most = self.grams.iter().map(|gram| gram.numbers.len()).max().unwrap_or(0);
        for (row, out) in out.chunks_exact_mut(self.width).enumerate() {
            for step in 1..=self.skips + 1 {
                for begin in 0..size {
                    // Between the numbers of a sequence of one, there is nothing to skip.
                    let least = if step == 1 { 1 } else { 2 };
                    let room = (size - begin).div_ceil(step).min(most);
                    for length in least..=room {
                        let (numbers, first) = (inputs.indices(0)?, row * size + begin);
                        if let Some(to) = self.find(&Row { numbers, first, step, length }) {
                            out[to] += 1.0;
                        }
                    }
                }
            }
            if self.mode == Mode::Idf {
                out.iter_mut().for_each(|count| *count = count.min(1.0));
            }
            out.iter_mut().zip(&self.weights).for_each(|(count, weight)| *count *= weight);
        }
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        let most = self.grams.iter().map(|gram| gram.numbers.len()).max().unwrap_or(0) as u64;
        let numbers = inputs[0].shape.elements() as u64;
        numbers.saturating_mul(most).saturating_mul(most).saturating_mul(self.skips as u64 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::AttributeValue;
    use crate::ops::testing::{Case, float, int64, ints};

    /// Sequences of one: 2 and 3; of two: 5 4, 5 6 and 7 8.
    fn case(mode: &str, lengths: [i64; 2], skips: i64) -> Case {
        let case = Case::new(&ENTRY, 9).text("mode", mode).int("max_skip_count", skips);
        let case = case.int("min_gram_length", lengths[0]).int("max_gram_length", lengths[1]);
        let case = case.ints("ngram_counts", &[0, 2]).ints("ngram_indexes", &[0, 1, 4, 3, 2]);
        case.ints("pool_int64s", &[2, 3, 5, 4, 5, 6, 7, 8])
    }

    #[test]
    fn counts_of_rows() {
        let x = || ints(&[2, 5], &[3, 5, 4, 3, 5, 7, 5, 8, 6, 2]);
        let own = case("TF", [1, 2], 0).variable(x());
        let expected = [[0.0, 2.0, 0.0, 0.0, 1.0], [1.0, 0.0, 0.0, 0.0, 0.0]];
        assert_eq!(own.run(), float(&[2, 5], expected.as_flattened()));
        // 7 _ 8 and 5 _ 6 are there, too; those of one are not counted again.
        let own = case("TF", [1, 2], 1).variable(x());
        let expected = [[0.0, 2.0, 0.0, 0.0, 1.0], [1.0, 0.0, 1.0, 1.0, 0.0]];
        assert_eq!(own.run(), float(&[2, 5], expected.as_flattened()));
        let own = case("TF", [2, 2], 1000).variable(int64(&[5], &[3, 5, 4, 4, 3]));
        assert_eq!(own.run(), float(&[5], &[0.0, 0.0, 0.0, 0.0, 2.0]), "any distance");
    }

    #[test]
    fn weights() {
        let weights = AttributeValue::Floats(vec![2.0, 3.0, 4.0, 5.0, 6.0]);
        let x = || int64(&[4], &[3, 3, 5, 4]);
        let own = case("IDF", [1, 2], 0).attribute("weights", weights.clone()).variable(x());
        assert_eq!(own.run(), float(&[5], &[0.0, 3.0, 0.0, 0.0, 6.0]));
        let own = case("TFIDF", [1, 2], 0).attribute("weights", weights).variable(x());
        assert_eq!(own.run(), float(&[5], &[0.0, 6.0, 0.0, 0.0, 6.0]));
        let own = case("IDF", [1, 1], 0).variable(x());
        assert_eq!(own.run(), float(&[5], &[0.0, 1.0, 0.0, 0.0, 0.0]));
    }

    #[test]
    fn what_is_refused() {
        let x = || int64(&[1], &[3]);
        assert!(case("TF", [1, 2], 1001).variable(x()).refused().contains("0 to 1000"));
        assert!(case("", [1, 2], 0).variable(x()).refused().contains("TF, IDF, TFIDF"));
        let few = AttributeValue::Floats(vec![1.0]);
        let few = case("IDF", [1, 2], 0).attribute("weights", few).variable(x());
        assert!(few.refused().contains("attribute `weights`: 1; supported: 5"));
        let cube = case("TF", [1, 2], 0).variable(int64(&[1, 1, 1], &[3]));
        assert!(cube.refused().contains("[1, 1, 1] is no row and no rows"));
    }
}
