//! RoiAlign: regions of images, each cut into as many bins, which are sampled between elements.

use crate::DataType;
use crate::numbers::Numbers;
use crate::ops::sample::{from_size, to_size};
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "RoiAlign",
    code: 180,
    versions: &[10, 16, 22],
    attributes: &[
        always("mode"),
        always("output_height"),
        always("output_width"),
        always("sampling_ratio"),
        always("spatial_scale"),
        since("coordinate_transformation_mode", 16),
    ],
    inputs: (3, 3),
    operands: (3, 3),
    types: &types::floats(22),
    mixed: &[(2, &[DataType::INT64])],
    refused: "more than 4096 samples along a side of a bin",
    import,
    decode,
    ..OpEntry::BASE
};

/// Most samples along a side of a bin: an endless region would take endless time.
const SAMPLES_MAX: usize = 4096;

/// Bins of regions.
#[derive(Clone, Copy, Debug)]
pub struct RoiAlign {
    /// The highest sample of a bin, not the mean of all.
    highest: bool,
    /// Places are those of the middles of elements.
    half: bool,
    bins: [usize; 2],
    /// Samples along a side of a bin; 0: by its size.
    samples: usize,
    scale: f32,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let highest = match node.text("mode")?.unwrap_or("avg") {
        "avg" => false,
        "max" => true,
        other => return Err(OpError::attribute("mode", other, "avg, max")),
    };
    let name = "coordinate_transformation_mode";
    let half = match node.text(name)? {
        None => node.opset >= 16,
        Some("half_pixel") => true,
        Some("output_half_pixel") => false,
        Some(other) => {
            return Err(OpError::attribute(name, other, "half_pixel, output_half_pixel"));
        }
    };
    let size = |name: &str, default: i64, least: usize, most: usize| {
        let given = node.int(name)?.unwrap_or(default);
        let own = usize::try_from(given).ok().filter(|own| (least..=most).contains(own));
        own.ok_or_else(|| OpError::attribute(name, given, format!("{least} to {most}")))
    };
    let bins = [size("output_height", 1, 1, 1 << 20)?, size("output_width", 1, 1, 1 << 20)?];
    let samples = size("sampling_ratio", 0, 0, SAMPLES_MAX)?;
    let scale = node.float("spatial_scale", 1.0)?;
    Ok(Imported::all(RoiAlign { highest, half, bins, samples, scale }, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let (highest, half, bins) = (from.flag()?, from.flag()?, from.sizes()?);
    let (samples, scale) = (from.size()?, from.f32()?);
    if bins.iter().any(|own| !(1..=1 << 20).contains(own)) || samples > SAMPLES_MAX {
        return Err(OpError::params(format!("bins {bins:?} of {samples} samples")));
    }
    Ok(Box::new(RoiAlign { highest, half, bins, samples, scale }))
}

/// The elements around a place along one side, with their weights; none far outside.
fn neighbours(at: f64, length: usize) -> Option<[(usize, f64); 2]> {
    if at.is_nan() || at < -1.0 || at > from_size(length) {
        return None;
    }
    let (at, last) = (at.max(0.0), length - 1);
    let low = to_size(at);
    if low >= last {
        return Some([(last, 1.0), (last, 0.0)]);
    }
    let part = at - from_size(low);
    Some([(low, 1.0 - part), (low + 1, part)])
}

/// A side of a region: where it begins, the size of a bin, samples in one.
#[derive(Clone, Copy)]
struct Side {
    begin: f64,
    bin: f64,
    samples: usize,
}

impl Side {
    fn at(&self, bin: usize, sample: usize) -> f64 {
        let step = (from_size(sample) + 0.5) * self.bin / from_size(self.samples);
        self.begin + from_size(bin) * self.bin + step
    }
}

impl RoiAlign {
    fn side(&self, begin: f64, end: f64, bins: usize) -> Side {
        let (scale, offset) = (f64::from(self.scale), if self.half { 0.5 } else { 0.0 });
        let (begin, end) = (begin * scale - offset, end * scale - offset);
        let length = if self.half { end - begin } else { (end - begin).max(1.0) };
        let bin = length / from_size(bins);
        let own = if self.samples > 0 { self.samples } else { to_size(bin.ceil()) };
        Side { begin, bin, samples: own.min(SAMPLES_MAX) }
    }

    /// One bin of one feature map, whose first element is `map`.
    fn bin(
        &self,
        x: Numbers<'_, f64>,
        map: usize,
        dims: [usize; 2],
        of: [(Side, usize); 2],
    ) -> f64 {
        let [(rows, row), (columns, column)] = of;
        let (mut sum, mut highest) = (0.0, f64::NEG_INFINITY);
        for y in 0..rows.samples {
            let y = neighbours(rows.at(row, y), dims[0]);
            for sample in 0..columns.samples {
                let sides = y.zip(neighbours(columns.at(column, sample), dims[1]));
                let mut own = 0.0;
                for (y, x_) in sides.iter().flat_map(|(y, x)| y.iter().map(move |y| (y, x))) {
                    for (at, weight) in x_ {
                        let value = x.get(map + y.0 * dims[1] + at) * y.1 * weight;
                        own += value;
                        // By the definition of the parts, not of their sum.
                        highest = highest.max(value);
                    }
                }
                if sides.is_none() {
                    highest = highest.max(0.0);
                }
                sum += own;
            }
        }
        let count = rows.samples * columns.samples;
        match (self.highest, count) {
            (_, 0) => 0.0,
            (true, _) => highest,
            (false, _) => sum / from_size(count),
        }
    }
}

impl Op for RoiAlign {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.highest);
        into.flag(self.half);
        into.sizes(&self.bins);
        into.size(self.samples);
        into.f32(self.scale);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (x, regions, batches) = (inputs[0].shape, inputs[1].shape, inputs[2].shape);
        match (x.dims(), regions.dims(), batches.dims()) {
            ([_, maps, _, _], [count, 4], [own])
                if count == own && (*count == 0 || x.elements() > 0) =>
            {
                let dims = [*count, *maps, self.bins[0], self.bins[1]];
                Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
            }
            _ => Err(OpError::shape(format!(
                "{x}, regions {regions}, batches {batches}; [N, C, H, W], [R, 4], [R] are supported"
            ))),
        }
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let [images, maps, height, width] = *inputs.dims(0) else { return Err(Fault::Memory) };
        let (x, regions) = (inputs.numbers::<f64>(0)?, inputs.numbers::<f64>(1)?);
        let (batches, bins) = (inputs.indices(2)?, self.bins);
        let mut to = output.numbers::<f64>()?;
        for region in 0..batches.len() {
            let edge = |at: usize| regions.get(region * 4 + at);
            let rows = self.side(edge(1), edge(3), bins[0]);
            let columns = self.side(edge(0), edge(2), bins[1]);
            let image = batches.at(region, images);
            for place in 0..maps * bins[0] * bins[1] {
                let (map, own) = (place / bins[0] / bins[1], place % (bins[0] * bins[1]));
                let of = [(rows, own / bins[1]), (columns, own % bins[1])];
                let map = (image * maps + map) * height * width;
                let at = region * maps * bins[0] * bins[1] + place;
                to.set(at, self.bin(x, map, [height, width], of));
            }
        }
        Ok(())
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let samples = self.samples.max(1) as u64;
        (16 * samples * samples).saturating_mul(output.shape.elements() as u64)
    }
}
