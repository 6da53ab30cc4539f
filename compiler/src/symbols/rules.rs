//! What each op makes of dims.

use super::condition::Condition;
use super::expr::Expr;
use super::look::{Dims, Look, Seen};
use super::{moves, values, windows};

/// Ops whose output has the shape of their first input.
const SAME: [&str; 69] = [
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "BatchNormalization",
    "BitwiseNot",
    "Cast",
    "CastLike",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "CumProd",
    "CumSum",
    "DequantizeLinear",
    "Elu",
    "Erf",
    "Exp",
    "EyeLike",
    "Floor",
    "Gelu",
    "GroupNormalization",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "InstanceNormalization",
    "IsInf",
    "IsNaN",
    "LRN",
    "LeakyRelu",
    "Log",
    "LogSoftmax",
    "LpNormalization",
    "MeanVarianceNormalization",
    "Mish",
    "Neg",
    "Not",
    "PRelu",
    "QuantizeLinear",
    "RMSNormalization",
    "Reciprocal",
    "Relu",
    "ReverseSequence",
    "RotaryEmbedding",
    "Round",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softmax",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "TensorScatter",
    "ThresholdedRelu",
    "Trilu",
];

/// Ops whose output has the shape that all inputs broadcast to.
const BROADCAST: [&str; 23] = [
    "Add",
    "And",
    "BitShift",
    "BitwiseAnd",
    "BitwiseOr",
    "BitwiseXor",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
];

/// Ops that leave one element, or none, of some axes.
const REDUCE: [&str; 10] = [
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
];

/// The outputs of a node; `None` where nothing can be said.
pub(crate) fn apply(look: &mut Look<'_>) -> Option<Vec<Seen>> {
    if let Some(own) = values::apply(look) {
        return Some(vec![own]);
    }
    let op = look.node.op.as_str();
    let dims = match op {
        _ if SAME.contains(&op) => look.dims(0)?,
        _ if BROADCAST.contains(&op) => broadcast(look)?,
        _ if REDUCE.contains(&op) => reduce(look)?,
        "Dropout" => {
            let dims = look.dims(0)?;
            return Some(vec![Seen::of(dims.clone()), Seen::of(dims)]);
        }
        "LayerNormalization" => return layer(look),
        "DynamicQuantizeLinear" => {
            let scalar = || Seen::of(Vec::new());
            return Some(vec![Seen::of(look.dims(0)?), scalar(), scalar()]);
        }
        "MatMul" | "MatMulInteger" => product(look, 0, 1)?,
        "QLinearMatMul" => product(look, 0, 3)?,
        "Gemm" => gemm(look)?,
        "ArgMax" | "ArgMin" => {
            let axis = look.int("axis").unwrap_or(0);
            without(look, &[axis], look.int("keepdims") != Some(0))?
        }
        "GRU" | "LSTM" | "RNN" => return recurrent(look),
        "OneHot" => one_hot(look)?,
        "TopK" => {
            let dims = top(look)?;
            return Some(vec![Seen::of(dims.clone()), Seen::of(dims)]);
        }
        "Conv" | "ConvInteger" | "QLinearConv" => windows::conv(look)?,
        "ConvTranspose" => windows::conv_transpose(look)?,
        "AveragePool" | "LpPool" | "MaxPool" => {
            let dims = windows::pool(look)?;
            return Some(vec![Seen::of(dims.clone()), Seen::of(dims)]);
        }
        "GlobalAveragePool" | "GlobalLpPool" | "GlobalMaxPool" => {
            let dims = look.dims(0)?;
            let ones = dims.iter().skip(2).map(|_| Expr::number(1));
            dims.iter().take(2).cloned().chain(ones).collect()
        }
        "Resize" | "Upsample" => windows::resize(look)?,
        "DepthToSpace" | "SpaceToDepth" => windows::space(look)?,
        _ => return moves::apply(look),
    };
    Some(vec![Seen::of(dims)])
}

fn broadcast(look: &mut Look<'_>) -> Option<Dims> {
    // Before opset 7 the second one is laid along the first.
    if look.opset < 7 && look.int("broadcast") == Some(1) {
        return look.dims(0);
    }
    let mut all = look.dims(0)?;
    for index in 1..look.inputs.len() {
        let other = look.dims(index)?;
        all = look.broadcast(&all, &other)?;
    }
    Some(all)
}

/// The result, and what was found on the way of the axes that it was normalised along.
fn layer(look: &mut Look<'_>) -> Option<Vec<Seen>> {
    let dims = look.dims(0)?;
    let axis = Look::axis(look.int("axis").unwrap_or(-1), dims.len())?;
    let ones = dims[axis..].iter().map(|_| Expr::number(1));
    let found: Dims = dims[..axis].iter().cloned().chain(ones).collect();
    Some(vec![Seen::of(dims), Seen::of(found.clone()), Seen::of(found)])
}

fn product(look: &mut Look<'_>, a: usize, b: usize) -> Option<Dims> {
    let (mut a, mut b) = (look.dims(a)?, look.dims(b)?);
    let (row, column) = (a.len() == 1, b.len() == 1);
    if row {
        a.insert(0, Expr::number(1));
    }
    if column {
        b.push(Expr::number(1));
    }
    let (m, k) = (a.len().checked_sub(2)?, b.len().checked_sub(2)?);
    look.equal(&a[m + 1], &b[k])?;
    let mut dims = look.broadcast(&a[..m], &b[..k])?;
    if !row {
        dims.push(a[m].clone());
    }
    if !column {
        dims.push(b[k + 1].clone());
    }
    Some(dims)
}

fn gemm(look: &mut Look<'_>) -> Option<Dims> {
    let (a, b) = (look.dims(0)?, look.dims(1)?);
    let ([a0, a1], [b0, b1]) = (&a[..], &b[..]) else { return None };
    let turned = |name| look.int(name).unwrap_or(0) != 0;
    let (m, k) = if turned("transA") { (a1, a0) } else { (a0, a1) };
    let (other, n) = if turned("transB") { (b1, b0) } else { (b0, b1) };
    look.equal(k, other)?;
    Some(vec![m.clone(), n.clone()])
}

fn reduce(look: &mut Look<'_>) -> Option<Dims> {
    let since = if look.node.op == "ReduceSum" { 13 } else { 18 };
    let axes = look.either("axes", since, 1).ok()?.filter(|axes| !axes.is_empty());
    let dims = look.dims(0)?;
    let all = || (0..dims.len()).filter_map(|axis| i64::try_from(axis).ok()).collect();
    if axes.is_none() && look.int("noop_with_empty_axes") == Some(1) {
        return Some(dims);
    }
    without(look, &axes.unwrap_or_else(all), look.int("keepdims") != Some(0))
}

/// Dims of the first input with ones in the place of some, or without them.
fn without(look: &Look<'_>, axes: &[i64], keep: bool) -> Option<Dims> {
    let dims = look.dims(0)?;
    let axes = axes.iter().map(|axis| Look::axis(*axis, dims.len()));
    let axes = axes.collect::<Option<Vec<_>>>()?;
    let own = dims.into_iter().enumerate().filter_map(|(at, dim)| {
        if axes.contains(&at) { keep.then(|| Expr::number(1)) } else { Some(dim) }
    });
    Some(own.collect())
}

fn recurrent(look: &mut Look<'_>) -> Option<Vec<Seen>> {
    let x = look.dims(0)?;
    let [first, second, _] = &x[..] else { return None };
    let batch_first = look.int("layout") == Some(1);
    let (steps, batch) = if batch_first { (second, first) } else { (first, second) };
    let weights = look.dims(2)?;
    let (directions, hidden) = (weights.first()?.clone(), weights.get(2)?.clone());
    let (steps, batch) = (steps.clone(), batch.clone());
    let (all, last) = if batch_first {
        let all = vec![batch.clone(), steps, directions.clone(), hidden.clone()];
        (all, vec![batch, directions, hidden])
    } else {
        let all = vec![steps, directions.clone(), batch.clone(), hidden.clone()];
        (all, vec![directions, batch, hidden])
    };
    Some(vec![Seen::of(all), Seen::of(last.clone()), Seen::of(last)])
}

fn one_hot(look: &mut Look<'_>) -> Option<Dims> {
    let mut dims = look.dims(0)?;
    let depth = look.values(1)?.0.first()?.clone();
    let at = Look::axis(look.int("axis").unwrap_or(-1), dims.len() + 1)?;
    dims.insert(at, depth);
    Some(dims)
}

fn top(look: &mut Look<'_>) -> Option<Dims> {
    let mut dims = look.dims(0)?;
    let count = match look.opset {
        ..10 => Expr::number(look.int("k")?),
        _ => look.values(1)?.0.first()?.clone(),
    };
    let at = Look::axis(look.int("axis").unwrap_or(-1), dims.len())?;
    let room = dims[at].plus(-1, &count)?;
    look.ask(Condition::Least(room, 0))?;
    dims[at] = count;
    Some(dims)
}

#[cfg(test)]
mod tests {
    use super::{BROADCAST, REDUCE, SAME};

    #[test]
    fn rules_are_of_ops_that_are_there() {
        for name in SAME.iter().chain(&BROADCAST).chain(&REDUCE) {
            assert!(npu::ops::by_name(name).is_some(), "{name}");
        }
    }
}
