//! OneHot: for each index a row of one number with another at the index.

use crate::DataType;
use crate::element::{Element, with_bits};
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, types};
use crate::params::ParamWriter;
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Types of indices: all with arithmetic.
const NUMBERS: &[DataType] = &[
    DataType::FLOAT,
    DataType::DOUBLE,
    DataType::FLOAT16,
    DataType::INT8,
    DataType::INT16,
    DataType::INT32,
    DataType::INT64,
    DataType::UINT8,
    DataType::UINT16,
    DataType::UINT32,
    DataType::UINT64,
];

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "OneHot",
    code: 139,
    versions: &[9, 11, 28],
    attributes: &[always("axis")],
    inputs: (3, 3),
    operands: (2, 2),
    types: types::ALL,
    mixed: &[(0, NUMBERS)],
    refused: "a `depth` that is computed from data",
    import,
    decode: |from| Ok(Box::new(OneHot { axis: from.size()?, depth: from.size()? })),
    ..OpEntry::ROUNDS
};

/// Rows of one number, each with another one at an index; with none at one that is outside.
#[derive(Clone, Copy, Debug)]
pub struct OneHot {
    /// The new dim.
    axis: usize,
    depth: usize,
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    let rank = node.input(0)?.info.shape.rank();
    let axis = crate::ops::axis("axis", node.int("axis")?.unwrap_or(-1), rank + 1)?;
    let depth = node.numbers(1, "depth")?.first().map(|(whole, _)| *whole).unwrap_or(-1);
    let depth = usize::try_from(depth);
    let depth = depth.map_err(|_| OpError::shape("`depth` is not one number from 0 on"))?;
    Ok(Imported { op: Box::new(OneHot { axis, depth }), operands: vec![0, 2] })
}

impl Op for OneHot {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.sizes(&[self.axis, self.depth]);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (indices, values) = (inputs[0].shape, inputs[1].shape);
        if values.dims() != [2] || self.axis > indices.rank() {
            let axis = self.axis;
            return Err(OpError::shape(format!("values {values}, indices {indices}, axis {axis}")));
        }
        let mut dims = indices.dims().to_vec();
        dims.insert(self.axis, self.depth);
        Ok(TensorInfo::new(inputs[1].dtype, Shape::new(&dims)?))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let inner = inputs.dims(0)[self.axis..].iter().product::<usize>();
        let depth = i64::try_from(self.depth).unwrap_or(i64::MAX);
        let given = inputs.numbers::<f64>(0)?;
        with_bits!(output.info.dtype, V => {
            let (off, on) = match *inputs.elements::<V>(1)? {
                [off, on] => (off, on),
                _ => return Err(Fault::Memory),
            };
            let to = output.elements::<V>()?;
            to.fill(off);
            for place in 0..inputs.info(0).shape.elements() {
                let given = given.get(place).to_i64();
                let own = if given < 0 { given.saturating_add(depth) } else { given };
                let own = usize::try_from(own).ok().filter(|own| *own < self.depth);
                if let Some(own) = own {
                    to[(place / inner * self.depth + own) * inner + place % inner] = on;
                }
            }
            Ok(())
        })
    }
}
