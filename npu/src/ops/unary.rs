//! Ops that are a function of one element: all of such an op but its line of the table and the
//! function.
//!
//! [`Function`] is one of real numbers, [`Arithmetic`] one of any numbers.

use std::fmt;
use std::marker::PhantomData;

use crate::DataType;
use crate::element::{Element, Real};
use crate::numbers::{Wide, with_wide};
use crate::ops::{AttributeSpec, Imported, Node, Op, OpEntry, OpError, types::Types};
use crate::params::{ParamReader, ParamWriter};
use crate::team;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// A kernel for float32: values, where results go, parameters.
pub type Floats = fn(&[f32], &mut [f32], [f32; 2]);

/// A function of one real number, with up to two parameters.
pub trait Function: fmt::Debug + Send + Sync + 'static {
    /// The line of the table.
    const ENTRY: &'static OpEntry;
    /// Attributes that are its parameters, and their defaults.
    const PARAMETERS: &'static [(&'static str, f32)];

    /// A kernel for float32, if there is a better one.
    const FLOATS: Option<Floats> = None;

    /// The value for `x`.
    fn of<R: Real>(x: R, parameters: [R; 2]) -> R;
}

/// The op of a function.
#[derive(Clone, Copy, Debug)]
pub struct Unary<F> {
    parameters: [f32; 2],
    function: PhantomData<F>,
}

impl<F: Function> Unary<F> {
    /// With these parameters; those that the function does not have are 0.
    #[must_use]
    pub const fn new(parameters: [f32; 2]) -> Self {
        Self { parameters, function: PhantomData }
    }

    /// The line of the table.
    pub(super) const fn entry(
        name: &'static str,
        code: u16,
        versions: &'static [u32],
        types: Types,
        attributes: &'static [AttributeSpec],
    ) -> OpEntry {
        OpEntry {
            name,
            code,
            versions,
            attributes,
            inputs: (1, 1),
            outputs: 1,
            operands: (1, 1),
            types,
            import: Self::import,
            decode: Self::decode,
            ..OpEntry::BASE
        }
    }

    /// Makes the op of a node.
    pub(super) fn import(node: &Node<'_>) -> Result<Imported, OpError> {
        let mut parameters = [0.0; 2];
        for (to, (name, default)) in parameters.iter_mut().zip(F::PARAMETERS) {
            *to = node.float(name, *default)?;
        }
        Ok(Imported::first(Self::new(parameters)))
    }

    /// Makes the op of its parameters in a program.
    pub(super) fn decode(from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self::new([from.f32()?, from.f32()?])))
    }

    fn compute(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let (x, team) = (inputs.elements::<f32>(0)?, output.team);
        team::deal(team, output.elements::<f32>()?, (1, team::moved(2)), |first, out| {
            let pairs = out.iter_mut().zip(&x[first..]);
            pairs.for_each(|(to, x)| *to = F::of(*x, self.parameters));
        });
        Ok(())
    }
}

impl<F: Function> Op for Unary<F> {
    fn code(&self) -> u16 {
        const { F::ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.parameters.iter().for_each(|own| into.f32(*own));
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        if output.info.dtype == DataType::FLOAT {
            if let Some(floats) = F::FLOATS {
                let (x, team) = (inputs.elements(0)?, output.team);
                team::deal(team, output.elements()?, (1, team::moved(2)), |first, out| {
                    floats(&x[first..first + out.len()], out, self.parameters);
                });
                return Ok(());
            }
            return self.compute(inputs, output);
        }
        let parameters = self.parameters.map(f64::from);
        each::<f64>(inputs, output, &|x| F::of(x, parameters))
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}

/// A function of one number of any type.
pub trait Arithmetic: fmt::Debug + Send + Sync + 'static {
    /// The line of the table.
    const ENTRY: &'static OpEntry;

    /// The value for `x`.
    fn of<T: Element>(x: T) -> T;
}

/// The op of such a function.
#[derive(Clone, Copy, Debug)]
pub struct AnyUnary<F>(PhantomData<F>);

impl<F: Arithmetic> AnyUnary<F> {
    /// The line of the table.
    pub(super) const fn entry(
        name: &'static str,
        code: u16,
        versions: &'static [u32],
        types: Types,
        attributes: &'static [AttributeSpec],
    ) -> OpEntry {
        OpEntry {
            name,
            code,
            versions,
            attributes,
            inputs: (1, 1),
            outputs: 1,
            operands: (1, 1),
            types,
            import: |_| Ok(Imported::first(Self(PhantomData))),
            decode: |_| Ok(Box::new(Self(PhantomData))),
            ..OpEntry::BASE
        }
    }
}

impl<F: Arithmetic> Op for AnyUnary<F> {
    fn code(&self) -> u16 {
        const { F::ENTRY.code }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_wide!(output.info.dtype, W => each::<W>(inputs, output, &F::of))
    }

    fn flops(&self, _inputs: &[TensorInfo], output: &TensorInfo) -> u64 {
        output.shape.elements() as u64
    }

    fn is_elementwise(&self) -> bool {
        true
    }
}

/// A function of each element, of any type, by one loop that all functions share.
pub(super) fn each<W: Wide>(
    inputs: &dyn Inputs,
    output: &mut Output<'_>,
    of: &dyn Fn(W) -> W,
) -> Result<(), Fault> {
    let (from, count) = (inputs.numbers::<W>(0)?, output.info.shape.elements());
    output.numbers::<W>()?.each(from, count, of);
    Ok(())
}

/// Functions: line, type, number, opsets, types, attributes, parameters with their defaults.
macro_rules! functions {
    ($($(#[$doc:meta])* $entry:ident $name:ident $(: $halves:ident)? = $code:literal,
        $versions:expr, $types:expr,
        $attributes:expr, [$($parameter:literal = $default:expr),*],
        |$x:ident, $p:pat_param| $of:expr $(, $floats:expr)?;)+) => {
        $(#[doc = concat!("The line of ", stringify!($name), ".")]
        pub static $entry: $crate::ops::OpEntry = $crate::ops::OpEntry {
            $(halves: $crate::ops::Halves::$halves,)?
            ..$crate::ops::unary::Unary::<$name>::entry(
                stringify!($name), $code, &$versions, $types, &$attributes)
        };
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl $crate::ops::unary::Function for $name {
            const ENTRY: &'static $crate::ops::OpEntry = &$entry;
            const PARAMETERS: &'static [(&'static str, f32)] = &[$(($parameter, $default)),*];
            $(const FLOATS: Option<$crate::ops::unary::Floats> = Some($floats);)?
            #[inline(always)]
            fn of<R: $crate::element::Real>($x: R, $p: [R; 2]) -> R {
                $of
            }
        })+
    };
}
pub(super) use functions;
