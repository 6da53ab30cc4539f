//! Pad and CenterCropPad: a tensor with more elements at its ends, or with fewer.

use crate::cast::Block;
use crate::numbers::NumbersMut;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis, before, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Pad",
    code: 130,
    versions: &[1, 2, 11, 13, 18, 19, 21, 23, 24, 25],
    attributes: &[
        always("mode"),
        before("paddings", 2),
        AttributeSpec { name: "pads", since: 2, until: 11 },
        before("value", 11),
    ],
    inputs: (1, 4),
    operands: (1, 2),
    types: types::ALL,
    refused: "`pads` and `axes` that are computed from data",
    import,
    decode: |from| decode(from, false),
    ..OpEntry::MOVES
};

/// The line of CenterCropPad.
pub static CENTER: OpEntry = OpEntry {
    name: "CenterCropPad",
    code: 173,
    versions: &[18],
    attributes: &[always("axes")],
    inputs: (2, 2),
    types: types::ALL,
    refused: "a `shape` that is computed from data",
    import: center,
    decode: |from| decode(from, true),
    ..OpEntry::MOVES
};

use crate::ops::AttributeSpec;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Constant,
    Reflect,
    Edge,
    Wrap,
}

const MODES: [(&str, Mode); 4] = [
    ("constant", Mode::Constant),
    ("reflect", Mode::Reflect),
    ("edge", Mode::Edge),
    ("wrap", Mode::Wrap),
];

/// A tensor with more elements at its ends; with fewer where a number is negative.
#[derive(Clone, Copy, Debug)]
pub struct Pad {
    /// Of a CenterCropPad.
    centered: bool,
    mode: Mode,
    rank: usize,
    begins: [i64; RANK_MAX],
    ends: [i64; RANK_MAX],
    /// What stands there, when no operand says it.
    value: f32,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let rank = node.input(0)?.info.shape.rank();
    let given = match node.opset {
        1 => node.ints("paddings")?.map(<[i64]>::to_vec),
        2..11 => node.ints("pads")?.map(<[i64]>::to_vec),
        _ => Some(node.integers(1, "pads")?),
    };
    let given = given.ok_or_else(|| OpError::attribute("pads", "is not given", "numbers"))?;
    let axes: Vec<usize> = if node.opset >= 18 && node.has(3) {
        let axes = node.integers(3, "axes")?;
        axes.iter().map(|own| axis("axes", *own, rank)).collect::<Result<_, _>>()?
    } else {
        (0..rank).collect()
    };
    let most = if node.opset < 11 {
        1
    } else if node.opset < 18 {
        3
    } else {
        4
    };
    if node.inputs.len() > most {
        let supported = most.to_string();
        return Err(OpError::Count { what: "inputs", found: node.inputs.len(), supported });
    }
    if given.len() != 2 * axes.len() {
        let supported = format!("{} numbers", 2 * axes.len());
        return Err(OpError::attribute("pads", format!("{given:?}"), supported));
    }
    let mode = node.text("mode")?.unwrap_or("constant");
    let found = MODES.iter().find(|(name, _)| *name == mode);
    let found = found.filter(|(_, mode)| *mode != Mode::Wrap || node.opset >= 19);
    let (_, mode) =
        found.ok_or_else(|| OpError::attribute("mode", mode, "constant, reflect, edge, wrap"))?;
    let value = node.float("value", 0.0)?;
    let (begins, ends) = ([0; RANK_MAX], [0; RANK_MAX]);
    let mut own = Pad { centered: false, mode: *mode, rank, begins, ends, value };
    for (place, axis) in axes.iter().enumerate() {
        own.begins[*axis] = given[place];
        own.ends[*axis] = given[place + axes.len()];
    }
    let mut operands = vec![0];
    operands.extend(node.has(2).then_some(2));
    Ok(Imported { op: Box::new(own), operands })
}

/// As much at both ends; of an odd number the larger half at the end.
fn center(node: &Node<'_>) -> Result<Imported, OpError> {
    let shape = node.input(0)?.info.shape;
    let (rank, wanted) = (shape.rank(), node.integers(1, "shape")?);
    let axes: Vec<usize> = match node.ints("axes")? {
        Some(axes) => axes.iter().map(|own| axis("axes", *own, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).collect(),
    };
    if axes.len() != wanted.len() || wanted.iter().any(|dim| *dim < 0) {
        let axes = axes.len();
        return Err(OpError::shape(format!("`shape` is {wanted:?}; {axes} dims from 0 on")));
    }
    let (begins, ends) = ([0; RANK_MAX], [0; RANK_MAX]);
    let mode = Mode::Constant;
    let mut own = Pad { centered: true, mode, rank, begins, ends, value: 0.0 };
    for (axis, wanted) in axes.iter().zip(&wanted) {
        let more = wanted - i64::try_from(shape.dims()[*axis]).unwrap_or(i64::MAX);
        own.begins[*axis] = more / 2;
        own.ends[*axis] = more - more / 2;
    }
    Ok(Imported::first(own))
}

fn decode(from: &mut ParamReader<'_>, centered: bool) -> Result<Box<dyn Op>, OpError> {
    let (mode, rank, value) = (from.size()?, from.size()?, from.f32()?);
    let mode = MODES.get(mode).filter(|_| rank <= RANK_MAX).map(|(_, mode)| *mode);
    let mode = mode.ok_or_else(|| OpError::params("no such mode, or too many dims"))?;
    let (begins, ends) = ([0; RANK_MAX], [0; RANK_MAX]);
    let mut own = Pad { centered, mode, rank, begins, ends, value };
    for number in own.begins[..rank].iter_mut().chain(&mut own.ends[..rank]) {
        *number = from.i64()?;
    }
    Ok(Box::new(own))
}

impl Pad {
    /// The same of a tensor whose dim `order[i]` is what was dim `i`.
    #[must_use]
    pub fn reordered(&self, order: &[usize]) -> Option<Self> {
        let mut own = *self;
        for (dim, to) in order.iter().enumerate() {
            *own.begins.get_mut(*to)? = self.begins[dim];
            *own.ends.get_mut(*to)? = self.ends[dim];
        }
        (order.len() == self.rank).then_some(own)
    }

    /// The index in the input for one in the output.
    #[inline(always)]
    fn source(&self, dim: usize, index: usize, length: usize) -> Option<usize> {
        let length = i64::try_from(length).unwrap_or(i64::MAX);
        let at = i64::try_from(index).unwrap_or(i64::MAX).wrapping_sub(self.begins[dim]);
        let at = match self.mode {
            _ if (0..length).contains(&at) => at,
            Mode::Constant => return None,
            Mode::Edge => at.clamp(0, length - 1),
            Mode::Wrap => at.rem_euclid(length),
            Mode::Reflect => {
                let period = (2 * (length - 1)).max(1);
                let way = at.rem_euclid(period);
                if way < length { way } else { period - way }
            }
        };
        usize::try_from(at).ok()
    }

    /// Calls `of` with the place of each run of elements of the output, the place of its source, if
    /// it is not where the constant stands, and how many elements it has.
    fn runs(
        &self,
        inputs: &dyn Inputs,
        shape: &Shape,
        of: &mut dyn FnMut(usize, Option<usize>, usize),
    ) {
        let (dims, strides) = (inputs.dims(0), inputs.info(0).shape.strides());
        let Some(last) = self.rank.checked_sub(1) else { return of(0, Some(0), 1) };
        let (out, width, length) = (shape.dims(), dims[last], shape.dims()[last]);
        // Where a row of the input lies in one of the output.
        let begin = usize::try_from(self.begins[last]).unwrap_or(0);
        let end = match self.source(last, begin, width) {
            Some(first) if width > first => length.min(begin.saturating_add(width - first)),
            _ => begin,
        };
        let mut index = [0; RANK_MAX];
        for row in (0..shape.elements()).step_by(length.max(1)) {
            let outer = (0..last).try_fold(0, |sum, dim| {
                Some(sum + self.source(dim, index[dim], dims[dim])? * strides[dim])
            });
            let mut at = if outer.is_some() { 0 } else { length };
            if outer.is_none() {
                of(row, None, length);
            }
            while at < length {
                let count = if at == begin { end.saturating_sub(begin).max(1) } else { 1 };
                let source = outer.zip(self.source(last, at, width));
                of(row + at, source.map(|(outer, inner)| outer + inner), count);
                at += count;
            }
            for dim in (0..last).rev() {
                index[dim] += 1;
                if index[dim] < out[dim] {
                    break;
                }
                index[dim] = 0;
            }
        }
    }
}

impl Op for Pad {
    fn code(&self) -> u16 {
        if self.centered { const { CENTER.code } } else { const { ENTRY.code } }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(MODES.iter().position(|(_, mode)| *mode == self.mode).unwrap_or(0));
        into.size(self.rank);
        into.f32(self.value);
        let numbers = self.begins[..self.rank].iter().chain(&self.ends[..self.rank]);
        numbers.for_each(|number| into.i64(*number));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        if shape.rank() != self.rank {
            return Err(OpError::shape(format!("{shape} has not {} dims", self.rank)));
        }
        if inputs.get(1).is_some_and(|value| value.shape.elements() != 1) {
            return Err(OpError::shape("`constant_value` is not one number"));
        }
        let mut dims = Vec::new();
        for (index, dim) in shape.dims().iter().enumerate() {
            let more = self.begins[index].saturating_add(self.ends[index]);
            let own = i64::try_from(*dim).unwrap_or(i64::MAX).saturating_add(more);
            if *dim == 0 && own > 0 && self.mode != Mode::Constant {
                return Err(OpError::shape(format!("{shape} has nothing to repeat")));
            }
            dims.push(own);
        }
        Ok(TensorInfo::new(inputs[0].dtype, Shape::from_i64(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let dtype = output.info.dtype;
        let size = element_size(dtype).ok_or(Fault::Type(dtype))?;
        let mut value = Block([0; 64]);
        let value = &mut value.0[..size];
        if inputs.count() > 1 {
            value.copy_from_slice(inputs.bytes(1));
        } else {
            NumbersMut::<f64>::new(dtype, value)?.set(0, f64::from(self.value));
        }
        let shape = output.info.shape;
        self.runs(inputs, &shape, &mut |at, source, count| {
            let to = &mut output.bytes[at * size..][..count * size];
            match source {
                Some(source) => to.copy_from_slice(&inputs.bytes(0)[source * size..][..to.len()]),
                None => to.chunks_exact_mut(size).for_each(|to| to.copy_from_slice(value)),
            }
        });
        Ok(())
    }
}
