//! Bools and bits: And, Or, Xor, Not; the same of each bit; shifts.

use crate::DataType;
use crate::ops::types::{self, Types};
use crate::ops::unary::each;
use crate::ops::{AttributeSpec, Broadcast, Imported, Node, Op, OpEntry, OpError, always, before};
use crate::params::{ParamReader, ParamWriter};
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// Attributes of the old definitions.
const ATTRIBUTES: &[AttributeSpec] = &[before("broadcast", 7), before("axis", 7)];

const BOOL: Types = &[(DataType::BOOL, 1)];

const fn entry(
    name: &'static str,
    code: u16,
    versions: &'static [u32],
    types: Types,
    import: fn(&Node<'_>) -> Result<Imported, OpError>,
    decode: fn(&mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError>,
) -> OpEntry {
    let (inputs, operands) = ((2, 2), (2, 2));
    let attributes = ATTRIBUTES;
    OpEntry {
        name,
        code,
        versions,
        attributes,
        inputs,
        operands,
        types,
        import,
        decode,
        ..OpEntry::BASE
    }
}

macro_rules! connectives {
    ($($entry:ident $name:literal = $code:literal, $versions:expr, $types:expr, $kind:ident;)+) => {
        $(#[doc = concat!("The line of ", $name, ".")]
        pub static $entry: OpEntry = entry($name, $code, &$versions, $types,
            |node| Connective::import(&$entry, Kind::$kind, node),
            |from| Connective::decode($code, Kind::$kind, from));)+
    };
}
connectives! {
    AND "And" = 73, [1, 7], BOOL, And;
    OR "Or" = 74, [1, 7], BOOL, Or;
    XOR "Xor" = 75, [1, 7], BOOL, Xor;
    BITWISE_AND "BitwiseAnd" = 76, [18], &types::INTEGERS, And;
    BITWISE_OR "BitwiseOr" = 77, [18], &types::INTEGERS, Or;
    BITWISE_XOR "BitwiseXor" = 78, [18], &types::INTEGERS, Xor;
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    And,
    Or,
    Xor,
}

/// A function of the bits of two elements. Bools are 0 or 1 and stay so.
#[derive(Clone, Copy, Debug)]
pub struct Connective {
    code: u16,
    kind: Kind,
    broadcast: Broadcast,
}

impl Connective {
    fn import(entry: &'static OpEntry, kind: Kind, node: &Node<'_>) -> Result<Imported, OpError> {
        Ok(Imported::all(
            Self { code: entry.code, kind, broadcast: Broadcast::import(node)? },
            node,
        ))
    }

    fn decode(code: u16, kind: Kind, from: &mut ParamReader<'_>) -> Result<Box<dyn Op>, OpError> {
        Ok(Box::new(Self { code, kind, broadcast: Broadcast::decode(from)? }))
    }
}

impl Op for Connective {
    fn code(&self) -> u16 {
        self.code
    }

    fn encode(&self, into: &mut ParamWriter) {
        self.broadcast.encode(into);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        self.broadcast.infer(inputs)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let of: fn(i128, i128) -> i128 = match self.kind {
            Kind::And => |a, b| a & b,
            Kind::Or => |a, b| a | b,
            Kind::Xor => |a, b| a ^ b,
        };
        self.broadcast.run_wide(inputs, output, of)
    }
}

/// The line of Not.
pub static NOT: OpEntry = OpEntry {
    name: "Not",
    code: 79,
    versions: &[1],
    types: BOOL,
    import: |_| Ok(Imported::first(Not { bits: false })),
    decode: |_| Ok(Box::new(Not { bits: false })),
    ..OpEntry::BASE
};

/// The line of BitwiseNot.
pub static BITWISE_NOT: OpEntry = OpEntry {
    name: "BitwiseNot",
    code: 80,
    versions: &[18],
    types: &types::INTEGERS,
    import: |_| Ok(Imported::first(Not { bits: true })),
    decode: |_| Ok(Box::new(Not { bits: true })),
    ..OpEntry::BASE
};

/// The other bool, or the other bits.
#[derive(Clone, Copy, Debug)]
pub struct Not {
    bits: bool,
}

impl Op for Not {
    fn code(&self) -> u16 {
        if self.bits { const { BITWISE_NOT.code } } else { const { NOT.code } }
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Ok(inputs[0])
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        let of: fn(i128) -> i128 = if self.bits { |x| !x } else { |x| i128::from(x == 0) };
        each(inputs, output, &of)
    }
}

/// The line of BitShift.
pub static BIT_SHIFT: OpEntry = OpEntry {
    name: "BitShift",
    code: 81,
    versions: &[11, 28],
    attributes: &[always("direction")],
    inputs: (2, 2),
    operands: (2, 2),
    types: &types::unsigned_first(28),
    import: |node| {
        let left = match node.text("direction")? {
            Some("LEFT") => true,
            Some("RIGHT") => false,
            other => {
                let found = other.unwrap_or("is not given");
                return Err(OpError::attribute("direction", found, "LEFT, RIGHT"));
            }
        };
        Ok(Imported::all(Shift { left }, node))
    },
    decode: |from| Ok(Box::new(Shift { left: from.flag()? })),
    ..OpEntry::BASE
};

/// Bits moved by a number of places; by as many as there are, or more, nothing is left.
#[derive(Clone, Copy, Debug)]
pub struct Shift {
    left: bool,
}

impl Op for Shift {
    fn code(&self) -> u16 {
        const { BIT_SHIFT.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.left);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Broadcast::Numpy.infer(inputs)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        // What moves in on the left is the sign's bit, if there is a sign; on the right a 0.
        let of: fn(i128, i128) -> i128 = if self.left {
            |x, by| u32::try_from(by).ok().and_then(|by| x.checked_shl(by)).unwrap_or(0)
        } else {
            |x, by| x >> u32::try_from(by).unwrap_or(u32::MAX).min(i128::BITS - 1)
        };
        Broadcast::Numpy.run_wide(inputs, output, of)
    }
}
