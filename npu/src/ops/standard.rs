//! MeanVarianceNormalization, LpNormalization and LRN: elements by a number of their surroundings.

use crate::numbers::{BLOCK, NumbersMut};
use crate::ops::lanes::Lanes;
use crate::ops::sample::from_size;
use crate::ops::{Imported, Op, OpEntry, OpError, always, axis, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::RANK_MAX;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of MeanVarianceNormalization.
pub static MEAN_VARIANCE: OpEntry = OpEntry {
    name: "MeanVarianceNormalization",
    code: 125,
    versions: &[9, 13],
    attributes: &[always("axes")],
    types: &types::floats(13),
    import: |node| {
        let rank = node.input(0)?.info.shape.rank();
        let mut axes = 0;
        for given in node.ints("axes")?.unwrap_or(&[0, 2, 3]) {
            axes |= 1 << axis("axes", *given, rank)?;
        }
        Ok(Imported::first(Standard { kind: Kind::MeanVariance, axes }))
    },
    decode: |from| Standard::decode(Kind::MeanVariance, from),
    ..OpEntry::BASE
};

/// The line of LpNormalization.
pub static LP: OpEntry = OpEntry {
    name: "LpNormalization",
    code: 126,
    versions: &[1, 22],
    attributes: &[always("axis"), always("p")],
    types: &types::floats(22),
    import: |node| {
        let rank = node.input(0)?.info.shape.rank();
        let axes = 1 << axis("axis", node.int("axis")?.unwrap_or(-1), rank)?;
        let kind = match node.int("p")?.unwrap_or(2) {
            1 => Kind::One,
            2 => Kind::Two,
            other => return Err(OpError::attribute("p", other, "1, 2")),
        };
        Ok(Imported::first(Standard { kind, axes }))
    },
    decode: |from| {
        let kind = if from.flag()? { Kind::Two } else { Kind::One };
        Standard::decode(kind, from)
    },
    ..OpEntry::BASE
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    MeanVariance,
    One,
    Two,
}

/// Elements along some axes, by a number of all of them.
#[derive(Clone, Copy, Debug)]
pub struct Standard {
    kind: Kind,
    /// One bit an axis.
    axes: u32,
}

impl Standard {
    fn decode(kind: Kind, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        let axes = from.u32()?;
        if axes >> RANK_MAX != 0 {
            return Err(OpError::params(format!("axes {axes:#b}")));
        }
        Ok(Box::new(Self { kind, axes }))
    }

    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (shape, x) = (inputs.info(0).shape, inputs.numbers::<f64>(0)?);
        let walked = |dim: usize| self.axes >> dim & 1 == 1;
        let lanes = Lanes::new(&shape, walked);
        // What is taken off, and what it is divided by, for each lane.
        let count = shape.elements() / lanes.count.max(1);
        let scratch = crate::cast::elements_mut::<f64>(output.scratch).ok_or(Fault::Memory)?;
        let (off, by) = scratch.split_at_mut_checked(count).ok_or(Fault::Memory)?;
        let length = from_size(lanes.count);
        lanes.each_wide(x, &mut |place, lane| {
            let sum = |of: &dyn Fn(f64) -> f64| lane.fold(0.0, |sum, x| sum + of(x));
            (off[place], by[place]) = match self.kind {
                Kind::One => (0.0, sum(&f64::abs)),
                Kind::Two => (0.0, sum(&|x| x * x).sqrt()),
                Kind::MeanVariance => {
                    let mean = sum(&|x| x) / length;
                    let squares = sum(&|x| (x - mean) * (x - mean));
                    (mean, (squares / length).sqrt() + 1e-9)
                }
            };
        });
        let strides = shape.strides();
        let mut to = NumbersMut::<f64>::new(output.info.dtype, output.bytes)?;
        for flat in 0..shape.elements() {
            // The lane's number: the place among the dims that are kept.
            let dims = shape.dims().iter().enumerate().filter(|(dim, _)| !walked(*dim));
            let lane =
                dims.fold(0, |lane, (dim, length)| lane * length + flat / strides[dim] % length);
            let value = (x.get(flat) - off[lane]) / by[lane];
            // A norm of nothing leaves nothing.
            to.set(flat, if by[lane] == 0.0 { 0.0 } else { value });
        }
        Ok(())
    }
}

impl Op for Standard {
    fn code(&self) -> u16 {
        if self.kind == Kind::MeanVariance {
            const { MEAN_VARIANCE.code }
        } else {
            const { LP.code }
        }
    }

    fn encode(&self, into: &mut ParamWriter) {
        if self.kind != Kind::MeanVariance {
            into.flag(self.kind == Kind::Two);
        }
        into.u32(self.axes);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if self.axes >> inputs[0].shape.rank() != 0 {
            return Err(OpError::shape(format!("axes {:#b} of {}", self.axes, inputs[0].shape)));
        }
        Ok(inputs[0])
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let dims = inputs[0].shape.dims().iter().enumerate();
        let kept = dims.filter(|(dim, _)| self.axes >> dim & 1 == 0);
        16 * kept.map(|(_, dim)| *dim).product::<usize>()
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        self.compute(inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        6 * output.shape.elements() as u64
    }
}

/// The line of LRN.
pub static LRN: OpEntry = OpEntry {
    name: "LRN",
    code: 127,
    versions: &[1, 13],
    attributes: &[always("alpha"), always("beta"), always("bias"), always("size")],
    types: &types::floats(13),
    import: |node| {
        let given = node.int("size")?.unwrap_or(0);
        let size = usize::try_from(given).ok().filter(|size| *size > 0);
        let size = size.ok_or_else(|| OpError::attribute("size", given, "1 or more"))?;
        let (alpha, beta) = (node.float("alpha", 1e-4)?, node.float("beta", 0.75)?);
        Ok(Imported::first(Local { size, alpha, beta, bias: node.float("bias", 1.0)? }))
    },
    decode: |from| {
        let (size, alpha, beta) = (from.size()?, from.f32()?, from.f32()?);
        if size == 0 {
            return Err(OpError::params("a size of 0"));
        }
        Ok(Box::new(Local { size, alpha, beta, bias: from.f32()? }))
    },
    ..OpEntry::BASE
};

/// Elements by a power of the squares of those in neighbouring feature maps.
#[derive(Clone, Copy, Debug)]
pub struct Local {
    size: usize,
    alpha: f32,
    beta: f32,
    bias: f32,
}

impl Local {
    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (maps, area) = (inputs.dims(0)[1], inputs.dims(0)[2..].iter().product::<usize>());
        // Of an even size, one more lies behind.
        let (below, above) = ((self.size - 1) / 2, self.size / 2);
        let x = inputs.numbers::<f64>(0)?;
        let [alpha, beta, bias] = [self.alpha, self.beta, self.bias].map(f64::from);
        let share = alpha / from_size(self.size);
        let mut to = output.numbers::<f64>()?;
        let (mut own, mut sums) = ([0.0; BLOCK], [0.0; BLOCK]);
        let blocks = (0..area).step_by(BLOCK).map(|begin| (begin, BLOCK.min(area - begin)));
        for plane in 0..inputs.dims(0)[0] * maps {
            let (first, map) = (plane - plane % maps, plane % maps);
            let last = map.saturating_add(above).min(maps - 1);
            for (begin, count) in blocks.clone() {
                sums.fill(0.0);
                for map in map.saturating_sub(below)..=last {
                    x.read((first + map) * area + begin, 1, &mut own[..count]);
                    sums.iter_mut().zip(&own[..count]).for_each(|(sum, x)| *sum += x * x);
                }
                x.read(plane * area + begin, 1, &mut own[..count]);
                for (x, sum) in own.iter_mut().zip(&sums) {
                    *x /= (bias + share * sum).powf(beta);
                }
                to.write(plane * area + begin, &own[..count]);
            }
        }
        Ok(())
    }
}

impl Op for Local {
    fn code(&self) -> u16 {
        const { LRN.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.size);
        [self.alpha, self.beta, self.bias].into_iter().for_each(|own| into.f32(own));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if inputs[0].shape.rank() < 2 {
            return Err(OpError::shape(format!("{} has no feature maps", inputs[0].shape)));
        }
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        self.compute(inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        (self.size as u64).saturating_mul(2 * output.shape.elements() as u64)
    }
}
