//! Conv: convolution over one, two or three dims, with groups, strides, dilations and padding; with
//! an activation when the compiler has fused one into it.
//!
//! Feature maps are what the definition calls C of the input (`in_maps`) and M of the weights
//! (`out_maps`). Fewer than three dims are three with ones in front.

mod direct;

use crate::DataType;
use crate::isa;
use crate::ops::gemm::{self, Gemm};
use crate::ops::{Activation, Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{ELEMENTS_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

use direct::{Direct, Layout, Scratch};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Conv",
    code: 4,
    versions: &[1, 11, 22],
    attributes: &[
        always("auto_pad"),
        always("dilations"),
        always("group"),
        always("kernel_shape"),
        always("pads"),
        always("strides"),
    ],
    inputs: (2, 3),
    outputs: 1,
    operands: (2, 3),
    types: &[(DataType::FLOAT, 1)],
    widened: &types::halves(22),
    refused: "more than three spatial dims",
    import,
    decode,
    ..OpEntry::BASE
};

/// Most bytes of scratch memory.
const SCRATCH_MAX: usize = ELEMENTS_MAX;

/// Most spatial dims.
const DIMS: usize = 3;

/// A convolution. Operands: x `[N, C, D…]`, weights `[M, C / group, K…]`, bias `[M]` or none.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    /// Spatial dims: 1 to 3. The arrays have ones (pads: zeros) in front of them.
    pub rank: usize,
    /// Distance between the places of the kernel.
    pub strides: [usize; DIMS],
    /// Distance between elements of the kernel.
    pub dilations: [usize; DIMS],
    /// Zeros before each dim.
    pub pads_begin: [usize; DIMS],
    /// Zeros after each dim.
    pub pads_end: [usize; DIMS],
    /// Parts of the maps that do not see each other.
    pub group: usize,
    /// Applied to the result.
    pub activation: Activation,
}

/// Three dims of `dims`, ones in front.
fn three(dims: &[usize], front: usize) -> [usize; DIMS] {
    let mut own = [front; DIMS];
    own[DIMS - dims.len()..].copy_from_slice(dims);
    own
}

/// Numbers of a list attribute that lie between `least` and what a program may say.
fn bounded(given: &[i64], least: usize) -> Option<Vec<usize>> {
    let own = given.iter().map(|value| usize::try_from(*value).ok());
    own.map(|value| value.filter(|value| (least..=ELEMENTS_MAX).contains(value))).collect()
}

/// A list attribute with one positive number a dim; ones when it is not given.
fn positives(node: &Node<'_>, name: &str, rank: usize) -> Result<[usize; DIMS], OpError> {
    let Some(given) = node.ints(name)? else { return Ok([1; DIMS]) };
    let refuse = || {
        let found = format!("{given:?}");
        OpError::attribute(name, found, format!("{rank} numbers, 1 to {ELEMENTS_MAX} each"))
    };
    let own = bounded(given, 1).ok_or_else(refuse)?;
    if own.len() != rank { Err(refuse()) } else { Ok(three(&own, 1)) }
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    Ok(Imported::all(of_node(node, 1)?, node))
}

/// The convolution of a node whose weights are that input.
pub(super) fn of_node(node: &Node<'_>, weights: usize) -> Result<Conv, OpError> {
    let (x, w) = (node.input(0)?.info.shape, node.input(weights)?.info.shape);
    let rank = spatial_rank(&x, &w)?;
    let kernel = &w.dims()[2..];
    if let Some(given) = node.ints("kernel_shape")? {
        let same = given.len() == rank
            && given.iter().zip(kernel).all(|(given, own)| usize::try_from(*given) == Ok(*own));
        if !same {
            let supported = format!("{kernel:?}, as the weights have it");
            return Err(OpError::attribute("kernel_shape", format!("{given:?}"), supported));
        }
    }
    let group = node.int("group")?.unwrap_or(1);
    let group = usize::try_from(group)
        .ok()
        .filter(|group| *group > 0)
        .ok_or_else(|| OpError::attribute("group", group, "1 or more"))?;
    let mut conv = Conv {
        rank,
        strides: positives(node, "strides", rank)?,
        dilations: positives(node, "dilations", rank)?,
        pads_begin: [0; DIMS],
        pads_end: [0; DIMS],
        group,
        activation: Activation::None,
    };
    pad(&mut conv, node, &three(&x.dims()[2..], 1), &three(kernel, 1))?;
    Ok(conv)
}

fn spatial_rank(x: &Shape, w: &Shape) -> Result<usize, OpError> {
    let rank = x.rank().wrapping_sub(2);
    if !(1..=DIMS).contains(&rank) || w.rank() != x.rank() {
        let what = format!("x is {x}, weights are {w}; expected the same rank, 3 to 5");
        return Err(OpError::shape(what));
    }
    Ok(rank)
}

/// Resolves `pads` and `auto_pad`.
fn pad(
    conv: &mut Conv,
    node: &Node<'_>,
    input: &[usize; DIMS],
    kernel: &[usize; DIMS],
) -> Result<(), OpError> {
    let mode = node.text("auto_pad")?.unwrap_or("NOTSET");
    let given = node.ints("pads")?;
    let front = DIMS - conv.rank;
    match mode {
        "NOTSET" => {
            let Some(given) = given else { return Ok(()) };
            let refuse = || {
                let supported = format!("{} numbers, 0 to {ELEMENTS_MAX} each", 2 * conv.rank);
                OpError::attribute("pads", format!("{given:?}"), supported)
            };
            let own = bounded(given, 0).ok_or_else(refuse)?;
            if own.len() != 2 * conv.rank {
                return Err(refuse());
            }
            let (begin, end) = own.split_at(conv.rank);
            (conv.pads_begin, conv.pads_end) = (three(begin, 0), three(end, 0));
        }
        _ if given.is_some_and(|pads| pads.iter().any(|pad| *pad != 0)) => {
            let found = format!("given beside `auto_pad` = {mode}");
            return Err(OpError::attribute("pads", found, "one of both"));
        }
        "VALID" => {}
        "SAME_UPPER" | "SAME_LOWER" => {
            for dim in front..DIMS {
                // As many results as there are strides in the input, rounded up.
                let places = input[dim].div_ceil(conv.strides[dim]).max(1);
                let reach = (kernel[dim].max(1) - 1)
                    .saturating_mul(conv.dilations[dim])
                    .saturating_add((places - 1).saturating_mul(conv.strides[dim]) + 1);
                let total = reach.saturating_sub(input[dim]);
                if total > ELEMENTS_MAX {
                    let found = format!("{mode} pads dim {} by {total}", dim - front);
                    let supported = format!("padding of at most {ELEMENTS_MAX}");
                    return Err(OpError::attribute("auto_pad", found, supported));
                }
                let small = total / 2;
                let upper = mode == "SAME_UPPER";
                conv.pads_begin[dim] = if upper { small } else { total - small };
                conv.pads_end[dim] = if upper { total - small } else { small };
            }
        }
        other => {
            let supported = "NOTSET, SAME_UPPER, SAME_LOWER, VALID";
            return Err(OpError::attribute("auto_pad", format!("{other:?}"), supported));
        }
    }
    Ok(())
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    Ok(Box::new(Conv::read(from)?))
}

/// Sizes of one convolution, in three dims.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    batch: usize,
    /// Maps of the input and of the result, in one group.
    in_maps: usize,
    out_maps: usize,
    input: [usize; DIMS],
    kernel: [usize; DIMS],
    output: [usize; DIMS],
}

impl Geometry {
    /// Elements of a kernel, over all maps that it sees.
    fn lines(&self) -> usize {
        self.in_maps * self.kernel.iter().product::<usize>()
    }
}

impl Conv {
    /// Reads what `encode` writes.
    pub(super) fn read(from: &mut ParamReader<'_>) -> Result<Self, OpError> {
        let rank = from.size()?;
        let conv = Self {
            rank,
            strides: from.sizes()?,
            dilations: from.sizes()?,
            pads_begin: from.sizes()?,
            pads_end: from.sizes()?,
            group: from.size()?,
            activation: Activation::decode(from)?,
        };
        if !(1..=DIMS).contains(&rank) {
            return Err(OpError::params(format!("{rank} spatial dims; expected 1 to {DIMS}")));
        }
        let front = DIMS - rank;
        let unused = |list: &[usize; DIMS], value| list[..front].iter().all(|own| *own == value);
        let positive = conv.strides.iter().chain(&conv.dilations).all(|value| *value > 0);
        let small = [conv.strides, conv.dilations, conv.pads_begin, conv.pads_end];
        let bounded = small.as_flattened().iter().all(|value| *value <= ELEMENTS_MAX);
        let neutral = unused(&conv.strides, 1) && unused(&conv.dilations, 1);
        let unpadded = unused(&conv.pads_begin, 0) && unused(&conv.pads_end, 0);
        if !positive || !bounded || conv.group == 0 || !neutral || !unpadded {
            return Err(OpError::params(format!("{conv:?} is no convolution")));
        }
        Ok(conv)
    }

    /// The shape of the result.
    pub(super) fn shape(&self, x: &Shape, w: &Shape) -> Result<Shape, OpError> {
        let geometry = self.geometry(x, w)?;
        let mut dims = vec![geometry.batch, w.dims()[0]];
        dims.extend(&geometry.output[DIMS - self.rank..]);
        Ok(Shape::new(&dims)?)
    }

    /// Calls `of` with place, map and sum of each result of whole numbers.
    pub(super) fn sums(
        &self,
        (x_shape, w_shape): (&Shape, &Shape),
        x: &[i16],
        w: &[i16],
        mut of: impl FnMut(usize, usize, i32),
    ) -> Result<(), Fault> {
        let own = self.geometry(x_shape, w_shape).map_err(|_| Fault::Memory)?;
        let (plane, lines) = (own.input.iter().product::<usize>(), own.lines());
        let maps = own.out_maps * self.group;
        let places: usize = own.output.iter().product();
        let split = |flat: usize, dims: &[usize; DIMS]| {
            [flat / dims[2] / dims[1], flat / dims[2] % dims[1], flat % dims[2]]
        };
        for at in 0..own.batch * maps * places {
            let (image, map, place) = (at / places / maps, at / places % maps, at % places);
            let first = (image * self.group + map / own.out_maps) * own.in_maps;
            let (place, mut sum) = (split(place, &own.output), 0i32);
            for (line, weight) in w[map * lines..][..lines].iter().enumerate() {
                let taps = lines / own.in_maps;
                let tap = split(line % taps, &own.kernel);
                let meets = |dim: usize| {
                    let padded = place[dim] * self.strides[dim] + tap[dim] * self.dilations[dim];
                    padded.wrapping_sub(self.pads_begin[dim])
                };
                let [z, y, column] = [0, 1, 2].map(meets);
                if z < own.input[0] && y < own.input[1] && column < own.input[2] {
                    let from = (first + line / taps) * plane;
                    let pixel = (z * own.input[1] + y) * own.input[2] + column;
                    sum += i32::from(x[from + pixel]) * i32::from(*weight);
                }
            }
            of(at, map, sum);
        }
        Ok(())
    }

    fn geometry(&self, x: &Shape, w: &Shape) -> Result<Geometry, OpError> {
        let rank = spatial_rank(x, w)?;
        let (x_dims, w_dims) = (x.dims(), w.dims());
        if rank != self.rank
            || w_dims[1].checked_mul(self.group) != Some(x_dims[1])
            || !w_dims[0].is_multiple_of(self.group)
        {
            let (group, own) = (self.group, self.rank);
            let what = format!(
                "x is {x}, weights are {w}, group is {group}; expected {own} spatial dims, maps of \
                 x = group * dim 1 of the weights, dim 0 of the weights a multiple of group"
            );
            return Err(OpError::shape(what));
        }
        let (input, kernel) = (three(&x_dims[2..], 1), three(&w_dims[2..], 1));
        let mut output = [0; DIMS];
        for (dim, to) in output.iter_mut().enumerate() {
            *to = self.places(dim, input[dim], kernel[dim]).ok_or_else(|| {
                let at = (dim + rank).wrapping_sub(DIMS);
                OpError::shape(format!("the kernel of {w} does not fit into {x} at dim {at}"))
            })?;
        }
        let out_maps = w_dims[0] / self.group;
        Ok(Geometry { batch: x_dims[0], in_maps: w_dims[1], out_maps, input, kernel, output })
    }

    /// How many places a kernel has along a dim.
    fn places(&self, dim: usize, input: usize, kernel: usize) -> Option<usize> {
        let reach = kernel.checked_sub(1)?.checked_mul(self.dilations[dim])?.checked_add(1)?;
        let padded = input.checked_add(self.pads_begin[dim])?.checked_add(self.pads_end[dim])?;
        Some(padded.checked_sub(reach)? / self.strides[dim] + 1)
    }

    /// Whether each place of the kernel is one element of the input.
    fn is_pointwise(&self, geometry: &Geometry) -> bool {
        geometry.kernel == [1; DIMS]
            && self.strides == [1; DIMS]
            && self.pads_begin == [0; DIMS]
            && self.pads_end == [0; DIMS]
    }

    /// The same convolution with this activation behind it.
    #[must_use]
    pub fn with_activation(self, activation: Activation) -> Self {
        Self { activation, ..self }
    }
}

impl Op for Conv {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.rank);
        for list in [&self.strides, &self.dilations, &self.pads_begin, &self.pads_end] {
            into.sizes(list);
        }
        into.size(self.group);
        self.activation.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (x, w) = (inputs[0].shape, inputs[1].shape);
        self.geometry(&x, &w)?;
        let maps = w.dims()[0];
        if let Some(bias) = inputs.get(2).filter(|bias| bias.shape.dims() != [maps]) {
            let found = bias.shape;
            return Err(OpError::shape(format!("the bias is {found}; expected [{maps}]")));
        }
        if self.scratch_bytes(inputs, &inputs[0]) > SCRATCH_MAX {
            return Err(OpError::shape(format!("{x} is too large with padding and dilation")));
        }
        Ok(TensorInfo::new(inputs[0].dtype, self.shape(&x, &w)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (x, w) = (&inputs.info(0).shape, &inputs.info(1).shape);
        let geometry = self.geometry(x, w).map_err(|_| Fault::Memory)?;
        let (x, w) = (inputs.elements::<f32>(0)?, inputs.elements::<f32>(1)?);
        let bias = inputs.optional::<f32>(2)?;
        let layout = Layout::new(self, &geometry);
        let pointwise = self.is_pointwise(&geometry);
        let (out, scratch) = output.elements_and_scratch::<f32>()?;
        let mut scratch =
            (!pointwise).then(|| Scratch::new(self, &geometry, &layout, scratch)).transpose()?;
        let in_size = geometry.in_maps * geometry.input.iter().product::<usize>();
        let columns = geometry.output.iter().product::<usize>();
        let (rows, depth) = (geometry.out_maps, geometry.lines());
        for (index, out) in out.chunks_exact_mut(rows * columns).enumerate() {
            let group = index % self.group;
            let input = &x[index * in_size..][..in_size];
            let weights = &w[group * rows * depth..][..rows * depth];
            let bias = bias.map(|bias| &bias[group * rows..][..rows]);
            let activation = self.activation;
            if let Some(scratch) = &mut scratch {
                scratch.fill(self, &geometry, &layout, input);
                let (layout, output, maps) = (&layout, geometry.output, rows);
                isa::run(Direct { layout, scratch, output, weights, bias, activation, out, maps });
            } else {
                let (left, right) = (weights, input);
                gemm::run(Gemm { left, right, bias, activation, out, rows, depth, columns });
            }
        }
        Ok(())
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        match self.geometry(&inputs[0].shape, &inputs[1].shape) {
            Ok(own) if !self.is_pointwise(&own) => Layout::new(self, &own).scratch_bytes(&own),
            _ => 0,
        }
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let depth = inputs[1].shape.dims().iter().skip(1).product::<usize>() as u64;
        let bias = u64::from(inputs.len() > 2);
        (2 * depth + bias + self.activation.flops()) * output.shape.elements() as u64
    }
}

#[cfg(test)]
mod tests;
