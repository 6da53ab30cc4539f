//! What each op of TensorFlow becomes.

use super::scope::{Scope, int};
use super::{image, shapes};

/// How a node is translated; how many results it has then.
pub(super) type Translate = fn(&mut Scope<'_>) -> Result<usize, String>;

/// A line of the table.
#[derive(Debug)]
pub(super) struct Rule {
    /// The op.
    pub(super) name: &'static str,
    /// Least and most inputs that carry data.
    pub(super) inputs: (usize, usize),
    /// Attributes, without those of types.
    pub(super) attributes: &'static [&'static str],
    pub(super) translate: Translate,
}

const fn rule(
    name: &'static str,
    inputs: (usize, usize),
    attributes: &'static [&'static str],
    translate: Translate,
) -> Rule {
    Rule { name, inputs, attributes, translate }
}

/// An op that has one of the same meaning.
macro_rules! named {
    ($($name:literal = $onnx:literal ($count:literal)),+ $(,)?) => {
        &[$(rule($name, ($count, $count), &[], |scope| {
            scope.same($onnx, Vec::new());
            if let Some(rank) = (0..$count).map(|at| scope.rank(at)).max().flatten() {
                // With broadcasting: the longer one, if both are known.
                if (0..$count).all(|at| scope.rank(at).is_some()) {
                    scope.set_rank(rank);
                }
            }
            Ok(1)
        })),+]
    };
}

/// Those of the same meaning.
const SAME: &[Rule] = named![
    "Abs" = "Abs"(1),
    "Acos" = "Acos"(1),
    "Acosh" = "Acosh"(1),
    "Add" = "Add"(2),
    "AddV2" = "Add"(2),
    "Asin" = "Asin"(1),
    "Asinh" = "Asinh"(1),
    "Atan" = "Atan"(1),
    "Atanh" = "Atanh"(1),
    "Ceil" = "Ceil"(1),
    "Cos" = "Cos"(1),
    "Cosh" = "Cosh"(1),
    "Div" = "Div"(2),
    "Elu" = "Elu"(1),
    "Erf" = "Erf"(1),
    "Exp" = "Exp"(1),
    "Floor" = "Floor"(1),
    "Greater" = "Greater"(2),
    "GreaterEqual" = "GreaterOrEqual"(2),
    "Inv" = "Reciprocal"(1),
    "IsInf" = "IsInf"(1),
    "IsNan" = "IsNaN"(1),
    "Less" = "Less"(2),
    "LessEqual" = "LessOrEqual"(2),
    "Log" = "Log"(1),
    "LogicalAnd" = "And"(2),
    "LogicalNot" = "Not"(1),
    "LogicalOr" = "Or"(2),
    "Maximum" = "Max"(2),
    "Minimum" = "Min"(2),
    "Mul" = "Mul"(2),
    "Neg" = "Neg"(1),
    "Pow" = "Pow"(2),
    "RealDiv" = "Div"(2),
    "Reciprocal" = "Reciprocal"(1),
    "Relu" = "Relu"(1),
    "Rint" = "Round"(1),
    "Round" = "Round"(1),
    "SelectV2" = "Where"(3),
    "Selu" = "Selu"(1),
    "Sigmoid" = "Sigmoid"(1),
    "Sign" = "Sign"(1),
    "Sin" = "Sin"(1),
    "Sinh" = "Sinh"(1),
    "Softplus" = "Softplus"(1),
    "Softsign" = "Softsign"(1),
    "Sqrt" = "Sqrt"(1),
    "Sub" = "Sub"(2),
    "Tan" = "Tan"(1),
    "Tanh" = "Tanh"(1),
];

/// Those that are more than a name.
const OTHERS: &[Rule] = &[
    rule("Placeholder", (0, 0), &["shape"], |_| Ok(1)),
    rule("Const", (0, 0), &["value"], |_| Ok(1)),
    rule("NoOp", (0, 0), &[], |_| Ok(0)),
    rule("AddN", (1, usize::MAX), &["N"], |scope| same(scope, "Sum")),
    rule("ArgMax", (2, 2), &[], |scope| shapes::arg(scope, "ArgMax")),
    rule("ArgMin", (2, 2), &[], |scope| shapes::arg(scope, "ArgMin")),
    rule("AvgPool", (1, 1), image::POOL, |scope| image::pool(scope, "AveragePool")),
    rule("BatchMatMul", (2, 2), PRODUCT, |scope| product(scope, ["adj_x", "adj_y"])),
    rule("BatchMatMulV2", (2, 2), PRODUCT, |scope| product(scope, ["adj_x", "adj_y"])),
    rule("BiasAdd", (2, 2), &["data_format"], image::bias),
    rule("Cast", (1, 1), &["Truncate"], shapes::cast),
    rule("ConcatV2", (2, usize::MAX), &["N"], shapes::concat),
    rule("Conv2D", (2, 2), image::CONV, image::conv),
    rule("DepthwiseConv2dNative", (2, 2), image::CONV, image::depthwise),
    rule("ExpandDims", (2, 2), &[], |scope| same(scope, "Unsqueeze")),
    rule("Fill", (2, 2), &[], shapes::fill),
    rule("FusedBatchNorm", (5, 5), image::NORM, image::norm),
    rule("FusedBatchNormV2", (5, 5), image::NORM, image::norm),
    rule("FusedBatchNormV3", (5, 5), image::NORM, image::norm),
    rule("GatherV2", (3, 3), &["batch_dims"], shapes::gather),
    rule("Identity", (1, 1), &[], copy),
    rule("LeakyRelu", (1, 1), &["alpha"], leaky),
    rule("LogSoftmax", (1, 1), &[], |scope| last_axis(scope, "LogSoftmax")),
    rule("MatMul", (2, 2), PRODUCT, |scope| product(scope, ["transpose_a", "transpose_b"])),
    rule("Max", (2, 2), &["keep_dims"], |scope| shapes::reduce(scope, "ReduceMax")),
    rule("MaxPool", (1, 1), image::POOL, |scope| image::pool(scope, "MaxPool")),
    rule("Mean", (2, 2), &["keep_dims"], |scope| shapes::reduce(scope, "ReduceMean")),
    rule("Min", (2, 2), &["keep_dims"], |scope| shapes::reduce(scope, "ReduceMin")),
    rule("NotEqual", (2, 2), &["incompatible_shape_error"], |scope| {
        let (a, b) = (scope.inputs[0].clone(), scope.inputs[1].clone());
        let equal = scope.step("equal", "Equal", &[&a, &b], Vec::new());
        scope.result("Not", &[&equal], Vec::new());
        Ok(1)
    }),
    rule("Equal", (2, 2), &["incompatible_shape_error"], |scope| same(scope, "Equal")),
    rule("Pack", (1, usize::MAX), &["N", "axis"], shapes::pack),
    rule("Pad", (2, 2), &[], shapes::pad),
    rule("PadV2", (3, 3), &[], shapes::pad),
    rule("PlaceholderWithDefault", (1, 1), &["shape"], copy),
    rule("PreventGradient", (1, 1), &["message"], copy),
    rule("Prod", (2, 2), &["keep_dims"], |scope| shapes::reduce(scope, "ReduceProd")),
    rule("Relu6", (1, 1), &[], |scope| {
        let (low, high) = (scope.number("low", 0.0)?, scope.number("high", 6.0)?);
        let x = scope.inputs[0].clone();
        keep_rank(scope);
        scope.result("Clip", &[&x, &low, &high], Vec::new());
        Ok(1)
    }),
    rule("Reshape", (2, 2), &[], |scope| {
        scope.same("Reshape", vec![int("allowzero", 1)]);
        Ok(1)
    }),
    rule("Rsqrt", (1, 1), &[], |scope| {
        let x = scope.inputs[0].clone();
        let root = scope.step("root", "Sqrt", &[&x], Vec::new());
        scope.result("Reciprocal", &[&root], Vec::new());
        Ok(1)
    }),
    rule("Shape", (1, 1), &[], shapes::shape),
    rule("Snapshot", (1, 1), &[], copy),
    rule("Softmax", (1, 1), &[], |scope| last_axis(scope, "Softmax")),
    rule("Split", (2, 2), &["num_split"], shapes::split),
    rule("Square", (1, 1), &[], |scope| {
        let x = scope.inputs[0].clone();
        keep_rank(scope);
        scope.result("Mul", &[&x, &x], Vec::new());
        Ok(1)
    }),
    rule("SquaredDifference", (2, 2), &[], |scope| {
        let (a, b) = (scope.inputs[0].clone(), scope.inputs[1].clone());
        let difference = scope.step("difference", "Sub", &[&a, &b], Vec::new());
        scope.result("Mul", &[&difference, &difference], Vec::new());
        Ok(1)
    }),
    rule("Squeeze", (1, 1), &["squeeze_dims"], shapes::squeeze),
    rule("StopGradient", (1, 1), &[], copy),
    rule("StridedSlice", (4, 4), shapes::MASKS, shapes::slice),
    rule("Sum", (2, 2), &["keep_dims"], |scope| shapes::reduce(scope, "ReduceSum")),
    rule("Tile", (2, 2), &[], |scope| same(scope, "Tile")),
    rule("Transpose", (2, 2), &[], shapes::transpose),
];

/// Attributes of products of matrices. Those of gradients say nothing here.
const PRODUCT: &[&str] =
    &["transpose_a", "transpose_b", "adj_x", "adj_y", "grad_a", "grad_b", "grad_x", "grad_y"];

/// The line of an op.
pub(super) fn find(op: &str) -> Option<&'static Rule> {
    SAME.iter().chain(OTHERS).find(|rule| rule.name == op)
}

/// Names of all ops, in order: what docs/status.md lists.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = SAME.iter().chain(OTHERS).map(|rule| rule.name).collect();
    names.sort_unstable();
    names
}

fn same(scope: &mut Scope<'_>, onnx: &str) -> Result<usize, String> {
    scope.same(onnx, Vec::new());
    Ok(1)
}

/// The result has as many dims as the input.
pub(super) fn keep_rank(scope: &mut Scope<'_>) {
    if let Some(rank) = scope.rank(0) {
        scope.set_rank(rank);
    }
}

fn copy(scope: &mut Scope<'_>) -> Result<usize, String> {
    keep_rank(scope);
    scope.copy();
    Ok(1)
}

fn last_axis(scope: &mut Scope<'_>, onnx: &str) -> Result<usize, String> {
    keep_rank(scope);
    scope.same(onnx, vec![int("axis", -1)]);
    Ok(1)
}

fn leaky(scope: &mut Scope<'_>) -> Result<usize, String> {
    let alpha = scope.attributes.float("alpha")?.unwrap_or(0.2);
    keep_rank(scope);
    scope.same("LeakyRelu", vec![super::scope::float("alpha", alpha)]);
    Ok(1)
}

/// A product of matrices, or of many: the last two dims of either are exchanged where the node
/// says so.
fn product(scope: &mut Scope<'_>, flags: [&str; 2]) -> Result<usize, String> {
    let mut operands = Vec::new();
    for (index, flag) in flags.into_iter().enumerate() {
        let x = scope.inputs[index].clone();
        if !scope.attributes.flag(flag)?.unwrap_or(false) {
            operands.push(x);
            continue;
        }
        let rank = if flag.starts_with("transpose") { Some(2) } else { scope.rank(index) };
        let rank = rank.filter(|rank| *rank >= 2).ok_or_else(|| {
            format!("attribute `{flag}`: the number of dims of input {index} has to be known")
        })?;
        let mut order: Vec<i64> = (0..).take(rank).collect();
        order.swap(rank - 1, rank - 2);
        let what = format!("{flag} of {index}");
        operands.push(scope.step(
            &what,
            "Transpose",
            &[&x],
            vec![super::scope::ints("perm", &order)],
        ));
    }
    scope.result("MatMul", &[&operands[0], &operands[1]], Vec::new());
    match flags[0] {
        "transpose_a" => scope.set_rank(2),
        _ => keep_rank(scope),
    }
    Ok(1)
}
