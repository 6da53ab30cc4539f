//! Col2Im: images of the sums of blocks that lie in columns.

use crate::numbers::{Wide, with_wide};
use crate::ops::window::{SPATIAL, Window, numbers, pads};
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Col2Im",
    code: 179,
    versions: &[18],
    attributes: &[always("dilations"), always("pads"), always("strides")],
    inputs: (3, 3),
    types: types::ALL,
    refused: "`image_shape` and `block_shape` that are computed from data; more than three spatial \
              dims",
    import,
    decode,
    ..OpEntry::BASE
};

/// Blocks of columns, summed where they lie over one another.
#[derive(Clone, Copy, Debug)]
pub struct Columns {
    window: Window,
    image: [usize; SPATIAL],
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let (image, block) = (node.integers(1, "image_shape")?, node.integers(2, "block_shape")?);
    let rank = image.len();
    let sizes = |given: &[i64]| {
        let refuse =
            || OpError::shape(format!("{given:?}: 1 to 3 dims from 1 on, as many of both"));
        if !(1..=SPATIAL).contains(&rank) || given.len() != rank {
            return Err(refuse());
        }
        let mut own = [1; SPATIAL];
        for (to, given) in own[SPATIAL - rank..].iter_mut().zip(given) {
            let fits = |size: &usize| (1..1 << 40).contains(size);
            *to = usize::try_from(*given).ok().filter(fits).ok_or_else(refuse)?;
        }
        Ok(own)
    };
    let (image, kernel) = (sizes(&image)?, sizes(&block)?);
    let strides = numbers(node, "strides", rank, 1, 1)?;
    let dilations = numbers(node, "dilations", rank, 1, 1)?;
    let (before, after) = pads(node, rank)?;
    let window = Window { rank, kernel, strides, dilations, before, after, ceil: false };
    Ok(Imported::first(Columns { window, image }))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let own = Columns { window: Window::decode(from)?, image: from.sizes()? };
    let front = &own.image[..SPATIAL - own.window.rank];
    if front.iter().any(|dim| *dim != 1) || own.image.contains(&0) || own.window.ceil {
        return Err(OpError::params(format!("{own:?} is no image")));
    }
    Ok(Box::new(own))
}

impl Columns {
    /// One element: what all blocks have there.
    fn sum<W: Wide>(
        &self,
        at: [usize; SPATIAL],
        places: &[usize; SPATIAL],
        of: &mut dyn FnMut(usize, usize) -> W,
    ) -> W {
        let (mut sum, window) = (W::ZERO, &self.window);
        let [_, rows, columns] = window.kernel;
        for element in 0..window.kernel.iter().product::<usize>() {
            let own = [element / columns / rows, element / columns % rows, element % columns];
            let mut column = Some(0);
            for dim in 0..SPATIAL {
                let padded = at[dim] + window.before[dim];
                let way = padded.checked_sub(own[dim] * window.dilations[dim]);
                let place = way.filter(|way| way.is_multiple_of(window.strides[dim]));
                let place = place.map(|way| way / window.strides[dim]);
                let place = place.filter(|place| *place < places[dim]);
                column = column.zip(place).map(|(column, place)| column * places[dim] + place);
            }
            if let Some(column) = column {
                sum = sum.plus(of(element, column));
            }
        }
        sum
    }
}

impl Op for Columns {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
        into.sizes(&self.image);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let shape = inputs[0].shape;
        let product =
            |list: &[usize]| list.iter().fold(1, |all: usize, own| all.saturating_mul(*own));
        let (block, places) = (product(&self.window.kernel), self.window.places(&self.image)?);
        match *shape.dims() {
            [n, c, columns] if c.is_multiple_of(block) && columns == product(&places) => {
                let own = &self.image[SPATIAL - self.window.rank..];
                Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&[&[n, c / block], own].concat())?))
            }
            _ => Err(OpError::shape(format!(
                "{shape}: [N, C * {block}, {}] is supported",
                product(&places)
            ))),
        }
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let places = self.window.places(&self.image).map_err(|_| Fault::Memory)?;
        let (columns, block) = (inputs.dims(0)[2], self.window.kernel.iter().product::<usize>());
        let ([_, height, width], area) = (self.image, self.image.iter().product::<usize>());
        let elements = output.info.shape.elements();
        with_wide!(output.info.dtype, W => {
            let from = inputs.numbers::<W>(0)?;
            let mut to = output.numbers::<W>()?;
            for flat in 0..elements {
                let (map, place) = (flat / area, flat % area);
                let at = [place / width / height, place / width % height, place % width];
                let sum = self.sum(at, &places, &mut |element, column| {
                    from.get((map * block + element) * columns + column)
                });
                to.set(flat, sum);
            }
            Ok(())
        })
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let block = self.window.kernel.iter().product::<usize>() as u64;
        block.saturating_mul(output.shape.elements() as u64)
    }
}
