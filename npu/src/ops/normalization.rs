//! Layer, RMS, Instance and Group Normalization, MeanVarianceNormalization and LpNormalization:
//! elements of a lane without their mean, by their deviation, then scaled and moved.

use crate::DataType;
use crate::cast::elements_mut;
use crate::element::Element;
use crate::isa::{self, LANES, Routine, Simd};
use crate::numbers::{BLOCK, NumbersMut};
use crate::ops::broadcast::Walk;
use crate::ops::movement;
use crate::ops::types::{self, Types};
use crate::ops::{
    AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, axis, before, since,
};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

const fn entry(
    name: &'static str,
    code: u16,
    versions: &'static [u32],
    attributes: &'static [AttributeSpec],
    inputs: (usize, usize),
    types: Types,
) -> OpEntry {
    OpEntry { name, code, versions, attributes, inputs, operands: inputs, types, ..OpEntry::BASE }
}

/// The line of LayerNormalization.
pub static LAYER: OpEntry = OpEntry {
    outputs: 3,
    refused: "another `stash_type` than 1",
    import: |node| {
        let axis = from_axis(node, "axis", -1)?;
        Norm::import(Form::Layer { statistics: node.outputs.min(3) }, axis, node)
    },
    decode: |from| {
        let statistics = from.size()?;
        if !(1..=3).contains(&statistics) {
            return Err(OpError::params(format!("{statistics} outputs")));
        }
        Norm::decode(Form::Layer { statistics }, from)
    },
    ..entry("LayerNormalization", 121, &[17], OF_LAYER, (2, 3), FLOATS)
};
const OF_LAYER: &[AttributeSpec] = &[always("axis"), always("epsilon"), always("stash_type")];
const FLOATS: Types = &types::floats(1);

/// The line of RMSNormalization.
pub static RMS: OpEntry = OpEntry {
    refused: "another `stash_type` than 1",
    import: |node| Norm::import(Form::Rms, from_axis(node, "axis", -1)?, node),
    decode: |from| Norm::decode(Form::Rms, from),
    ..entry("RMSNormalization", 122, &[23], OF_LAYER, (2, 2), FLOATS)
};

/// The line of InstanceNormalization.
pub static INSTANCE: OpEntry = OpEntry {
    import: |node| Norm::import(Form::Instance, 2, node),
    decode: |from| Norm::decode(Form::Instance, from),
    ..entry("InstanceNormalization", 123, &[1, 6, 22], OF_INSTANCE, (3, 3), &types::floats(22))
};
const OF_INSTANCE: &[AttributeSpec] = &[always("epsilon"), before("consumed_inputs", 6)];

/// The line of GroupNormalization.
pub static GROUP: OpEntry = OpEntry {
    refused: "another `stash_type` than 1",
    import: |node| {
        let given = node.int("num_groups")?.unwrap_or(0);
        let groups = usize::try_from(given).ok().filter(|groups| *groups > 0);
        let groups = groups.ok_or_else(|| OpError::attribute("num_groups", given, "1 or more"))?;
        Norm::import(Form::Group { groups, by_group: node.opset < 21 }, 2, node)
    },
    decode: |from| {
        let (groups, by_group) = (from.size()?, from.flag()?);
        if groups == 0 {
            return Err(OpError::params("no groups"));
        }
        Norm::decode(Form::Group { groups, by_group }, from)
    },
    ..entry("GroupNormalization", 124, &[18, 21], OF_GROUP, (3, 3), FLOATS)
};
const OF_GROUP: &[AttributeSpec] =
    &[always("epsilon"), always("num_groups"), since("stash_type", 21)];

/// What it is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    /// Over all dims from the axis on; with so many outputs.
    Layer { statistics: usize },
    /// The same without taking off a mean.
    Rms,
    /// Each feature map.
    Instance,
    /// Feature maps in groups; scale and offset are the group's at first.
    Group { groups: usize, by_group: bool },
}

/// Lanes that lie behind one another, each normalised.
#[derive(Clone, Copy, Debug)]
pub struct Norm {
    form: Form,
    /// First dim of a lane.
    axis: usize,
    epsilon: f32,
}

fn from_axis(node: &Node<'_>, name: &str, default: i64) -> Result<usize, OpError> {
    let rank = node.input(0)?.info.shape.rank();
    axis(name, node.int(name)?.unwrap_or(default), rank)
}

impl Norm {
    /// LayerNormalization over the last dim of `rank`, with one output.
    #[must_use]
    pub fn of_last_dim(rank: usize, epsilon: f32) -> Self {
        Self { form: Form::Layer { statistics: 1 }, axis: rank.saturating_sub(1), epsilon }
    }

    fn import(form: Form, axis: usize, node: &Node<'_>) -> Result<Imported, OpError> {
        match node.int("stash_type")? {
            None | Some(1) => {}
            Some(other) => return Err(OpError::attribute("stash_type", other, "1")),
        }
        let epsilon = node.float("epsilon", 1e-5)?;
        Ok(Imported::all(Self { form, axis, epsilon }, node))
    }

    fn decode(form: Form, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self { form, axis: from.size()?, epsilon: from.f32()? }))
    }

    /// Elements of a lane.
    fn lane_length(&self, shape: &Shape) -> usize {
        let all: usize = shape.dims()[self.axis..].iter().product();
        match self.form {
            Form::Group { groups, .. } => all * (shape.dims()[1] / groups),
            _ => all,
        }
    }

    /// Normalises a lane; answers its mean and by what it was multiplied.
    fn lane(&self, lane: &mut [f64]) -> [f64; 2] {
        #[expect(clippy::cast_precision_loss, reason = "a mean of so many is no more exact")]
        let count = lane.len() as f64;
        let mean = match self.form {
            Form::Rms => 0.0,
            _ => lane.iter().sum::<f64>() / count,
        };
        let squares: f64 = lane.iter().map(|x| (x - mean) * (x - mean)).sum();
        let inverse = 1.0 / (squares / count + f64::from(self.epsilon)).sqrt();
        lane.iter_mut().for_each(|x| *x = (*x - mean) * inverse);
        [mean, inverse]
    }

    /// Writes what a lane was normalised by, where that is an output.
    fn keep(output: &mut Output<'_>, index: usize, own: [f64; 2]) -> Result<(), Fault> {
        for (place, value) in own.into_iter().enumerate() {
            if let Some(to) = output.further::<f32>(place)? {
                to[index] = f32::of_f64(value);
            }
        }
        Ok(())
    }

    fn floats(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let shape = inputs.info(0).shape;
        let lane = self.lane_length(&shape);
        movement::copy(inputs, output)?;
        for index in 0..shape.elements() / lane {
            let mut by = [0.0; 2];
            isa::run(Lane {
                lane: &mut output.elements::<f32>()?[index * lane..][..lane],
                centred: self.form != Form::Rms,
                epsilon: self.epsilon,
                by: &mut by,
            });
            Self::keep(output, index, by.map(f64::from))?;
        }
        self.scale(inputs, &mut |operand, own| {
            let (from, to) = (inputs.elements::<f32>(operand)?, output.elements::<f32>()?);
            own.rows(to, |row, [at], [stride]| {
                for (index, to) in row.iter_mut().enumerate() {
                    let x = from[at + index * stride];
                    *to = if operand == 1 { *to * x } else { *to + x };
                }
            });
            Ok(())
        })
    }

    /// Of any type: each lane on its own.
    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (shape, from) = (inputs.info(0).shape, inputs.numbers::<f64>(0)?);
        let lane = self.lane_length(&shape);
        for index in 0..shape.elements() / lane {
            let own = elements_mut::<f64>(output.scratch).ok_or(Fault::Memory)?;
            let own = own.get_mut(..lane).ok_or(Fault::Memory)?;
            from.read(index * lane, 1, own);
            let by = self.lane(own);
            NumbersMut::new(output.info.dtype, output.bytes)?.write(index * lane, own);
            Self::keep(output, index, by)?;
        }
        self.scale(inputs, &mut |operand, own| {
            let (from, mut to) = (inputs.numbers::<f64>(operand)?, output.numbers::<f64>()?);
            let mut xs = [0.0; BLOCK];
            own.blocks(shape.elements(), &mut |first, count, [at], [stride]| {
                from.read(at, stride, &mut xs[..count]);
                for (index, x) in xs[..count].iter().enumerate() {
                    let own = to.get(first + index);
                    to.set(first + index, if operand == 1 { own * x } else { own + x });
                }
            });
            Ok(())
        })
    }

    /// Calls `of` for scale and offset, with how they lie along the input's elements.
    fn scale(
        &self,
        inputs: &dyn Inputs,
        of: &mut dyn FnMut(usize, &Walk<1>) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        let shape = inputs.info(0).shape;
        for operand in 1..inputs.count() {
            let own = inputs.info(operand).shape;
            let (whole, own) = match self.form {
                Form::Layer { .. } | Form::Rms => (shape, own),
                Form::Group { groups, by_group: true } => {
                    // Each group of feature maps as one.
                    let (batches, rest) = (shape.dims()[0], self.lane_length(&shape));
                    let own = |dims: &[usize]| Shape::new(dims).map_err(|_| Fault::Memory);
                    (own(&[batches, groups, rest])?, own(&[groups, 1])?)
                }
                Form::Instance | Form::Group { .. } => {
                    let mut dims = [1; RANK_MAX];
                    dims[1] = own.elements();
                    (shape, Shape::new(&dims[..shape.rank()]).map_err(|_| Fault::Memory)?)
                }
            };
            of(operand, &Walk::new(&whole, [&own]))?;
        }
        Ok(())
    }
}

/// A lane of floats, normalised in place; answers as [`Norm::lane`] does.
struct Lane<'a> {
    lane: &'a mut [f32],
    centred: bool,
    epsilon: f32,
    by: &'a mut [f32; 2],
}

impl Routine for Lane<'_> {
    #[inline(always)]
    fn run<S: Simd>(self, simd: S) {
        let zero = simd.splat(0.0);
        #[expect(clippy::cast_precision_loss, reason = "a mean of so many is no more exact")]
        let count = self.lane.len() as f32;
        let (vectors, rest) = self.lane.as_chunks_mut::<LANES>();
        let mut mean = 0.0;
        if self.centred {
            let mut sum = simd.load_part(rest);
            for own in vectors.iter() {
                sum = simd.add(sum, simd.load(own));
            }
            mean = simd.sum(sum) / count;
        }
        let less = simd.splat(-mean);
        let mut squares = zero;
        for own in vectors.iter() {
            let own = simd.add(simd.load(own), less);
            squares = simd.mul_add(own, own, squares);
        }
        let of_rest = rest.iter().fold(0.0, |sum, own| sum + (own - mean) * (own - mean));
        let variance = (simd.sum(squares) + of_rest) / count;
        let inverse = 1.0 / (variance + self.epsilon).sqrt();
        let by = simd.splat(inverse);
        for own in vectors {
            let scaled = simd.mul(simd.add(simd.load(own), less), by);
            simd.store(scaled, own);
        }
        rest.iter_mut().for_each(|own| *own = (*own - mean) * inverse);
        *self.by = [mean, inverse];
    }
}

impl Op for Norm {
    fn code(&self) -> u16 {
        match self.form {
            Form::Layer { .. } => const { LAYER.code },
            Form::Rms => const { RMS.code },
            Form::Instance => const { INSTANCE.code },
            Form::Group { .. } => const { GROUP.code },
        }
    }

    fn encode(&self, into: &mut ParamWriter) {
        match self.form {
            Form::Layer { statistics } => into.size(statistics),
            Form::Rms | Form::Instance => {}
            Form::Group { groups, by_group } => {
                into.size(groups);
                into.flag(by_group);
            }
        }
        into.size(self.axis);
        into.f32(self.epsilon);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        let refuse = |what: &str| OpError::shape(format!("{shape}: {what}"));
        if self.axis > shape.rank() || (self.axis == shape.rank() && self.axis > 2) {
            return Err(refuse("there is no such axis"));
        }
        let maps = shape.dims().get(1).copied();
        let own = match self.form {
            Form::Layer { .. } | Form::Rms => None,
            _ if self.axis != 2 => return Err(refuse("the axis is 2")),
            Form::Instance => Some(maps.ok_or_else(|| refuse("no feature maps"))?),
            Form::Group { groups, by_group } => {
                let maps = maps.filter(|maps| maps.is_multiple_of(groups));
                let maps = maps.ok_or_else(|| refuse("feature maps are no multiple of groups"))?;
                Some(if by_group { groups } else { maps })
            }
        };
        for input in &inputs[1..] {
            let fits = match own {
                Some(own) => input.shape.dims() == [own],
                None => input.shape.broadcast(&shape) == Some(shape),
            };
            if !fits {
                return Err(refuse(&format!("{} does not fit", input.shape)));
            }
        }
        Ok(inputs[0])
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        let Form::Layer { statistics } = self.form else { return Ok(Vec::new()) };
        let mut dims = inputs[0].shape.dims().to_vec();
        dims[self.axis..].fill(1);
        let info = TensorInfo::new(DataType::FLOAT, Shape::new(&dims)?);
        if inputs[0].shape.elements() == 0 && info.shape.elements() > 0 {
            return Err(OpError::shape("statistics of nothing"));
        }
        Ok(vec![info; statistics - 1])
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let lane = self.lane_length(&inputs[0].shape);
        if inputs[0].dtype == DataType::FLOAT { 0 } else { lane.saturating_mul(8) }
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        if output.bytes.is_empty() {
            return Ok(());
        }
        match output.info.dtype {
            DataType::FLOAT => self.floats(inputs, output),
            _ => self.compute(inputs, output),
        }
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        8 * output.shape.elements() as u64
    }
}
