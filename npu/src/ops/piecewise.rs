//! Functions that are straight lines in pieces: signs, roundings, cuts.

use crate::element::Element;
use crate::ops::unary::{AnyUnary, Arithmetic, functions};
use crate::ops::{AttributeSpec, OpEntry, always, before, types};

/// What elementwise ops had at first.
const CONSUMED: AttributeSpec = before("consumed_inputs", 6);
const ALPHA: AttributeSpec = always("alpha");

functions! {
    /// The next whole number below.
    FLOOR Floor: Rounded = 52, [1, 6, 13], &types::floats(13), [CONSUMED], [], |x, _| x.floor();
    /// The next whole number above.
    CEIL Ceil: Rounded = 53, [1, 6, 13], &types::floats(13), [CONSUMED], [], |x, _| x.ceil();
    /// The nearest whole number; the even one of two.
    ROUND Round: Rounded = 54, [11, 22], &types::floats(22), [], [], |x, _| x.round_ties_even();
    /// x, or alpha * x below 0.
    LEAKY_RELU LeakyRelu = 55, [1, 6, 16], &types::floats(16), [ALPHA, CONSUMED],
        ["alpha" = 0.01], |x, [alpha, _]| if x < R::ZERO { alpha * x } else { x };
    /// x, or 0 up to alpha.
    THRESHOLDED_RELU ThresholdedRelu: Rounded = 56, [10, 22], &types::floats(22), [ALPHA],
        ["alpha" = 1.0], |x, [alpha, _]| if x > alpha { x } else { R::ZERO };
    /// x nearer to 0 by `bias`, and 0 within `lambd` of it.
    SHRINK Shrink: Rounded = 57, [9], &types::floats(16), [always("bias"), always("lambd")],
        ["bias" = 0.0, "lambd" = 0.5],
        |x, [bias, lambd]| match () {
            () if x < -lambd => x + bias,
            () if x > lambd => x - bias,
            () => R::ZERO,
        };
}

macro_rules! arithmetic {
    ($($(#[$doc:meta])* $entry:ident $name:ident $(: $halves:ident)? = $code:literal,
        $versions:expr, $types:expr,
        $attributes:expr, |$x:ident| $of:expr;)+) => {
        $(#[doc = concat!("The line of ", stringify!($name), ".")]
        pub static $entry: OpEntry = OpEntry {
            $(halves: $crate::ops::Halves::$halves,)?
            ..AnyUnary::<$name>::entry(
                stringify!($name), $code, &$versions, $types, &$attributes)
        };
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl Arithmetic for $name {
            const ENTRY: &'static OpEntry = &$entry;
            #[inline(always)]
            fn of<T: Element>($x: T) -> T {
                $of
            }
        })+
    };
}

arithmetic! {
    /// x without its sign.
    ABS Abs = 58, [1, 6, 13], &types::numbers(6, 6, 13), [CONSUMED],
        |x| if x < T::ZERO { T::ZERO.minus(x) } else { x };
    /// x with the other sign.
    NEG Neg = 59, [1, 6, 13], &types::signed(6, 13), [CONSUMED], |x| T::ZERO.minus(x);
    /// -1, 0 or 1.
    SIGN Sign: Rounded = 60, [9, 13], &types::numbers(9, 9, 13), [], |x| match () {
        () if x > T::ZERO => T::ONE,
        () if x < T::ZERO => T::ZERO.minus(T::ONE),
        // 0, or no number.
        () => x,
    };
}
