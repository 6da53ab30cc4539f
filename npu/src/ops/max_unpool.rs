//! MaxUnpool: the elements that MaxPool found, back at their places, and zeros elsewhere.

use crate::DataType;
use crate::ops::window::{SPATIAL, Window};
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "MaxUnpool",
    code: 178,
    versions: &[9, 11, 22],
    attributes: &[always("kernel_shape"), always("pads"), always("strides")],
    inputs: (2, 3),
    operands: (2, 2),
    types: &types::floats(22),
    mixed: &[(1, &[DataType::INT64])],
    refused: "an `output_shape` that is not what follows from kernel, strides and pads; more than \
              three spatial dims",
    import,
    decode: |from: &mut ParamReader<'_>| Ok(Box::new(MaxUnpool { window: Window::decode(from)? })),
    ..OpEntry::BASE
};

/// Elements at their places before a pool.
#[derive(Clone, Copy, Debug)]
pub struct MaxUnpool {
    window: Window,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let op = MaxUnpool { window: Window::import(node)? };
    if node.has(2) {
        let (own, given) =
            (op.result(&node.input(0)?.info.shape)?, node.integers(2, "output_shape")?);
        if Shape::from_i64(&given)? != own {
            // Definition and engines differ: indices are those of one or the other.
            return Err(OpError::shape(format!("`output_shape` {given:?}; supported: {own}")));
        }
    }
    Ok(Imported { op: Box::new(op), operands: vec![0, 1] })
}

impl MaxUnpool {
    fn result(&self, x: &Shape) -> Result<Shape, OpError> {
        let (window, refuse) =
            (&self.window, || OpError::shape(format!("{x} is no pool's result")));
        let rank = window.rank;
        if x.rank() != rank + 2 {
            return Err(refuse());
        }
        let mut dims = x.dims().to_vec();
        for (dim, own) in dims[2..].iter_mut().enumerate() {
            let dim = SPATIAL - rank + dim;
            let last = own.checked_sub(1).ok_or_else(refuse)?;
            let whole = last.saturating_mul(window.strides[dim]).saturating_add(window.kernel[dim]);
            let pads = window.before[dim].saturating_add(window.after[dim]);
            *own = whole.checked_sub(pads).ok_or_else(refuse)?;
        }
        Ok(Shape::new(&dims)?)
    }
}

impl Op for MaxUnpool {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.window.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        if inputs[0].shape != inputs[1].shape {
            let (x, indices) = (inputs[0].shape, inputs[1].shape);
            return Err(OpError::shape(format!("indices {indices} for {x}")));
        }
        Ok(TensorInfo::new(inputs[0].dtype, self.result(&inputs[0].shape)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let size = element_size(output.info.dtype).ok_or(Fault::Type(output.info.dtype))?;
        let (whole, indices) = (output.info.shape.elements(), inputs.indices(1)?);
        output.bytes.fill(0);
        for (place, x) in inputs.bytes(0).chunks_exact(size).enumerate() {
            let at = indices.at(place, whole) * size;
            output.bytes[at..at + size].copy_from_slice(x);
        }
        Ok(())
    }
}
