//! Ops of two operands that broadcast, element by element: all of such an op but its name, its
//! number and what it makes of two elements.

use std::fmt;
use std::marker::PhantomData;

use crate::DataType;
use crate::ops::{AttributeSpec, Broadcast, Imported, Node, Op, OpEntry, OpError, before};
use crate::params::ParamWriter;
use crate::tensor::{Element, Fault, Inputs, Output, TensorInfo, with_element};

/// Attributes of the old definitions.
const ATTRIBUTES: &[AttributeSpec] =
    &[before("broadcast", 7), before("axis", 7), before("consumed_inputs", 6)];

/// What such an op is.
pub trait Pair: fmt::Debug + Send + Sync + 'static {
    /// The line of the table.
    const ENTRY: &'static OpEntry;

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
            types: &[(DataType::FLOAT, 1), (DataType::INT32, 6), (DataType::INT64, 6)],
            mixed: &[],
            refused: "",
            import: Self::import,
            decode: |from| Ok(Box::new(Self::new(Broadcast::decode(from)?))),
        }
    }

    fn import(node: &Node<'_>) -> Result<Imported, OpError> {
        Ok(Imported::all(Self::new(Broadcast::import(node)?), node))
    }
}

impl<P: Pair> Op for Pairwise<P> {
    fn entry(&self) -> &'static OpEntry {
        P::ENTRY
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.broadcast.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        self.broadcast.infer(inputs)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_element!(output.info.dtype, T => self.broadcast.run::<T>(inputs, output, P::of))
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }
}
