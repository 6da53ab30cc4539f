//! Sub, Div, Mod and PRelu: numbers of two elements. Add and Mul have files of their own.

use crate::element::Element;
use crate::numbers::with_wide;
use crate::ops::pairwise::{Pair, Pairwise};
use crate::ops::{Broadcast, Imported, Node, Op, OpEntry, OpError, always, before, types};
use crate::params::ParamWriter;
use crate::tensor::{Fault, Inputs, Output, TensorInfo};

/// The line of Sub.
pub static SUB: OpEntry = Pairwise::<Minus>::entry("Sub", 61);

/// The difference of two elements.
#[derive(Debug)]
pub struct Minus;

impl Pair for Minus {
    const ENTRY: &'static OpEntry = &SUB;

    #[inline(always)]
    fn of<T: Element>(a: T, b: T) -> T {
        a.minus(b)
    }
}

/// The line of Div.
pub static DIV: OpEntry = Pairwise::<Over>::entry("Div", 62);

/// The quotient of two elements; a whole number by 0 is 0.
#[derive(Debug)]
pub struct Over;

impl Pair for Over {
    const ENTRY: &'static OpEntry = &DIV;

    #[inline(always)]
    fn of<T: Element>(a: T, b: T) -> T {
        a.over(b)
    }
}

/// The line of PRelu.
pub static P_RELU: OpEntry = OpEntry {
    name: "PRelu",
    code: 63,
    versions: &[1, 6, 7, 9, 16],
    attributes: &[before("consumed_inputs", 6)],
    types: &types::whole(9, 16),
    import: |node| {
        let (x, slope) = (node.input(0)?.info.shape, node.input(1)?.info.shape);
        // At first one slope, or one a feature map.
        let old = node.opset < 7 && slope.rank() == 1 && slope.elements() > 1 && x.rank() > 1;
        let broadcast = if old { Broadcast::At(1) } else { Broadcast::Numpy };
        Ok(Imported::all(Pairwise::<Slope>::new(broadcast), node))
    },
    ..Pairwise::<Slope>::entry("PRelu", 63)
};

/// x, or x times the slope below 0.
#[derive(Debug)]
pub struct Slope;

impl Pair for Slope {
    const ENTRY: &'static OpEntry = &P_RELU;
    const ONE_WAY: bool = true;

    #[inline(always)]
    fn of<T: Element>(x: T, slope: T) -> T {
        if x < T::ZERO { x.times(slope) } else { x }
    }
}

/// The line of Mod.
pub static MOD: OpEntry = OpEntry {
    name: "Mod",
    code: 64,
    versions: &[10, 13, 28],
    attributes: &[always("fmod")],
    inputs: (2, 2),
    operands: (2, 2),
    types: &types::numbers(10, 10, 13),
    import: rest,
    decode: |from| Ok(Box::new(Rest { dividends_sign: from.flag()? })),
    ..OpEntry::ROUNDS
};

/// What is left of a division; 0 by the whole number 0.
#[derive(Clone, Copy, Debug)]
pub struct Rest {
    /// It has the dividend's sign, else the divisor's.
    dividends_sign: bool,
}

fn rest(node: &Node<'_>) -> Result<Imported, OpError> {
    let dividends_sign = node.flag("fmod", false)?;
    let dtype = node.input(0)?.info.dtype;
    if !dividends_sign && types::is_float(dtype) && node.opset < 28 {
        return Err(OpError::attribute("fmod", 0, "1 for floats"));
    }
    Ok(Imported::all(Rest { dividends_sign }, node))
}

impl Op for Rest {
    fn code(&self) -> u16 {
        const { MOD.code }
    }

    fn encode(&self, into: &mut ParamWriter) {
        into.flag(self.dividends_sign);
    }

    fn infer(&self, inputs: &[TensorInfo]) -> Result<TensorInfo, OpError> {
        Broadcast::Numpy.infer(inputs)
    }

    fn run(&self, inputs: &dyn Inputs, output: &mut Output<'_>) -> Result<(), Fault> {
        with_wide!(output.info.dtype, W => {
            let of: fn(W, W) -> W =
                if self.dividends_sign { |a, b| a.rest(b, false) } else { |a, b| a.rest(b, true) };
            Broadcast::Numpy.run_wide::<W, W>(inputs, output, of)
        })
    }
}
