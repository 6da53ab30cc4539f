//! Ops of two operands that broadcast, element by element: all of such an op but its name, its
//! number and what it makes of two elements.

use std::fmt;
use std::marker::PhantomData;

use crate::DataType;
use crate::numbers::with_wide;
use crate::ops::{AttributeSpec, Broadcast, Imported, Node, Op, OpEntry, OpError, before, types};
use crate::params::ParamWriter;
use crate::tensor::{Element, Fault, Inputs, Output, TensorInfo};

/// Attributes of the old definitions.
const ATTRIBUTES: &[AttributeSpec] =
    &[before("broadcast", 7), before("axis", 7), before("consumed_inputs", 6)];

/// Types of the definitions.
const TYPES: types::Types = &types::numbers(6, 14, 13);

/// What such an op is.
pub trait Pair: fmt::Debug + Send + Sync + 'static {
    /// The line of the table.
    const ENTRY: &'static OpEntry;

    /// The second operand broadcasts to the first, not the other way round.
    const ONE_WAY: bool = false;

    /// What becomes of two elements.
    fn of<T: Element>(a: T, b: T) -> T;
}

/// The op.
#[derive(Debug)]
pub struct Pairwise<P> {
    /// How the second operand meets the first.
    pub broadcast: Broadcast,
    pair: PhantomData<P>,
}

impl<P: Pair> Pairwise<P> {
    /// With this broadcast.
    #[must_use]
    pub const fn new(broadcast: Broadcast) -> Self {
        Self { broadcast, pair: PhantomData }
    }

    /// The line of the table: the definitions of these ops changed together.
    pub(super) const fn entry(name: &'static str, code: u16) -> OpEntry {
        OpEntry {
            name,
            code,
            versions: &[1, 6, 7, 13, 14],
            attributes: ATTRIBUTES,
            inputs: (2, 2),
            outputs: 1,
            operands: (2, 2),
            types: TYPES,
            import: Self::import,
            decode: |from| Ok(Box::new(Self::new(Broadcast::decode(from)?))),
            ..OpEntry::BASE
        }
    }

    fn import(node: &Node<'_>) -> Result<Imported, OpError> {
        Ok(Imported::all(Self::new(Broadcast::import(node)?), node))
    }
}

impl<P: Pair> Op for Pairwise<P> {
    fn code(&self) -> u16 {
        const { P::ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.broadcast.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        let result = self.broadcast.infer(inputs)?;
        if P::ONE_WAY && result.shape != inputs[0].shape {
            let (a, b) = (inputs[0].shape, inputs[1].shape);
            return Err(OpError::shape(format!("{b} does not broadcast to {a}")));
        }
        Ok(result)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        if output.info.dtype == DataType::FLOAT {
            return self.broadcast.run::<f32, f32, f32>(inputs, output, P::of);
        }
        with_wide!(output.info.dtype, W => {
            self.broadcast.run_wide::<W, W>(inputs, output, P::of)
        })
    }

    fn is_by_place(&self, inputs: &[TensorInfo], output: &TensorInfo) -> bool {
        self.broadcast.is_by_place(inputs, output)
    }

    fn is_pointwise(&self) -> bool {
        !matches!(self.broadcast, Broadcast::At(_))
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }
}
