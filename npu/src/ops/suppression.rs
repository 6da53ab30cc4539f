//! NonMaxSuppression: the boxes with the highest scores, without those that overlap one of them.
//! How many there are depends on their values, so these have to be known when the model is
//! compiled; the boxes are a constant of the program.

use crate::DataType;
use crate::aligned::AlignedBytes;
use crate::cast::{bytes_of, elements};
use crate::ops::literal::Literal;
use crate::ops::{Imported, Node, OpEntry, OpError, always};
use crate::shape::Shape;
use crate::tensor::TensorInfo;

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "NonMaxSuppression",
    code: 192,
    versions: &[10, 11],
    attributes: &[always("center_point_box")],
    inputs: (2, 5),
    operands: (0, 0),
    types: &[(DataType::FLOAT, 10)],
    refused: "inputs that are computed from data",
    import,
    decode: |from| Literal::decode(const { ENTRY.code }, from),
    ..OpEntry::BASE
};

/// Most pairs of boxes that are compared when a model is compiled.
const PAIRS_MAX: usize = 1 << 30;

/// Corners of a box, and its area.
#[derive(Clone, Copy, Debug)]
struct Area {
    low: [f32; 2],
    high: [f32; 2],
    size: f32,
}

impl Area {
    /// Of two corners that lie across, or of the middle and the lengths of its sides.
    fn new(given: [f32; 4], middle: bool) -> Self {
        let [a, b, c, d] = given;
        let (low, high) = if middle {
            ([a - c / 2.0, b - d / 2.0], [a + c / 2.0, b + d / 2.0])
        } else {
            ([a.min(c), b.min(d)], [a.max(c), b.max(d)])
        };
        Self { low, high, size: (high[0] - low[0]) * (high[1] - low[1]) }
    }

    /// Whether so much of both is common to them, as a part of what both cover.
    fn overlaps(&self, other: &Self, threshold: f32) -> bool {
        let side =
            |dim: usize| self.high[dim].min(other.high[dim]) - self.low[dim].max(other.low[dim]);
        let (height, width) = (side(0), side(1));
        if !(height > 0.0 && width > 0.0 && self.size > 0.0 && other.size > 0.0) {
            return false;
        }
        let common = height * width;
        common / (self.size + other.size - common) > threshold
    }
}

/// Floats of an input that has to be known.
fn floats(node: &Node<'_>, index: usize, name: &'static str) -> Result<Vec<f32>, OpError> {
    let known = node.input(index)?;
    if known.info.dtype != DataType::FLOAT {
        return Err(OpError::types(index, known.info.dtype, &[DataType::FLOAT]));
    }
    let bytes = known.value.ok_or(OpError::NotConstant { input: index, name })?;
    let bytes = AlignedBytes::copy_of(bytes);
    let list = elements(&bytes).map(<[f32]>::to_vec);
    list.ok_or_else(|| OpError::shape(format!("`{name}` is not {}", known.info)))
}

/// One float that may be left out.
fn float(node: &Node<'_>, index: usize, name: &'static str) -> Result<Option<f32>, OpError> {
    if !node.has(index) {
        return Ok(None);
    }
    match floats(node, index, name)?[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(OpError::shape(format!("`{name}` is not one number"))),
    }
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let middle = node.flag("center_point_box", false)?;
    let (boxes, scores) = (node.input(0)?.info.shape, node.input(1)?.info.shape);
    let &[batches, classes, count] = scores.dims() else {
        return Err(OpError::shape(format!("scores are {scores}; expected [N, classes, boxes]")));
    };
    if boxes.dims() != [batches, count, 4] {
        return Err(OpError::shape(format!("boxes are {boxes} for scores {scores}")));
    }
    let most = if node.has(2) { node.integers(2, "max_output_boxes_per_class")? } else { vec![] };
    let most = usize::try_from(most.first().copied().unwrap_or(0).max(0)).unwrap_or(usize::MAX);
    let overlap = float(node, 3, "iou_threshold")?.unwrap_or(0.0);
    let least = float(node, 4, "score_threshold")?;
    let mut selected: Vec<[i64; 3]> = Vec::new();
    let pairs = scores.elements().saturating_mul(most.min(count));
    if pairs > PAIRS_MAX {
        let what = format!("{pairs} pairs of boxes to compare; at most {PAIRS_MAX} are supported");
        return Err(OpError::shape(what));
    }
    if most > 0 {
        let (boxes, scores) = (floats(node, 0, "boxes")?, floats(node, 1, "scores")?);
        let areas = boxes.as_chunks::<4>().0.iter().map(|given| Area::new(*given, middle));
        let areas: Vec<Area> = areas.collect();
        for line in 0..batches * classes {
            let areas = &areas[line / classes * count..][..count];
            let own = &scores[line * count..][..count];
            let enough = |at: &usize| least.is_none_or(|least| own[*at] > least);
            let mut order: Vec<usize> = (0..count).filter(enough).collect();
            order.sort_by(|a, b| own[*b].total_cmp(&own[*a]));
            let mut kept: Vec<usize> = Vec::new();
            for at in order {
                if kept.len() == most {
                    break;
                }
                if !kept.iter().any(|other| areas[at].overlaps(&areas[*other], overlap)) {
                    kept.push(at);
                }
            }
            let number = |at: usize| i64::try_from(at).unwrap_or(i64::MAX);
            selected
                .extend(kept.iter().map(|at| [line / classes, line % classes, *at].map(number)));
        }
    }
    let info = TensorInfo::new(DataType::INT64, Shape::new(&[selected.len(), 3])?);
    let bytes = bytes_of(selected.as_flattened()).to_vec();
    let op = Box::new(Literal::new(const { ENTRY.code }, info, bytes));
    Ok(Imported { op, operands: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{Case, Value, float, int64};

    /// Two boxes over one another, a third elsewhere.
    fn case(scores: [f32; 3], boxes: [[f32; 4]; 3]) -> Case {
        let boxes = float(&[1, 3, 4], boxes.as_flattened());
        Case::new(&ENTRY, 11).input(boxes).input(float(&[1, 1, 3], &scores))
    }

    const CORNERS: [[f32; 4]; 3] =
        [[0.0, 0.0, 1.0, 1.0], [1.0, 1.25, 0.0, 0.25], [0.0, 10.0, 1.0, 11.0]];

    fn boxes(list: &[i64]) -> Value {
        let rows: Vec<i64> = list.iter().flat_map(|at| [0, 0, *at]).collect();
        int64(&[list.len(), 3], &rows)
    }

    fn one(x: f32) -> Value {
        float(&[1], &[x])
    }

    #[test]
    fn the_best_of_those_that_overlap() {
        let most = |case: Case, most: i64| case.input(int64(&[1], &[most]));
        let own = || case([0.5, 0.9, 0.75], CORNERS);
        // 0.75 of 1.25 is common to the first two.
        assert_eq!(most(own(), 9).input(one(0.59)).run(), boxes(&[1, 2]));
        assert_eq!(most(own(), 9).input(one(0.6)).run(), boxes(&[1, 2, 0]), "not more than that");
        assert_eq!(most(own(), 9).run(), boxes(&[1, 2]), "any overlap is too much");
        assert_eq!(most(own(), 1).input(one(0.6)).run(), boxes(&[1]));
        let scored = most(own(), 9).input(one(0.6)).input(one(0.5));
        assert_eq!(scored.run(), boxes(&[1, 2]), "the score itself is not enough");
        assert_eq!(own().run(), boxes(&[]), "none by default");
        let same = most(case([0.5; 3], CORNERS), 9).input(one(0.6));
        assert_eq!(same.run(), boxes(&[0, 1, 2]), "the first one of the same score");
    }

    #[test]
    fn middles_and_sides() {
        let middles = [[0.5, 0.5, 1.0, 1.0], [0.75, 0.5, 1.0, 1.0], [9.0, 0.5, 1.0, 1.0]];
        let own = case([0.5, 0.9, 0.75], middles).int("center_point_box", 1);
        let own = own.input(int64(&[], &[3]));
        assert_eq!(own.clone().input(one(0.59)).run(), boxes(&[1, 2]));
        assert_eq!(own.input(one(0.6)).run(), boxes(&[1, 2, 0]));
    }

    #[test]
    fn each_class_of_each_image() {
        let all = float(&[2, 1, 4], &[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 2.0, 2.0]);
        let own = Case::new(&ENTRY, 10).input(all).input(float(&[2, 2, 1], &[0.1; 4]));
        let expected = int64(&[4, 3], &[0, 0, 0, 0, 1, 0, 1, 0, 0, 1, 1, 0]);
        assert_eq!(own.input(int64(&[1], &[2])).run(), expected);
    }

    #[test]
    fn what_is_refused() {
        let x = float(&[1, 3, 4], &[0.0; 12]);
        let wrong = Case::new(&ENTRY, 11).input(x.clone()).input(float(&[1, 1, 2], &[0.0; 2]));
        assert!(wrong.refused().contains("boxes are [1, 3, 4] for scores [1, 1, 2]"));
        let data = Case::new(&ENTRY, 11).variable(x).input(float(&[1, 1, 3], &[0.0; 3]));
        let data = data.input(int64(&[1], &[1]));
        assert!(data.refused().contains("boxes"), "{}", data.refused());
        let many = vec![0.0; 40_000];
        let many = Case::new(&ENTRY, 11)
            .input(float(&[1, 40_000, 4], &many.repeat(4)))
            .input(float(&[1, 1, 40_000], &many));
        let many = many.input(int64(&[1], &[40_000]));
        assert!(many.refused().contains("1600000000 pairs of boxes"), "{}", many.refused());
    }
}
