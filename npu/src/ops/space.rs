//! DepthToSpace and SpaceToDepth: blocks of feature maps become blocks of an image, and back.

use crate::ops::movement::Strided;
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, always, since, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// A line of the table.
const fn entry(
    name: &'static str,
    code: u16,
    versions: &'static [u32],
    attributes: &'static [AttributeSpec],
    import: fn(&Node<'_>) -> Result<Imported, OpError>,
    decode: fn(&mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError>,
) -> OpEntry {
    OpEntry {
        name,
        code,
        versions,
        attributes,
        inputs: (1, 1),
        outputs: 1,
        operands: (1, 1),
        types: types::ALL,
        import,
        decode,
        ..OpEntry::MOVES
    }
}

/// The line of DepthToSpace.
pub static DEPTH_TO_SPACE: OpEntry = entry(
    "DepthToSpace",
    19,
    &[1, 11, 13, 28],
    &[always("blocksize"), since("mode", 11)],
    |node| Space::import(node, false),
    |from| Space::decode(from, false),
);

/// The line of SpaceToDepth.
pub static SPACE_TO_DEPTH: OpEntry = entry(
    "SpaceToDepth",
    20,
    &[1, 13, 28],
    &[always("blocksize"), since("mode", 28)],
    |node| Space::import(node, true),
    |from| Space::decode(from, true),
);

/// Blocks of feature maps that become blocks of an image, or back.
#[derive(Clone, Copy, Debug)]
pub struct Space {
    /// Width and height of a block.
    block: usize,
    /// The feature maps that become one are neighbours (mode CRD).
    columns_first: bool,
    /// From the image to feature maps.
    to_depth: bool,
}

impl Space {
    /// Depth to space: maps that are neighbours go to the same place of a square.
    #[must_use]
    pub const fn spread(size: usize) -> Self {
        Self { block: size, columns_first: false, to_depth: false }
    }

    /// The size of the squares, when it is such a one.
    #[must_use]
    pub fn spreads(&self) -> Option<usize> {
        (!self.to_depth && !self.columns_first).then_some(self.block)
    }

    fn import(node: &Node<'_>, to_depth: bool) -> Result<Imported, OpError> {
        let missing = || OpError::attribute("blocksize", "is not given", "1 or more");
        let given = node.int("blocksize")?.ok_or_else(missing)?;
        let block = usize::try_from(given).ok().filter(|block| *block > 0);
        let block = block.ok_or_else(|| OpError::attribute("blocksize", given, "1 or more"))?;
        let columns_first = match node.text("mode")? {
            None | Some("DCR") => false,
            Some("CRD") => true,
            Some(other) => return Err(OpError::attribute("mode", other, "DCR, CRD")),
        };
        Ok(Imported::first(Self { block, columns_first, to_depth }))
    }

    fn decode(from: &mut ParamReader<'_>, to_depth: bool) -> Result<Box<dyn Op>, OpError> {
        let (block, columns_first) = (from.size()?, from.flag()?);
        if block == 0 {
            return Err(OpError::params("blocks of no size"));
        }
        Ok(Box::new(Self { block, columns_first, to_depth }))
    }
}

impl Op for Space {
    fn code(&self) -> u16 {
        if self.to_depth { const { SPACE_TO_DEPTH.code } } else { const { DEPTH_TO_SPACE.code } }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.size(self.block);
        into.flag(self.columns_first);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (shape, block) = (inputs[0].shape, self.block);
        let refuse = |what: &str| OpError::shape(format!("{shape}: {what} for blocks of {block}"));
        let [n, c, h, w] = *shape.dims() else { return Err(refuse("not [N, C, H, W]")) };
        let area = block.checked_mul(block).ok_or_else(|| refuse("too small"))?;
        let dims = if self.to_depth {
            if !h.is_multiple_of(block) || !w.is_multiple_of(block) {
                return Err(refuse("no multiple"));
            }
            [n, c.saturating_mul(area), h / block, w / block]
        } else {
            if !c.is_multiple_of(area) {
                return Err(refuse("no multiple of their area"));
            }
            [n, c / area, h.saturating_mul(block), w.saturating_mul(block)]
        };
        Ok(TensorInfo::new(inputs[0].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let [n, c, h, w] = *inputs.dims(0) else { return Err(Fault::Memory) };
        let block = self.block;
        let mut walk = Strided::new();
        walk.push(n, c * h * w);
        if self.to_depth {
            // [n, c, h / b, b, w / b, b]
            if self.columns_first {
                walk.push(c, h * w);
            }
            walk.push(block, w);
            walk.push(block, 1);
            if !self.columns_first {
                walk.push(c, h * w);
            }
            walk.push(h / block, w * block);
            walk.push(w / block, block);
        } else {
            let maps = c / (block * block);
            let (map, row, column) = if self.columns_first {
                (block * block, block, 1)
            } else {
                (1, block * maps, maps)
            };
            walk.push(maps, map * h * w);
            walk.push(h, w);
            walk.push(block, row * h * w);
            walk.push(w, 1);
            walk.push(block, column * h * w);
        }
        walk.copy(0, inputs, output)
    }

    fn flops(&self, _inputs: &[TensorInfo], _output: &TensorInfo) -> u64 {
        0
    }
}
