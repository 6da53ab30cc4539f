//! Sine and its kin.

use crate::ops::types;
use crate::ops::unary::functions;

functions! {
    /// The angle of a cosine.
    ACOS Acos = 26, [7, 22], &types::floats(22), [], [], |x, _| x.acos();
    /// The number of a hyperbolic cosine.
    ACOSH Acosh = 27, [9, 22], &types::floats(22), [], [], |x, _| x.acosh();
    /// The angle of a sine.
    ASIN Asin = 28, [7, 22], &types::floats(22), [], [], |x, _| x.asin();
    /// The number of a hyperbolic sine.
    ASINH Asinh = 29, [9, 22], &types::floats(22), [], [], |x, _| x.asinh();
    /// The angle of a tangent.
    ATAN Atan = 30, [7, 22], &types::floats(22), [], [], |x, _| x.atan();
    /// The number of a hyperbolic tangent.
    ATANH Atanh = 31, [9, 22], &types::floats(22), [], [], |x, _| x.atanh();
    /// The cosine.
    COS Cos = 32, [7, 22], &types::floats(22), [], [], |x, _| x.cos();
    /// The hyperbolic cosine.
    COSH Cosh = 33, [9, 22], &types::floats(22), [], [], |x, _| x.cosh();
    /// The sine.
    SIN Sin = 34, [7, 22], &types::floats(22), [], [], |x, _| x.sin();
    /// The hyperbolic sine.
    SINH Sinh = 35, [9, 22], &types::floats(22), [], [], |x, _| x.sinh();
    /// The tangent.
    TAN Tan = 36, [7, 22], &types::floats(22), [], [], |x, _| x.tan();
}
