//! GridSample: elements of images at places between -1 and 1, between elements by their
//! neighbours.

use crate::DataType;
use crate::ops::sample::{from_size, to_size};
use crate::ops::window::{SPATIAL, spatial};
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "GridSample",
    code: 146,
    versions: &[16, 20, 22],
    attributes: &[always("align_corners"), always("mode"), always("padding_mode")],
    inputs: (2, 2),
    operands: (2, 2),
    types: &[(DataType::FLOAT, 1), (DataType::DOUBLE, 1)],
    widened: &types::halves(22),
    mixed: &[(1, &[DataType::FLOAT, DataType::DOUBLE])],
    refused: "more than three spatial dims",
    import,
    decode,
    ..OpEntry::BASE
};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Nearest,
    Linear,
    Cubic,
}

/// What is outside.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outside {
    Zeros,
    Border,
    Reflection,
}

const MODES: [(&str, Mode); 5] = [
    ("nearest", Mode::Nearest),
    ("linear", Mode::Linear),
    ("cubic", Mode::Cubic),
    ("bilinear", Mode::Linear),
    ("bicubic", Mode::Cubic),
];
const OUTSIDES: [(&str, Outside); 3] =
    [("zeros", Outside::Zeros), ("border", Outside::Border), ("reflection", Outside::Reflection)];

/// Elements at places of a grid.
#[derive(Clone, Copy, Debug)]
pub struct GridSample {
    mode: Mode,
    outside: Outside,
    /// -1 and 1 are the middles of the elements at the ends, else their outer edges.
    corners: bool,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let own = if node.opset < 20 { &MODES[..] } else { &MODES[..3] };
    let given = node.text("mode")?.unwrap_or(if node.opset < 20 { "bilinear" } else { "linear" });
    let mode = own.iter().find(|(name, _)| *name == given);
    let refuse = || OpError::attribute("mode", given, "nearest, linear, cubic (bi… before 20)");
    let (_, mode) = mode.ok_or_else(refuse)?;
    let given = node.text("padding_mode")?.unwrap_or("zeros");
    let outside = OUTSIDES.iter().find(|(name, _)| *name == given);
    let refuse = || OpError::attribute("padding_mode", given, "zeros, border, reflection");
    let (_, outside) = outside.ok_or_else(refuse)?;
    let corners = node.flag("align_corners", false)?;
    Ok(Imported::all(GridSample { mode: *mode, outside: *outside, corners }, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let (mode, outside) = (MODES.get(from.size()?), OUTSIDES.get(from.size()?));
    let own = mode.zip(outside).ok_or_else(|| OpError::params("no such mode"))?;
    let corners = from.flag()?;
    Ok(Box::new(GridSample { mode: own.0.1, outside: own.1.1, corners }))
}

impl GridSample {
    /// The ends between which places are inside, for reflections.
    fn ends(&self, length: usize) -> (f64, f64) {
        let last = from_size(length) - 1.0;
        if self.corners { (0.0, last) } else { (-0.5, last + 0.5) }
    }

    fn reflected(&self, x: f64, length: usize) -> f64 {
        let (low, high) = self.ends(length);
        let range = high - low;
        if range <= 0.0 || !x.is_finite() {
            return low.max(0.0);
        }
        let way = (x - low).rem_euclid(2.0 * range);
        low + if way <= range { way } else { 2.0 * range - way }
    }

    /// A place as an index with a fraction.
    fn coordinate(&self, given: f64, length: usize) -> f64 {
        let own = from_size(length);
        let x = if self.corners {
            (given + 1.0) / 2.0 * (own - 1.0)
        } else {
            ((given + 1.0) * own - 1.0) / 2.0
        };
        let x = if self.mode == Mode::Nearest { x.round_ties_even() } else { x };
        let (low, high) = self.ends(length);
        match self.outside {
            _ if (low..=high).contains(&x) => x,
            Outside::Zeros => x,
            Outside::Border => x.clamp(0.0, own - 1.0),
            Outside::Reflection => self.reflected(x, length),
        }
    }

    /// The index of an element, also of one outside.
    fn index(&self, at: f64, length: usize) -> Option<usize> {
        let last = from_size(length) - 1.0;
        match self.outside {
            _ if (0.0..=last).contains(&at) => Some(to_size(at)),
            Outside::Zeros => None,
            Outside::Border => Some(to_size(at.max(0.0)).min(length - 1)),
            Outside::Reflection => {
                Some(to_size(self.reflected(at, length).max(0.0)).min(length - 1))
            }
        }
    }

    /// The neighbours of a place along a dim, and their weights.
    fn taps(&self, x: f64, length: usize) -> [(Option<usize>, f64); 4] {
        let (floor, mut taps) = (x.floor(), [(None, 0.0); 4]);
        let part = x - floor;
        let weights = match self.mode {
            Mode::Nearest => [0.0, 1.0, 0.0, 0.0],
            Mode::Linear => [0.0, 1.0 - part, part, 0.0],
            Mode::Cubic => [part + 1.0, part, 1.0 - part, 2.0 - part].map(cubic),
        };
        for (place, (tap, weight)) in taps.iter_mut().zip(weights).enumerate() {
            if weight != 0.0 {
                *tap = (self.index(floor + from_size(place) - 1.0, length), weight);
            }
        }
        taps
    }

    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (x, grid) = (inputs.numbers::<f64>(0)?, inputs.numbers::<f64>(1)?);
        let (rank, image) = spatial(&inputs.info(0).shape).map_err(|_| Fault::Memory)?;
        let maps = inputs.dims(0)[1];
        let area = image.iter().product::<usize>();
        let places = inputs.info(1).shape.elements() / rank / inputs.dims(1)[0].max(1);
        let count = output.info.shape.elements();
        let mut to = output.numbers::<f64>()?;
        for flat in 0..count {
            let (map, place) = (flat / places, flat % places);
            // The last number of the grid is the first dim's. Dims in front have one element.
            let mut taps = [[(Some(0), 1.0), (None, 0.0), (None, 0.0), (None, 0.0)]; SPATIAL];
            for dim in 0..rank {
                let at = (map / maps * places + place) * rank + rank - 1 - dim;
                let given = grid.get(at);
                let length = image[SPATIAL - rank + dim];
                taps[SPATIAL - rank + dim] = self.taps(self.coordinate(given, length), length);
            }
            let mut sum = 0.0;
            for (k, a) in taps[0] {
                for (j, b) in taps[1] {
                    for (i, c) in taps[2] {
                        if let (Some(k), Some(j), Some(i)) = (k, j, i) {
                            let own = (k * image[1] + j) * image[2] + i;
                            sum += a * b * c * x.get(map * area + own);
                        }
                    }
                }
            }
            to.set(flat, sum);
        }
        Ok(())
    }
}

/// Keys's weight at a distance, for -0.75.
fn cubic(x: f64) -> f64 {
    let a = -0.75;
    if x <= 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else {
        ((a * x - 5.0 * a) * x + 8.0 * a) * x - 4.0 * a
    }
}

impl Op for GridSample {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(MODES.iter().position(|(_, own)| *own == self.mode).unwrap_or(0));
        into.size(OUTSIDES.iter().position(|(_, own)| *own == self.outside).unwrap_or(0));
        into.flag(self.corners);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (x, grid) = (inputs[0].shape, inputs[1].shape);
        let (rank, image) = spatial(&x)?;
        let fits = grid.rank() == x.rank()
            && grid.dims()[0] == x.dims()[0]
            && grid.dims()[grid.rank() - 1] == rank
            && (!image.contains(&0) || grid.elements() == 0);
        if !fits {
            return Err(OpError::shape(format!("a grid of {grid} for {x}")));
        }
        let dims = [&x.dims()[..2], &grid.dims()[1..=rank]].concat();
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        self.compute(inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        16 * output.shape.elements() as u64
    }
}
