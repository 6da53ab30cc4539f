//! MaxPool, AveragePool and LpPool: one number of each place of a window.

use crate::DataType;
use crate::cast::elements_mut;
use crate::element::Element;
use crate::numbers::NumbersMut;
use crate::ops::reduce::no_number;
use crate::ops::blocked::{self, BlockedPool};
use crate::ops::window::{SPATIAL, Window, spatial};
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, since, types};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of MaxPool.
pub static MAX_POOL: OpEntry = OpEntry {
    name: "MaxPool",
    code: 103,
    versions: &[1, 8, 10, 11, 12, 22],
    attributes: &[
        always("auto_pad"),
        always("kernel_shape"),
        always("pads"),
        always("strides"),
        since("storage_order", 8),
        since("ceil_mode", 10),
        since("dilations", 10),
    ],
    outputs: 2,
    types: &[
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::FLOAT16, 1),
        (DataType::INT8, 12),
        (DataType::UINT8, 12),
        (DataType::BF16, 22),
    ],
    refused: "more than three spatial dims",
    import: |node| {
        let columns_first = node.flag("storage_order", false)?;
        Pool::import(Kind::Max { columns_first, indices: node.outputs > 1 }, node)
    },
    decode: |from| {
        let kind = Kind::Max { columns_first: from.flag()?, indices: from.flag()? };
        Ok(Box::new(Pool { kind, window: Window::decode(from)? }))
    },
    ..OpEntry::BASE
};

/// Attributes that pools of numbers have had since they began.
const FIRST: [AttributeSpec; 4] =
    [always("auto_pad"), always("kernel_shape"), always("pads"), always("strides")];

/// The line of AveragePool.
pub static AVERAGE_POOL: OpEntry = OpEntry {
    name: "AveragePool",
    code: 104,
    versions: &[1, 7, 10, 11, 19, 22],
    attributes: &[
        FIRST[0],
        FIRST[1],
        FIRST[2],
        FIRST[3],
        since("count_include_pad", 7),
        since("ceil_mode", 10),
        since("dilations", 19),
    ],
    types: &types::floats(22),
    refused: "more than three spatial dims",
    import: |node| {
        let pads_count = node.flag("count_include_pad", false)?;
        Pool::import(Kind::Average { pads_count }, node)
    },
    decode: |from| {
        let kind = Kind::Average { pads_count: from.flag()? };
        Ok(Box::new(Pool { kind, window: Window::decode(from)? }))
    },
    ..OpEntry::BASE
};

/// The line of LpPool.
pub static LP_POOL: OpEntry = OpEntry {
    name: "LpPool",
    code: 105,
    versions: &[1, 2, 11, 18, 22],
    attributes: &[
        FIRST[0],
        FIRST[1],
        FIRST[2],
        FIRST[3],
        always("p"),
        since("ceil_mode", 18),
        since("dilations", 18),
    ],
    types: &types::floats(22),
    refused: "more than three spatial dims",
    import: |node| Pool::import(Kind::Lp { p: power(node)? }, node),
    decode: |from| {
        let kind = Kind::Lp { p: from.f32()? };
        Ok(Box::new(Pool { kind, window: Window::decode(from)? }))
    },
    ..OpEntry::BASE
};

/// The attribute `p`: a float at first, then a whole number.
pub(super) fn power(node: &Node<'_>) -> Result<f32, OpError> {
    if node.opset < 2 {
        return node.float("p", 2.0);
    }
    let given = node.int("p")?.unwrap_or(2);
    let own = u16::try_from(given).ok().filter(|p| *p > 0);
    own.map(f32::from).ok_or_else(|| OpError::attribute("p", given, "1 or more"))
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Max { columns_first: bool, indices: bool },
    Average { pads_count: bool },
    Lp { p: f32 },
}

/// One number of each place of a window.
#[derive(Clone, Copy, Debug)]
pub struct Pool {
    kind: Kind,
    window: Window,
}

/// An image and a place in it.
struct Place<'a> {
    window: &'a Window,
    image: &'a [usize; SPATIAL],
    at: [usize; SPATIAL],
}

impl Place<'_> {
    /// Calls `of` for each element of the window that is inside, with its place in the image.
    #[inline(always)]
    fn each(&self, mut of: impl FnMut(usize)) {
        let inside = |dim: usize| self.window.inside(dim, self.at[dim], self.image[dim]);
        let (z, y, x) = (inside(0), inside(1), inside(2));
        let [_, height, width] = *self.image;
        let [slices, rows, columns] = self.window.dilations;
        for k in 0..z.1.saturating_sub(z.0) {
            for j in 0..y.1.saturating_sub(y.0) {
                let row = ((z.2 + k * slices) * height + y.2 + j * rows) * width + x.2;
                for i in 0..x.1.saturating_sub(x.0) {
                    of(row + i * columns);
                }
            }
        }
    }

    /// Elements of the window that are inside the image, or inside it and what is added to it.
    fn count(&self, padded: bool) -> usize {
        let window = self.window;
        let along = |dim: usize| {
            if !padded {
                let (first, end, _) = window.inside(dim, self.at[dim], self.image[dim]);
                return end - first;
            }
            let whole = self.image[dim] + window.before[dim] + window.after[dim];
            let begin = self.at[dim] * window.strides[dim];
            whole.saturating_sub(begin).div_ceil(window.dilations[dim]).min(window.kernel[dim])
        };
        (0..SPATIAL).map(along).product()
    }
}

impl Pool {
    /// As a pool of feature maps in blocks, if there is one like it.
    #[must_use]
    pub fn in_blocks(&self) -> Option<BlockedPool> {
        let Window { rank, kernel, strides, dilations, before, after, ceil } = self.window;
        let last = |list: [usize; SPATIAL]| [list[1], list[2]];
        let none = (before, after) == ([0; SPATIAL], [0; SPATIAL]);
        let inside = (1..SPATIAL).all(|dim| before[dim].max(after[dim]) < kernel[dim]);
        let greatest = match self.kind {
            Kind::Max { indices: false, .. } => true,
            Kind::Average { .. } => false,
            _ => return None,
        };
        let near = none || (greatest && inside && dilations == [1; SPATIAL]);
        let (strides, dilations) = (last(strides), last(dilations));
        let (pads_begin, pads_end) = (last(before), last(after));
        let window = blocked::Window { strides, dilations, pads_begin, pads_end };
        let own = BlockedPool { window, kernel: last(kernel), greatest };
        (rank == 2 && !ceil && near).then_some(own)
    }

    fn import(kind: Kind, node: &Node<'_>) -> Result<Imported, OpError> {
        Ok(Imported::first(Self { kind, window: Window::import(node)? }))
    }

    /// Calls `of` for each place of each map: with the number of both, and where the map begins.
    #[inline(always)]
    fn each(
        &self,
        shape: &Shape,
        mut of: impl FnMut(usize, usize, &Place<'_>),
    ) -> Result<(), Fault> {
        let (_, image) = spatial(shape).map_err(|_| Fault::Memory)?;
        let [slices, rows, columns] = self.window.places(&image).map_err(|_| Fault::Memory)?;
        let (area, count) = (image.iter().product::<usize>(), slices * rows * columns);
        for map in 0..shape.dims()[..2].iter().product::<usize>() {
            for index in 0..count {
                let at = [index / columns / rows, index / columns % rows, index % columns];
                let place = Place { window: &self.window, image: &image, at };
                of(map * count + index, map * area, &place);
            }
        }
        Ok(())
    }

    /// Writes the highest element of each place, and where it is.
    fn highest<T: Element>(
        &self,
        shape: &Shape,
        read: impl Fn(usize) -> T,
        mut write: impl FnMut(usize, T),
        indices: &mut [i64],
    ) -> Result<(), Fault> {
        let Kind::Max { columns_first, .. } = self.kind else { return Ok(()) };
        self.each(shape, |number, map, place| {
            let (mut best, mut found) = (T::LOWEST, None);
            place.each(|at| {
                let x = read(map + at);
                // A NaN stays one.
                if found.is_none() || x > best || no_number(x) {
                    (best, found) = (x, Some(at));
                }
            });
            write(number, best);
            let Some(to) = indices.get_mut(number) else { return };
            let [slices, height, width] = *place.image;
            let own = match found {
                Some(at) if columns_first => {
                    let (z, y, x) = (at / width / height, at / width % height, at % width);
                    (x * height + y) * slices + z
                }
                Some(at) => at,
                // Nothing but pads: the image is empty.
                None => 0,
            };
            *to = i64::try_from(map + own).unwrap_or(i64::MAX);
        })
    }

    /// Writes the mean, or the norm, of each place.
    #[expect(clippy::cast_precision_loss, reason = "counts of elements")]
    fn number(
        &self,
        shape: &Shape,
        read: impl Fn(usize) -> f64,
        mut write: impl FnMut(usize, f64),
    ) -> Result<(), Fault> {
        self.each(shape, |number, map, place| {
            let mut sum = 0.0;
            let own = match self.kind {
                Kind::Lp { p } => {
                    let p = f64::from(p);
                    place.each(|at| sum += read(map + at).abs().powf(p));
                    sum.powf(p.recip())
                }
                Kind::Average { pads_count } => {
                    place.each(|at| sum += read(map + at));
                    sum / place.count(pads_count) as f64
                }
                Kind::Max { .. } => sum,
            };
            write(number, own);
        })
    }
}

impl Op for Pool {
    fn code(&self) -> u16 {
        match self.kind {
            Kind::Max { .. } => const { MAX_POOL.code },
            Kind::Average { .. } => const { AVERAGE_POOL.code },
            Kind::Lp { .. } => const { LP_POOL.code },
        }
    }

    fn encode(&self, into: &mut ParamWriter) {
        match self.kind {
            Kind::Max { columns_first, indices } => {
                into.flag(columns_first);
                into.flag(indices);
            }
            Kind::Average { pads_count } => into.flag(pads_count),
            Kind::Lp { p } => into.f32(p),
        }
        self.window.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        let (rank, image) = spatial(&shape)?;
        if rank != self.window.rank {
            return Err(OpError::shape(format!("{shape} for a window of {}", self.window.rank)));
        }
        let places = self.window.places(&image)?;
        let dims = [&shape.dims()[..2], &places[SPATIAL - rank..]].concat();
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn further(&self, inputs: &[TensorInfo]) -> Result<Vec<TensorInfo>, OpError> {
        match self.kind {
            Kind::Max { indices: true, .. } => {
                Ok(vec![TensorInfo { dtype: DataType::INT64, ..self.infer(inputs)? }])
            }
            _ => Ok(Vec::new()),
        }
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        if output.bytes.is_empty() {
            return Ok(());
        }
        let (shape, dtype, bytes) = (inputs.info(0).shape, output.info.dtype, &mut *output.bytes);
        let indices = match output.more.first_mut() {
            Some(Some(part)) => elements_mut::<i64>(part.bytes).ok_or(Fault::Memory)?,
            _ => &mut [],
        };
        if dtype == DataType::FLOAT {
            let (from, to) = (inputs.elements::<f32>(0)?, elements_mut::<f32>(bytes));
            let to = to.ok_or(Fault::Memory)?;
            return match self.kind {
                Kind::Max { .. } => {
                    self.highest(&shape, |at| from[at], |at, x| to[at] = x, indices)
                }
                _ => self.number(&shape, |at| from[at].to_f64(), |at, x| to[at] = f32::of_f64(x)),
            };
        }
        let (from, mut to) = (inputs.numbers::<f64>(0)?, NumbersMut::<f64>::new(dtype, bytes)?);
        match self.kind {
            Kind::Max { .. } => {
                self.highest(&shape, |at| from.get(at), |at, x| to.set(at, x), indices)
            }
            _ => self.number(&shape, |at| from.get(at), |at, x| to.set(at, x)),
        }
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        (self.window.kernel.iter().fold(1, |product: usize, k| product.saturating_mul(*k)) as u64)
            .saturating_mul(output.shape.elements() as u64)
    }
}
