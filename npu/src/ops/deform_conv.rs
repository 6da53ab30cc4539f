//! DeformConv: a convolution whose kernel's elements meet the image at places that are data.
//!
//! What the kernel meets is gathered for a group of maps, and multiplied with the weights.

use crate::DataType;
use crate::cast::elements_mut;
use crate::ops::gemm::{self, Gemm};
use crate::ops::sample::from_size;
use crate::ops::window::{SPATIAL, Window, numbers, pads, spatial};
use crate::ops::{Activation, Imported, Node, Op, OpEntry, OpError, always};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "DeformConv",
    code: 194,
    versions: &[19, 22],
    attributes: &[
        always("dilations"),
        always("group"),
        always("kernel_shape"),
        always("offset_group"),
        always("pads"),
        always("strides"),
    ],
    inputs: (3, 5),
    operands: (3, 5),
    types: &[(DataType::FLOAT, 1)],
    refused: "more than three spatial dims",
    import,
    decode: |from: &mut ParamReader<'_>| {
        let (window, groups, offset_groups) = (Window::decode(from)?, from.size()?, from.size()?);
        let own = DeformConv { window, groups, offset_groups, bias: from.flag()? };
        if groups == 0 || offset_groups == 0 {
            return Err(OpError::params(format!("{own:?}")));
        }
        Ok(Box::new(own))
    },
    ..OpEntry::BASE
};

/// A convolution with offsets. Operands: image, weights, offsets, bias if there is one, and a
/// factor for each offset if there is one.
#[derive(Clone, Copy, Debug)]
pub struct DeformConv {
    window: Window,
    groups: usize,
    /// Groups of maps that have the same offsets.
    offset_groups: usize,
    bias: bool,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let (rank, _) = spatial(&node.input(0)?.info.shape)?;
    let (_, weights) = spatial(&node.input(1)?.info.shape)?;
    let kernel = match node.ints("kernel_shape")? {
        None => weights,
        Some(_) => numbers(node, "kernel_shape", rank, 1, 1)?,
    };
    let strides = numbers(node, "strides", rank, 1, 1)?;
    let dilations = numbers(node, "dilations", rank, 1, 1)?;
    let (before, after) = pads(node, rank)?;
    let window = Window { rank, kernel, strides, dilations, before, after, ceil: false };
    let groups = |name: &str| -> Result<usize, OpError> {
        let given = node.int(name)?.unwrap_or(1);
        let own = usize::try_from(given).ok().filter(|own| *own > 0);
        own.ok_or_else(|| OpError::attribute(name, given, "1 or more"))
    };
    let (groups, offset_groups) = (groups("group")?, groups("offset_group")?);
    let op = DeformConv { window, groups, offset_groups, bias: node.has(3) };
    Ok(Imported::all(op, node))
}

/// Sizes of one run.
struct Sizes {
    image: [usize; SPATIAL],
    places: [usize; SPATIAL],
    /// Maps of a group of the image and of the result, elements of the kernel, and places.
    maps: usize,
    out_maps: usize,
    taps: usize,
    area: usize,
}

impl DeformConv {
    fn sizes(&self, x: &Shape, w: &Shape) -> Result<Sizes, OpError> {
        let refuse = || OpError::shape(format!("weights {w} in {} group(s) for {x}", self.groups));
        let ((rank, image), (other, kernel)) = (spatial(x)?, spatial(w)?);
        let ([_, maps, ..], [out_maps, own, ..]) = (x.dims(), w.dims()) else {
            return Err(refuse());
        };
        let fits = rank == self.window.rank
            && other == rank
            && kernel == self.window.kernel
            && own.checked_mul(self.groups) == Some(*maps)
            && out_maps.is_multiple_of(self.groups)
            && maps.is_multiple_of(self.offset_groups);
        if !fits {
            return Err(refuse());
        }
        let places = self.window.places(&image)?;
        let taps = kernel.iter().product();
        let area = places.iter().fold(1usize, |area, own| area.saturating_mul(*own));
        Ok(Sizes { image, places, maps: *own, out_maps: out_maps / self.groups, taps, area })
    }

    /// Elements of what the kernel meets in one group.
    fn columns(sizes: &Sizes) -> usize {
        sizes.maps.saturating_mul(sizes.taps).saturating_mul(sizes.area)
    }
}

/// The value of an image between its elements; what lies outside is zero.
fn between(x: &[f32], image: &[usize; SPATIAL], at: [f32; SPATIAL]) -> f32 {
    let mut corners = [(0, 1.0f32); 1 << SPATIAL];
    let mut count = 1;
    for dim in 0..SPATIAL {
        // What is no number is outside, too.
        if !(at[dim] > -1.0 && f64::from(at[dim]) < from_size(image[dim])) {
            return 0.0;
        }
        let floor = at[dim].floor();
        let part = at[dim] - floor;
        #[expect(clippy::cast_possible_truncation, reason = "from -1 on and below the image's end")]
        let low = floor as i64;
        let mut own = [(0, 0.0); 1 << SPATIAL];
        let mut next = 0;
        for (place, weight) in [(low, 1.0 - part), (low + 1, part)] {
            let inside = usize::try_from(place).ok().filter(|place| *place < image[dim]);
            if let Some(place) = inside.filter(|_| weight != 0.0) {
                for (flat, factor) in &corners[..count] {
                    own[next] = (flat * image[dim] + place, factor * weight);
                    next += 1;
                }
            }
        }
        (corners, count) = (own, next);
    }
    corners[..count].iter().map(|(at, weight)| weight * x[*at]).sum()
}

impl Op for DeformConv {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        into.size(self.groups);
        into.size(self.offset_groups);
        into.flag(self.bias);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (x, w) = (inputs[0].shape, inputs[1].shape);
        let sizes = self.sizes(&x, &w)?;
        let rank = self.window.rank;
        let places = &sizes.places[SPATIAL - rank..];
        let taps = sizes.taps.saturating_mul(self.offset_groups);
        let of = |maps: usize| [&[x.dims()[0], maps][..], places].concat();
        let check = |index: usize, dims: &[usize]| match inputs.get(index) {
            Some(own) if own.shape.dims() != dims => {
                let what = format!("operand {index} is {}; expected {dims:?}", own.shape);
                Err(OpError::shape(what))
            }
            _ => Ok(()),
        };
        check(2, &of(taps.saturating_mul(rank)))?;
        if self.bias {
            check(3, &w.dims()[..1])?;
        } else if inputs.len() > 4 {
            return Err(OpError::shape("one operand more than there are without a bias"));
        }
        check(3 + usize::from(self.bias), &of(taps))?;
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&of(w.dims()[0]))?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (shape, weights) = (inputs.info(0).shape, inputs.info(1).shape);
        let sizes = self.sizes(&shape, &weights).map_err(|_| Fault::Memory)?;
        let Sizes { image, places, maps, out_maps, taps, area } = sizes;
        let (x, w) = (inputs.elements::<f32>(0)?, inputs.elements::<f32>(1)?);
        let offsets = inputs.elements::<f32>(2)?;
        let bias = if self.bias { inputs.optional::<f32>(3)? } else { None };
        let factors = inputs.optional::<f32>(3 + usize::from(self.bias))?;
        let (rank, window, all) = (self.window.rank, &self.window, maps * self.groups);
        let plane = image.iter().product::<usize>();
        let (depth, size) = (maps * taps, Self::columns(&sizes) * size_of::<f32>());
        let columns = output.scratch.get_mut(..size).and_then(elements_mut::<f32>);
        let columns = columns.ok_or(Fault::Memory)?;
        let out = elements_mut::<f32>(output.bytes).ok_or(Fault::Memory)?;
        for (line, out) in out.chunks_exact_mut(out_maps * area).enumerate() {
            let (batch, group) = (line / self.groups, line % self.groups);
            for (row, columns) in columns.chunks_exact_mut(area).enumerate() {
                let (map, tap) = (group * maps + row / taps, row % taps);
                let first = batch * self.offset_groups + map / (all / self.offset_groups);
                let x = &x[(batch * all + map) * plane..][..plane];
                let own = first * taps + tap;
                for (place, to) in columns.iter_mut().enumerate() {
                    let (mut at, mut tap, mut rest) = ([0.0; SPATIAL], tap, place);
                    for dim in (0..SPATIAL).rev() {
                        let (step, start) = (tap % window.kernel[dim], rest % places[dim]);
                        (tap, rest) = (tap / window.kernel[dim], rest / places[dim]);
                        let on = start * window.strides[dim] + step * window.dilations[dim];
                        let plain = from_size(on) - from_size(window.before[dim]);
                        #[expect(clippy::cast_possible_truncation, reason = "a place as a float")]
                        let plain = plain as f32;
                        let moved = (dim + rank).checked_sub(SPATIAL);
                        let moved = moved.map(|dim| offsets[(own * rank + dim) * area + place]);
                        at[dim] = plain + moved.unwrap_or(0.0);
                    }
                    let factor = factors.map_or(1.0, |factors| factors[own * area + place]);
                    *to = between(x, &image, at) * factor;
                }
            }
            let rows = group * out_maps..(group + 1) * out_maps;
            let left = &w[group * out_maps * depth..][..out_maps * depth];
            let bias = bias.map(|bias| &bias[rows]);
            let (right, activation) = (&*columns, Activation::None);
            gemm::run(Gemm {
                left,
                right,
                bias,
                activation,
                out,
                rows: out_maps,
                depth,
                columns: area,
            });
        }
        Ok(())
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let Ok(sizes) = self.sizes(&inputs[0].shape, &inputs[1].shape) else { return 0 };
        let depth = sizes.maps.saturating_mul(sizes.taps);
        (2 * depth as u64).saturating_mul(output.shape.elements() as u64)
    }

    fn scratch_bytes(&self, inputs: &[TensorInfo], _output: &TensorInfo) -> usize {
        let sizes = self.sizes(&inputs[0].shape, &inputs[1].shape);
        sizes.map_or(0, |sizes| Self::columns(&sizes).saturating_mul(size_of::<f32>()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isa::{self, Isa};
    use crate::ops::by_name;
    use crate::ops::testing::{Case, assert_close, float, noise};

    /// Without offsets it is a convolution, with groups, dilations and one to three dims.
    #[test]
    fn no_offsets() {
        for dims in [&[7][..], &[5, 6], &[3, 4, 5]] {
            let rank = dims.len();
            let x = [&[2, 4][..], dims].concat();
            let w = [&[6, 2][..], &[2; 3][..rank]].concat();
            let two = vec![2i64; rank];
            let pads = [vec![1i64; rank], vec![0; rank]].concat();
            let places = dims.iter().map(|dim| (dim + 1 - 3) / 2 + 1);
            let places: Vec<usize> = places.collect();
            let taps = 1 << rank;
            let of =
                |value: &[usize], seed: u64| float(value, &noise(value.iter().product(), seed));
            let (x, w, bias) = (of(&x, 1), of(&w, 2), of(&[6], 3));
            let attributes = |name: &str| {
                let case = Case::new(by_name(name).unwrap(), 22).int("group", 2);
                case.ints("strides", &two).ints("dilations", &two).ints("pads", &pads)
            };
            let offsets = [&[2, 2 * taps * rank][..], &places].concat();
            let offsets = float(&offsets, &vec![0.0; offsets.iter().product()]);
            let conv = attributes("Conv").variable(x.clone()).variable(w.clone());
            let expected = conv.variable(bias.clone()).run();
            let own = attributes("DeformConv").int("offset_group", 2).variable(x).variable(w);
            let own = own.variable(offsets).variable(bias);
            for isa in Isa::ALL {
                assert_close(&isa::at_most(isa, || own.run()), &expected, 1e-5);
            }
            let ones = [&[2, 2 * taps][..], &places].concat();
            let halves = float(&ones, &vec![0.0; ones.iter().product()]);
            let none = own.variable(halves).run();
            let area = places.iter().product::<usize>();
            let bias = noise(6, 3);
            for (at, found) in none.elements::<f32>().iter().enumerate() {
                assert!((found - bias[at / area % 6]).abs() < 1e-6, "factors of 0 leave the bias");
            }
        }
    }

    #[test]
    fn between_elements_and_outside() {
        let x = float(&[1, 1, 2, 2], &[1.0, 2.0, 4.0, 8.0]);
        let run = |y: f32, x_at: f32| {
            let own = Case::new(&ENTRY, 19).variable(x.clone());
            let own = own.variable(float(&[1, 1, 1, 1], &[1.0]));
            let own = own.variable(float(&[1, 2, 2, 2], &[y, y, y, y, x_at, x_at, x_at, x_at]));
            own.run().elements::<f32>().to_vec()
        };
        assert_eq!(run(0.0, 0.0), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(run(0.5, 0.0), [2.5, 5.0, 2.0, 4.0], "below there are zeros");
        assert_eq!(run(0.0, -0.25), [0.75, 1.75, 3.0, 7.0]);
        assert_eq!(run(-9.0, 1e30), [0.0; 4]);
        assert_eq!(run(f32::NAN, 0.0), [0.0; 4]);
    }

    #[test]
    fn a_factor_without_a_bias() {
        let own = Case::new(&ENTRY, 22).variable(float(&[1, 1, 1], &[3.0]));
        let own = own.variable(float(&[1, 1, 1], &[2.0])).variable(float(&[1, 1, 1], &[0.0]));
        let own = own.absent().variable(float(&[1, 1, 1], &[0.5]));
        assert_eq!(own.run(), float(&[1, 1, 1], &[3.0]));
    }

    #[test]
    fn what_is_refused() {
        let own = |w: [usize; 3], offsets: [usize; 3]| {
            let zeros = |dims: [usize; 3]| float(&dims, &vec![0.0; dims.iter().product()]);
            let own = Case::new(&ENTRY, 19).variable(zeros([1, 4, 5])).variable(zeros(w));
            own.variable(zeros(offsets))
        };
        let maps = own([2, 3, 2], [1, 2, 4]);
        assert!(maps.refused().contains("weights [2, 3, 2] in 1 group(s) for [1, 4, 5]"));
        let offsets = own([2, 4, 2], [1, 1, 4]);
        let refused = offsets.refused();
        assert!(refused.contains("operand 2 is [1, 1, 4]; expected [1, 2, 4]"), "{refused}");
        assert!(own([2, 4, 2], [1, 2, 4]).int("group", 0).refused().contains("1 or more"));
    }
}
