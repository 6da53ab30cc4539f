//! Comparisons of two elements, and tests of one: their outputs are bools.

use std::fmt;
use std::marker::PhantomData;

use crate::DataType;
use crate::element::Element;
use crate::numbers::with_wide;
use crate::ops::types::Types;
use crate::ops::unary::each;
use crate::ops::{AttributeSpec, Broadcast, Imported, Op, OpEntry, OpError, always, before, types};
use crate::params::ParamWriter;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Attributes of the old definitions.
const ATTRIBUTES: &[AttributeSpec] = &[before("broadcast", 7), before("axis", 7)];

/// A comparison.
pub trait Relation: fmt::Debug + Send + Sync + 'static {
    /// The line of the table.
    const ENTRY: &'static OpEntry;

    /// Whether it holds.
    fn of<T: PartialOrd>(a: &T, b: &T) -> bool;
}

/// The op of a comparison.
#[derive(Debug)]
pub struct Compare<R> {
    broadcast: Broadcast,
    relation: PhantomData<R>,
}

impl<R: Relation> Compare<R> {
    const fn entry(
        name: &'static str,
        code: u16,
        versions: &'static [u32],
        types: Types,
    ) -> OpEntry {
        OpEntry {
            name,
            code,
            versions,
            attributes: ATTRIBUTES,
            inputs: (2, 2),
            operands: (2, 2),
            types,
            import: |node| {
                let (broadcast, relation) = (Broadcast::import(node)?, PhantomData);
                Ok(Imported::all(Self { broadcast, relation }, node))
            },
            decode: |from| {
                let (broadcast, relation) = (Broadcast::decode(from)?, PhantomData);
                Ok(Box::new(Self { broadcast, relation }))
            },
            ..OpEntry::BASE
        }
    }
}

impl<R: Relation> Op for Compare<R> {
    fn code(&self) -> u16 {
        const { R::ENTRY.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.broadcast.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo { dtype: DataType::BOOL, ..self.broadcast.infer(inputs)? })
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_wide!(inputs.info(0).dtype, W => {
            let of = |a: W, b: W| if R::of(&a, &b) { W::ONE } else { W::ZERO };
            self.broadcast.run_wide::<W, W>(inputs, output, of)
        })
    }
}

macro_rules! relations {
    ($($entry:ident $name:ident = $code:literal, $versions:expr, $types:expr, $operator:tt;)+) => {
        $(#[doc = concat!("The line of ", stringify!($name), ".")]
        pub static $entry: OpEntry =
            Compare::<$name>::entry(stringify!($name), $code, &$versions, $types);
        #[doc = concat!("a ", stringify!($operator), " b.")]
        #[derive(Debug)]
        pub struct $name;
        impl Relation for $name {
            const ENTRY: &'static OpEntry = &$entry;
            #[inline(always)]
            fn of<T: PartialOrd>(a: &T, b: &T) -> bool {
                a $operator b
            }
        })+
    };
}
relations! {
    EQUAL Equal = 66, [1, 7, 11, 13, 19], &types::equal(11, 13), ==;
    GREATER Greater = 67, [1, 7, 9, 13], &types::numbers(9, 9, 13), >;
    GREATER_OR_EQUAL GreaterOrEqual = 68, [12, 16], &types::numbers(12, 12, 16), >=;
    LESS Less = 69, [1, 7, 9, 13], &types::numbers(9, 9, 13), <;
    LESS_OR_EQUAL LessOrEqual = 70, [12, 16], &types::numbers(12, 12, 16), <=;
}

/// The line of IsNaN.
pub static IS_NAN: OpEntry = OpEntry {
    name: "IsNaN",
    code: 71,
    versions: &[9, 13, 20],
    types: &types::floats(13),
    import: |_| Ok(Imported::first(Strange { nan: true, above: false, below: false })),
    decode: |_| Ok(Box::new(Strange { nan: true, above: false, below: false })),
    ..OpEntry::BASE
};

/// The line of IsInf.
pub static IS_INF: OpEntry = OpEntry {
    name: "IsInf",
    code: 72,
    versions: &[10, 20],
    attributes: &[always("detect_positive"), always("detect_negative")],
    types: &[
        (DataType::FLOAT, 10),
        (DataType::DOUBLE, 10),
        (DataType::FLOAT16, 20),
        (DataType::BF16, 20),
    ],
    import: |node| {
        let above = node.flag("detect_positive", true)?;
        let below = node.flag("detect_negative", true)?;
        Ok(Imported::first(Strange { nan: false, above, below }))
    },
    decode: |from| Ok(Box::new(Strange { nan: false, above: from.flag()?, below: from.flag()? })),
    ..OpEntry::BASE
};

/// Whether a float is no number, or infinite.
#[derive(Clone, Copy, Debug)]
pub struct Strange {
    nan: bool,
    above: bool,
    below: bool,
}

impl Op for Strange {
    fn code(&self) -> u16 {
        if self.nan { const { IS_NAN.code } } else { const { IS_INF.code } }
    }

    fn encode(&self, into: &mut ParamWriter) {
        if !self.nan {
            into.flag(self.above);
            into.flag(self.below);
        }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(TensorInfo::new(DataType::BOOL, inputs[0].shape))
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let Self { nan, above, below } = *self;
        each::<f64>(inputs, output, &|x| {
            let infinite = (above && x == f64::INFINITY) || (below && x == f64::NEG_INFINITY);
            f64::from(u8::from(if nan { x.is_nan() } else { infinite }))
        })
    }
}
