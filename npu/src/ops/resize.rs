//! Resize and Upsample: a tensor sampled at other places, one dim after the other's weights.
//!
//! For each dim and each index of the output there are some indices of the input with weights; an
//! element is the sum over all of them. Weights are found when a node is imported, and are the
//! parameters of the op.

use crate::DataType;
use crate::element::Element;
use crate::ops::sample::{self, Sampling, Taps};
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, axis, before, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::{RANK_MAX, Shape};
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of Resize.
pub static RESIZE: OpEntry = OpEntry {
    name: "Resize",
    code: 117,
    versions: &[10, 11, 13, 18, 19],
    attributes: &[
        always("mode"),
        since("coordinate_transformation_mode", 11),
        since("cubic_coeff_a", 11),
        since("exclude_outside", 11),
        since("extrapolation_value", 11),
        since("nearest_mode", 11),
        since("antialias", 18),
        since("axes", 18),
        since("keep_aspect_ratio_policy", 18),
    ],
    inputs: (1, 4),
    types: TYPES,
    widened: &[(DataType::BF16, 13)],
    refused: "`scales`, `sizes`, `roi` that are computed from data",
    import: |node| Resize::import(&RESIZE, node),
    decode: |from| Resize::decode(const { RESIZE.code }, from),
    ..OpEntry::BASE
};

/// The line of Upsample.
pub static UPSAMPLE: OpEntry = OpEntry {
    name: "Upsample",
    code: 118,
    versions: &[7, 9],
    attributes: &[always("mode"), before("scales", 9)],
    inputs: (1, 2),
    types: TYPES,
    refused: "`scales` that are computed from data; from opset 10 on, where it is Resize",
    import: |node| Resize::import(&UPSAMPLE, node),
    decode: |from| Resize::decode(const { UPSAMPLE.code }, from),
    ..OpEntry::BASE
};

/// Types that images have.
const TYPES: types::Types = &[
    (DataType::FLOAT, 1),
    (DataType::DOUBLE, 1),
    (DataType::FLOAT16, 1),
    (DataType::INT8, 1),
    (DataType::INT32, 1),
    (DataType::INT64, 1),
    (DataType::UINT8, 1),
];

/// A tensor sampled at other places.
#[derive(Clone, Debug)]
pub struct Resize {
    code: u16,
    /// Dims that it was made for.
    input: Shape,
    output: Shape,
    /// For each dim its taps; none where input and output have the same.
    taps: Vec<Option<Taps>>,
    /// What stands for elements outside.
    outside: f32,
}

/// Numbers of a constant input of floats.
fn floats(node: &Node<'_>, index: usize, name: &'static str) -> Result<Vec<f64>, OpError> {
    Ok(node.numbers(index, name)?.into_iter().map(|(_, number)| number).collect())
}

/// What is asked for: scales or sizes, of some axes.
struct Wanted {
    axes: Vec<usize>,
    scales: Option<Vec<f64>>,
    sizes: Option<Vec<usize>>,
}

fn wanted(node: &Node<'_>, entry: &'static OpEntry, rank: usize) -> Result<Wanted, OpError> {
    let axes = match node.ints("axes")? {
        None => (0..rank).collect(),
        Some(given) => {
            given.iter().map(|own| axis("axes", *own, rank)).collect::<Result<Vec<_>, _>>()?
        }
    };
    let scales_at = if node.opset < 11 { 1 } else { 2 };
    let filled = |index: usize| {
        node.has(index) && node.input(index).is_ok_and(|own| own.info.shape.elements() > 0)
    };
    let mut own = Wanted { axes, scales: None, sizes: None };
    if let Some(scales) = node.floats("scales")? {
        own.scales = Some(scales.iter().map(|scale| f64::from(*scale)).collect());
    } else if filled(3) {
        let sizes = node.integers(3, "sizes")?;
        let below = || OpError::shape("a size below 0");
        let size = |size: &i64| usize::try_from(*size).map_err(|_| below());
        own.sizes = Some(sizes.iter().map(size).collect::<Result<_, _>>()?);
    } else if filled(scales_at) {
        own.scales = Some(floats(node, scales_at, "scales")?);
    }
    let count = own.scales.as_ref().map(Vec::len).or(own.sizes.as_ref().map(Vec::len));
    if count != Some(own.axes.len()) || (own.scales.is_some() && filled(3)) {
        let (name, axes) = (entry.name, own.axes.len());
        return Err(OpError::shape(format!("{name} wants {axes} scales or {axes} sizes")));
    }
    if own.scales.iter().flatten().any(|scale| !(*scale > 0.0 && scale.is_finite())) {
        return Err(OpError::shape("a scale is not above 0"));
    }
    Ok(own)
}

impl Resize {
    /// How often each pixel of `[N, C, H, W]` is repeated along both dims, when that is all.
    #[must_use]
    pub fn repeats(&self) -> Option<[usize; 2]> {
        let &[None, None, _, _] = &self.taps[..] else { return None };
        let along = |dim: usize| {
            let (length, size) = (self.input.dims()[dim], self.output.dims()[dim]);
            let times = size.checked_div(length).filter(|times| times * length == size)?;
            let Some(taps) = &self.taps[dim] else { return Some(1) };
            let repeated = |at: usize| taps.of(at) == Some(&[(at / times, 1.0)]);
            (times > 0 && (0..size).all(repeated)).then_some(times)
        };
        Some([along(2)?, along(3)?])
    }

    fn import(entry: &'static OpEntry, node: &Node<'_>) -> Result<Imported, OpError> {
        if entry.name == "Upsample" && node.opset > 9 {
            let supported = "7 to 9".to_owned();
            return Err(OpError::Opset { found: node.opset, supported });
        }
        let shape = node.input(0)?.info.shape;
        let mut wanted = wanted(node, entry, shape.rank())?;
        let sampling = Sampling::import(node)?;
        let roi = if sampling.crops() {
            let roi = floats(node, 1, "roi")?;
            if roi.len() != 2 * wanted.axes.len() {
                return Err(OpError::shape(format!("`roi` has {} numbers", roi.len())));
            }
            Some(roi)
        } else {
            None
        };
        keep_aspect(node, &shape, &mut wanted)?;
        let mut dims = shape.dims().to_vec();
        let mut taps = vec![None; dims.len()];
        for (place, axis) in wanted.axes.iter().enumerate() {
            let length = dims[*axis];
            let part = roi.as_ref().map(|roi| (roi[place], roi[place + wanted.axes.len()]));
            let (size, scale) = match (&wanted.sizes, &wanted.scales) {
                (Some(sizes), _) => (sizes[place], ratio(sizes[place], length)),
                (_, Some(scales)) => (scaled(length, scales[place], part), scales[place]),
                (None, None) => (length, 1.0),
            };
            let size = Shape::new(&[size])?.dims()[0];
            if length == 0 && size > 0 {
                return Err(OpError::shape(format!("{shape} has nothing along axis {axis}")));
            }
            if size > sample::PLACES_MAX {
                return Err(OpError::shape(format!("{size} elements along axis {axis}")));
            }
            dims[*axis] = size;
            if size != length || scale != 1.0 || part.is_some() {
                taps[*axis] = Some(sampling.taps(length, size, scale, part));
            }
        }
        let outside = node.float("extrapolation_value", 0.0)?;
        let output = Shape::new(&dims)?;
        Ok(Imported::first(Self { code: entry.code, input: shape, output, taps, outside }))
    }

    fn decode(code: u16, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        let (input, output, outside) = (from.shape()?, from.shape()?, from.f32()?);
        let mut taps = Vec::new();
        if input.rank() != output.rank() {
            return Err(OpError::params(format!("{input} becomes {output}")));
        }
        for (length, size) in input.dims().iter().zip(output.dims()) {
            let own = if from.flag()? { Some(Taps::decode(from, *length, *size)?) } else { None };
            if own.is_none() && length != size {
                return Err(OpError::params(format!("{length} elements become {size}")));
            }
            taps.push(own);
        }
        Ok(Box::new(Self { code, input, output, taps, outside }))
    }

    /// Calls `write` with each element's place, and with what it is; with nothing outside.
    fn compute(&self, from: &dyn Fn(usize) -> f64, write: &mut dyn FnMut(usize, Option<Value>)) {
        let (strides, dims) = (self.input.strides(), self.output.dims());
        let mut index = [0; RANK_MAX];
        for to in 0..self.output.elements() {
            write(to, self.element(from, 0, &index, &strides, 0));
            for dim in (0..dims.len()).rev() {
                index[dim] += 1;
                if index[dim] < dims[dim] {
                    break;
                }
                index[dim] = 0;
            }
        }
    }

    /// The value at an index, from a dim on; `None` outside.
    fn element(
        &self,
        from: &dyn Fn(usize) -> f64,
        dim: usize,
        index: &[usize; RANK_MAX],
        strides: &[usize; RANK_MAX],
        at: usize,
    ) -> Option<Value> {
        let Some(taps) = self.taps.get(dim) else { return Some(Value::At(at)) };
        let Some(taps) = taps else {
            return self.element(from, dim + 1, index, strides, at + index[dim] * strides[dim]);
        };
        let own = taps.of(index[dim])?;
        if let [(only, weight)] = own
            && *weight == 1.0
        {
            return self.element(from, dim + 1, index, strides, at + only * strides[dim]);
        }
        let mut sum = 0.0;
        for (place, weight) in own {
            let at = at + place * strides[dim];
            sum += weight
                * match self.element(from, dim + 1, index, strides, at)? {
                    Value::At(at) => from(at),
                    Value::Sum(sum) => sum,
                };
        }
        Some(Value::Sum(sum))
    }
}

/// An element of the input, or a sum of several.
enum Value {
    At(usize),
    Sum(f64),
}

/// Sizes by one scale for all axes, when the node asks for that.
fn keep_aspect(node: &Node<'_>, shape: &Shape, wanted: &mut Wanted) -> Result<(), OpError> {
    let policy = node.text("keep_aspect_ratio_policy")?.unwrap_or("stretch");
    let Some(sizes) = &mut wanted.sizes else { return Ok(()) };
    let dims: Vec<usize> = wanted.axes.iter().map(|axis| shape.dims()[*axis]).collect();
    let scales = sizes.iter().zip(&dims).map(|(size, dim)| ratio(*size, *dim));
    let scale = match policy {
        "stretch" => return Ok(()),
        "not_larger" => scales.fold(f64::INFINITY, f64::min),
        "not_smaller" => scales.fold(0.0, f64::max),
        other => {
            let supported = "stretch, not_larger, not_smaller";
            return Err(OpError::attribute("keep_aspect_ratio_policy", other, supported));
        }
    };
    let round = |dim: &usize| sample::to_size((sample::from_size(*dim) * scale + 0.5).floor());
    *sizes = dims.iter().map(round).collect();
    wanted.scales = Some(vec![scale; dims.len()]);
    Ok(())
}

fn ratio(size: usize, length: usize) -> f64 {
    sample::from_size(size) / sample::from_size(length.max(1))
}

/// The size that a scale makes, of a part of the dim.
fn scaled(length: usize, scale: f64, part: Option<(f64, f64)>) -> usize {
    let part = part.map_or(1.0, |(begin, end)| end - begin);
    sample::to_size((sample::from_size(length) * part * scale).floor())
}

impl Op for Resize {
    fn code(&self) -> u16 {
        self.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.shape(&self.input);
        into.shape(&self.output);
        into.f32(self.outside);
        for taps in &self.taps {
            into.flag(taps.is_some());
            taps.iter().for_each(|taps| taps.encode(into));
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if inputs[0].shape != self.input {
            let (found, own) = (inputs[0].shape, self.input);
            return Err(OpError::shape(format!("{found}; expected {own}")));
        }
        Ok(TensorInfo::new(inputs[0].dtype, self.output))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        if output.info.dtype == DataType::FLOAT {
            let (from, to) = (inputs.elements::<f32>(0)?, output.elements::<f32>()?);
            self.compute(&|at| f64::from(from[at]), &mut |at, value| {
                to[at] = match value {
                    Some(Value::At(own)) => from[own],
                    Some(Value::Sum(sum)) => f32::of_f64(sum),
                    None => self.outside,
                };
            });
            return Ok(());
        }
        // The bytes of an element, so that whole numbers stay exact.
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let (from, bytes) = (inputs.numbers::<f64>(0)?, inputs.bytes(0));
        let mut to = output.numbers::<f64>()?;
        self.compute(&|at| from.get(at), &mut |at, value| match value {
            Some(Value::At(own)) => to.set_bytes(at, &bytes[own * size..][..size]),
            Some(Value::Sum(sum)) => to.set(at, sum),
            None => to.set(at, f64::from(self.outside)),
        });
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let taps = self.taps.iter().flatten().map(|taps| taps.most() as u64);
        2 * taps.fold(output.shape.elements() as u64, u64::saturating_mul)
    }
}
