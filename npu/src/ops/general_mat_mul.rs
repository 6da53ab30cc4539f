//! Gemm: alpha * A * B + beta * C, with A and B transposed where that is asked for.

use crate::DataType;
use crate::element::Element;
use crate::numbers::{Wide, with_wide};
use crate::ops::broadcast::Walk;
use crate::ops::{Imported, Node, Op, OpEntry, OpError, always, before, types};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of the table.
pub static ENTRY: OpEntry = OpEntry {
    name: "Gemm",
    code: 109,
    versions: &[1, 6, 7, 9, 11, 13],
    attributes: &[
        always("alpha"),
        always("beta"),
        always("transA"),
        always("transB"),
        before("broadcast", 7),
    ],
    inputs: (2, 3),
    operands: (2, 3),
    types: &[
        (DataType::FLOAT, 1),
        (DataType::DOUBLE, 1),
        (DataType::INT32, 9),
        (DataType::INT64, 9),
        (DataType::UINT32, 9),
        (DataType::UINT64, 9),
    ],
    widened: &types::halves(13),
    import,
    decode,
    ..OpEntry::BASE
};

/// alpha * A * B + beta * C.
#[derive(Clone, Copy, Debug)]
pub struct GeneralMatMul {
    /// A factor of the product.
    pub alpha: f32,
    /// A factor of C.
    pub beta: f32,
    /// A and B are transposed.
    pub transposed: [bool; 2],
}

fn import(node: &Node<'_>) -> Result<Imported, OpError> {
    if node.opset < 11 && !node.has(2) {
        let supported = "3 before opset 11".to_owned();
        return Err(OpError::Count { what: "inputs", found: 2, supported });
    }
    let own = GeneralMatMul {
        alpha: node.float("alpha", 1.0)?,
        beta: node.float("beta", 1.0)?,
        transposed: [node.flag("transA", false)?, node.flag("transB", false)?],
    };
    if node.opset < 7 && !node.flag("broadcast", false)? {
        let (a, b) = (node.input(0)?.info, node.input(1)?.info);
        let found = node.input(2)?.info.shape;
        if own.infer(&[a, b])?.shape != found {
            return Err(OpError::shape(format!("C is {found}; `broadcast` = 0: equal shapes")));
        }
    }
    Ok(Imported::all(own, node))
}

fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
    let (alpha, beta, transposed) = (from.f32()?, from.f32()?, [from.flag()?, from.flag()?]);
    Ok(Box::new(GeneralMatMul { alpha, beta, transposed }))
}

impl GeneralMatMul {
    /// Of the type that models have.
    fn floats(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (a, b) = (inputs.elements::<f32>(0)?, inputs.elements::<f32>(1)?);
        let [rows, columns] = *output.info.shape.dims() else { return Err(Fault::Memory) };
        let depth = if self.transposed[0] { inputs.dims(0)[0] } else { inputs.dims(0)[1] };
        let shape = output.info.shape;
        let out = output.elements::<f32>()?;
        out.fill(0.0);
        for (row, out) in out.chunks_exact_mut(columns).enumerate() {
            for k in 0..depth {
                let at = if self.transposed[0] { k * rows + row } else { row * depth + k };
                let factor = a[at];
                if self.transposed[1] {
                    let line = b[k..].iter().step_by(depth);
                    out.iter_mut().zip(line).for_each(|(to, y)| *to += factor * y);
                } else {
                    let line = &b[k * columns..][..columns];
                    out.iter_mut().zip(line).for_each(|(to, y)| *to += factor * y);
                }
            }
        }
        if self.alpha != 1.0 {
            out.iter_mut().for_each(|to| *to = scaled(self.alpha, *to));
        }
        if let Some(c) = inputs.optional::<f32>(2)? {
            let walk = Walk::new(&shape, [&inputs.info(2).shape]);
            walk.rows(out, |row, [at], [stride]| {
                for (index, to) in row.iter_mut().enumerate() {
                    *to += scaled(self.beta, c[at + index * stride]);
                }
            });
        }
        Ok(())
    }

    /// Of any type.
    fn compute<W: Wide>(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (a, b) = (inputs.numbers::<W>(0)?, inputs.numbers::<W>(1)?);
        let c = inputs.optional_numbers::<W>(2)?;
        let shape = output.info.shape;
        let [rows, columns] = *shape.dims() else { return Err(Fault::Memory) };
        let depth = inputs.dims(0)[usize::from(!self.transposed[0])];
        let place = |turned: bool, row: usize, rows: usize, column: usize, columns: usize| {
            if turned { column * rows + row } else { row * columns + column }
        };
        let of_c = if c.is_some() { inputs.info(2).shape } else { Shape::SCALAR };
        let mut to = output.numbers::<W>()?;
        Walk::new(&shape, [&of_c]).blocks(rows * columns, &mut |first, count, [at], [stride]| {
            for index in 0..count {
                let (row, column) = ((first + index) / columns, (first + index) % columns);
                let sum = (0..depth).fold(W::ZERO, |sum, k| {
                    let x = a.get(place(self.transposed[0], row, rows, k, depth));
                    sum.plus(x.times(b.get(place(self.transposed[1], k, depth, column, columns))))
                });
                let bias = c.map_or(W::ZERO, |c| scaled(self.beta, c.get(at + index * stride)));
                to.set(first + index, scaled(self.alpha, sum).plus(bias));
            }
        });
        Ok(())
    }
}

/// An element times a float.
#[inline(always)]
fn scaled<T: Element>(factor: f32, x: T) -> T {
    if factor == 1.0 { x } else { T::of_f64(f64::from(factor) * x.to_f64()) }
}

impl Op for GeneralMatMul {
    fn code(&self) -> u16 {
        const { ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.f32(self.alpha);
        into.f32(self.beta);
        self.transposed.iter().for_each(|own| into.flag(*own));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let (a, b) = (inputs[0].shape, inputs[1].shape);
        let refuse = |what: &str| OpError::shape(format!("A is {a}, B is {b}: {what}"));
        let ([m, k], [n, p]) = (a.dims(), b.dims()) else { return Err(refuse("not matrices")) };
        let (rows, depth) = if self.transposed[0] { (k, m) } else { (m, k) };
        let (other, columns) = if self.transposed[1] { (p, n) } else { (n, p) };
        if depth != other {
            return Err(refuse("no product"));
        }
        let shape = Shape::new(&[*rows, *columns])?;
        if let Some(c) = inputs.get(2).map(|c| c.shape)
            && c.broadcast(&shape) != Some(shape)
        {
            return Err(refuse(&format!("C is {c}, which does not broadcast to {shape}")));
        }
        Ok(TensorInfo::new(inputs[0].dtype, shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        if output.info.dtype == DataType::FLOAT {
            return self.floats(inputs, output);
        }
        with_wide!(output.info.dtype, W => self.compute::<W>(inputs, output))
    }

    fn flops(&self, inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        let rows = output.shape.dims()[0].max(1);
        (2 * output.shape.elements() as u64)
            .saturating_mul((inputs[0].shape.elements() / rows) as u64)
    }
}
