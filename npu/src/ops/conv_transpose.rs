//! ConvTranspose: what a convolution would have to be given; each element of the input spreads the
//! kernel over the output.

use crate::DataType;
use crate::element::{Element, with_type};
use crate::ops::window::{SPATIAL, Window, numbers, pads, spatial};
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "ConvTranspose",
    code: 108,
    versions: &[1, 11, 22],
    attributes: &[
        always("auto_pad"),
        always("dilations"),
        always("group"),
        always("kernel_shape"),
        always("output_padding"),
        always("output_shape"),
        always("pads"),
        always("strides"),
    ],
    inputs: (2, 3),
    operands: (2, 3),
    types: &[(DataType::FLOAT, 1), (DataType::DOUBLE, 1)],
    widened: &types::halves(22),
    refused: "more than three spatial dims; pads that do not fit `output_shape`",
    import,
    decode,
    ..OpEntry::BASE
};

/// A transposed convolution. The window moves over the output.
#[derive(Clone, Copy, Debug)]
pub struct ConvTranspose {
    window: Window,
    group: usize,
    /// Spatial dims of the output.
    out: [usize; SPATIAL],
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let (rank, image) = spatial(&node.input(0)?.info.shape)?;
    let (weights_rank, kernel) = spatial(&node.input(1)?.info.shape)?;
    if weights_rank != rank {
        return Err(OpError::shape("image and weights have other numbers of dims"));
    }
    let given = numbers(node, "kernel_shape", rank, 0, 1)?;
    if node.ints("kernel_shape")?.is_some() && given[SPATIAL - rank..] != kernel[SPATIAL - rank..] {
        let supported = format!("the weights' {:?}", &kernel[SPATIAL - rank..]);
        return Err(OpError::attribute("kernel_shape", format!("{given:?}"), supported));
    }
    let strides = numbers(node, "strides", rank, 1, 1)?;
    let dilations = numbers(node, "dilations", rank, 1, 1)?;
    let more = numbers(node, "output_padding", rank, 0, 0)?;
    let wanted = match node.ints("output_shape")? {
        None => None,
        Some(given) => {
            // Batch and feature maps may stand before them.
            let list = given.get(given.len().saturating_sub(rank)..).unwrap_or_default();
            let mut own = [1; SPATIAL];
            let refuse = || OpError::attribute("output_shape", format!("{given:?}"), "sizes");
            if list.len() != rank || (given.len() != rank && given.len() != rank + 2) {
                return Err(refuse());
            }
            for (to, number) in own[SPATIAL - rank..].iter_mut().zip(list) {
                *to = usize::try_from(*number).map_err(|_| refuse())?;
            }
            Some(own)
        }
    };
    let (before, after) = pads(node, rank)?;
    let mut window = Window { rank, kernel, strides, dilations, before, after, ceil: false };
    if kernel.contains(&0) {
        return Err(OpError::shape("weights without elements"));
    }
    let mode = node.text("auto_pad")?.unwrap_or("NOTSET");
    let mut out = [1; SPATIAL];
    for dim in SPATIAL - rank..SPATIAL {
        let steps = image[dim].saturating_sub(1).saturating_mul(strides[dim]);
        let whole = steps.saturating_add(window.reach(dim)).saturating_add(more[dim]);
        let own = match (wanted, mode) {
            (Some(wanted), _) => Some(wanted[dim]),
            (None, "SAME_UPPER" | "SAME_LOWER") => Some(image[dim].saturating_mul(strides[dim])),
            (None, "NOTSET") => None,
            (None, "VALID") => {
                (window.before[dim], window.after[dim]) = (0, 0);
                None
            }
            (None, other) => {
                let supported = "NOTSET, VALID, SAME_UPPER, SAME_LOWER";
                return Err(OpError::attribute("auto_pad", other, supported));
            }
        };
        if let Some(own) = own {
            let sum = whole.saturating_sub(own);
            let (small, large) = (sum / 2, sum - sum / 2);
            (window.before[dim], window.after[dim]) =
                if mode == "SAME_UPPER" { (small, large) } else { (large, small) };
            out[dim] = own;
        } else {
            let both = window.before[dim] + window.after[dim];
            let refuse = || OpError::shape(format!("pads of {both} leave nothing of {whole}"));
            out[dim] = whole.checked_sub(both).ok_or_else(refuse)?;
        }
    }
    let group = node.int("group")?.unwrap_or(1);
    let own = usize::try_from(group).ok().filter(|group| *group > 0);
    let group = own.ok_or_else(|| OpError::attribute("group", group, "1 or more"))?;
    Ok(Imported::all(ConvTranspose { window, group, out }, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let own =
        ConvTranspose { window: Window::decode(from)?, group: from.size()?, out: from.sizes()? };
    if own.group == 0 || own.out.iter().any(|dim| *dim > 1 << 40) {
        return Err(OpError::params(format!("{own:?} is no transposed convolution")));
    }
    Ok(Box::new(own))
}

impl ConvTranspose {
    /// The width and height of the squares that elements are spread over, when they are squares of
    /// an image that do not overlap.
    #[must_use]
    pub fn spreads(&self) -> Option<usize> {
        let Window { rank, kernel, strides, dilations, before, after, .. } = self.window;
        let [_, height, width] = kernel;
        let plain = (dilations, before, after) == ([1; SPATIAL], [0; SPATIAL], [0; SPATIAL]);
        let square = rank == 2 && height == width && kernel[1..] == strides[1..];
        (square && plain && self.group == 1).then_some(width)
    }

    fn compute<T: Element>(
        &self,
        inputs: &dyn Inputs,
        output: &mut Output<'_>,
    ) -> Result<(), Fault> {
        let (x, w) = (inputs.elements::<T>(0)?, inputs.elements::<T>(1)?);
        let bias = inputs.optional::<T>(2)?;
        let (_, image) = spatial(&inputs.info(0).shape).map_err(|_| Fault::Memory)?;
        let (maps, per_group) = (inputs.dims(0)[1], inputs.dims(1)[1]);
        let (area, reach) = (image.iter().product::<usize>(), self.window.kernel.iter().product());
        let out_area = self.out.iter().product::<usize>();
        let outputs = per_group * self.group;
        let own: usize = reach;
        for (index, to) in output.elements::<T>()?.chunks_exact_mut(out_area).enumerate() {
            let (batch, map) = (index / outputs, index % outputs);
            to.fill(bias.map_or(T::ZERO, |bias| bias[map]));
            let (group, within) = (map / per_group, map % per_group);
            let in_group = maps / self.group;
            for plane in group * in_group..(group + 1) * in_group {
                let from = &x[(batch * maps + plane) * area..][..area];
                let kernel = &w[(plane * per_group + within) * own..][..own];
                self.spread(from, kernel, &image, to);
            }
        }
        Ok(())
    }

    /// Adds what one map makes of another.
    fn spread<T: Element>(&self, from: &[T], kernel: &[T], image: &[usize; SPATIAL], to: &mut [T]) {
        let [_, height, width] = *image;
        let [_, rows, columns] = self.window.kernel;
        let place = |dim: usize, at: usize, k: usize| {
            let at = at * self.window.strides[dim] + k * self.window.dilations[dim];
            at.checked_sub(self.window.before[dim]).filter(|at| *at < self.out[dim])
        };
        for (k, weight) in kernel.iter().enumerate() {
            let k = [k / columns / rows, k / columns % rows, k % columns];
            for (line, from) in from.chunks_exact(width.max(1)).enumerate() {
                let (z, y) = (place(0, line / height, k[0]), place(1, line % height, k[1]));
                let (Some(z), Some(y)) = (z, y) else { continue };
                let row = &mut to[(z * self.out[1] + y) * self.out[2]..][..self.out[2]];
                let (stride, begin) = (self.window.strides[2], k[2] * self.window.dilations[2]);
                // The first element whose place is not before the output.
                let first = self.window.before[2].saturating_sub(begin).div_ceil(stride);
                let at = (begin + first * stride).saturating_sub(self.window.before[2]);
                let places = row.get_mut(at..).unwrap_or_default().iter_mut().step_by(stride);
                for (to, x) in places.zip(from.get(first..).unwrap_or_default()) {
                    *to = to.plus(x.times(*weight));
                }
            }
        }
    }
}

impl Op for ConvTranspose {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        into.size(self.group);
        into.sizes(&self.out);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (x, w) = (inputs[0].shape, inputs[1].shape);
        let refuse = |what: &str| OpError::shape(format!("x is {x}, w is {w}: {what}"));
        let ((rank, _), (weights_rank, kernel)) = (spatial(&x)?, spatial(&w)?);
        if rank != self.window.rank || weights_rank != rank || kernel != self.window.kernel {
            return Err(refuse("another kernel"));
        }
        let (maps, per_group) = (x.dims()[1], w.dims()[1]);
        if w.dims()[0] != maps || !maps.is_multiple_of(self.group) {
            return Err(refuse("another number of feature maps, or of groups"));
        }
        let outputs = per_group.saturating_mul(self.group);
        if let Some(bias) = inputs.get(2)
            && bias.shape.dims() != [outputs]
        {
            return Err(refuse(&format!("the bias is {}", bias.shape)));
        }
        let front = self.out[..SPATIAL - rank].iter().any(|dim| *dim != 1);
        if front {
            return Err(refuse("more dims in the output"));
        }
        let dims = [&[x.dims()[0], outputs], &self.out[SPATIAL - rank..]].concat();
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_type!(output.info.dtype, T => self.compute::<T>(inputs, output),
            FLOAT = f32, DOUBLE = f64)
    }

    fn flops(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        let per_element = inputs[1].shape.elements() / inputs[1].shape.dims()[0].max(1);
        (2 * inputs[0].shape.elements() as u64).saturating_mul(per_element as u64)
    }
}
