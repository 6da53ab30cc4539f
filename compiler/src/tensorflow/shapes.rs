//! Ops that move elements, and that reduce dims.

use super::constant::type_of;
use super::scope::{Scope, int, ints};

/// Attributes of StridedSlice.
pub(super) const MASKS: &[&str] =
    &["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"];

/// Number in ONNX of the type that an attribute names.
fn onnx_type(scope: &Scope<'_>, name: &str, default: i32) -> Result<i64, String> {
    let own = scope.attributes.data_type(name)?.unwrap_or(default);
    super::constant::data_type(own).map_err(|what| format!("attribute `{name}` {what}"))?;
    Ok(i64::from(type_of(own).0))
}

/// Numbers along axes become one.
pub(super) fn reduce(scope: &mut Scope<'_>, op: &str) -> Result<usize, String> {
    let keep = i64::from(scope.attributes.flag("keep_dims")?.unwrap_or(false));
    scope.same(op, vec![int("keepdims", keep), int("noop_with_empty_axes", 1)]);
    Ok(1)
}

pub(super) fn arg(scope: &mut Scope<'_>, op: &str) -> Result<usize, String> {
    let axis = scope.constant_int(1, "dimension")?;
    let to = onnx_type(scope, "output_type", 9)?;
    let x = scope.inputs[0].clone();
    let at = scope.step("place", op, &[&x], vec![int("axis", axis), int("keepdims", 0)]);
    scope.result("Cast", &[&at], vec![int("to", to)]);
    Ok(1)
}

pub(super) fn cast(scope: &mut Scope<'_>) -> Result<usize, String> {
    let to = onnx_type(scope, "DstT", 0)?;
    super::ops::keep_rank(scope);
    scope.same("Cast", vec![int("to", to)]);
    Ok(1)
}

pub(super) fn shape(scope: &mut Scope<'_>) -> Result<usize, String> {
    let to = onnx_type(scope, "out_type", 3)?;
    let x = scope.inputs[0].clone();
    let dims = scope.step("dims", "Shape", &[&x], Vec::new());
    scope.result("Cast", &[&dims], vec![int("to", to)]);
    Ok(1)
}

pub(super) fn fill(scope: &mut Scope<'_>) -> Result<usize, String> {
    let (dims, value) = (scope.inputs[0].clone(), scope.inputs[1].clone());
    scope.result("Expand", &[&value, &dims], Vec::new());
    Ok(1)
}

/// The last input is the axis.
pub(super) fn concat(scope: &mut Scope<'_>) -> Result<usize, String> {
    let last = scope.inputs.len() - 1;
    let axis = scope.constant_int(last, "axis")?;
    let inputs = scope.inputs[..last].to_vec();
    let inputs: Vec<&str> = inputs.iter().map(String::as_str).collect();
    super::ops::keep_rank(scope);
    scope.result("Concat", &inputs, vec![int("axis", axis)]);
    Ok(1)
}

/// Each input gets a dim, along which they then stand behind one another.
pub(super) fn pack(scope: &mut Scope<'_>) -> Result<usize, String> {
    let axis = scope.attributes.int("axis")?.unwrap_or(0);
    let axes = scope.numbers("axis", &[axis])?;
    let mut parts = Vec::new();
    for (index, input) in scope.inputs.clone().iter().enumerate() {
        let what = format!("part {index}");
        parts.push(scope.step(&what, "Unsqueeze", &[input, &axes], Vec::new()));
    }
    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
    scope.result("Concat", &parts, vec![int("axis", axis)]);
    Ok(1)
}

/// The axis is the first input.
pub(super) fn split(scope: &mut Scope<'_>) -> Result<usize, String> {
    let axis = scope.constant_int(0, "axis")?;
    let count = scope.attributes.int("num_split")?.unwrap_or(0);
    let parts = usize::try_from(count).ok().filter(|count| (1..=64).contains(count));
    let parts =
        parts.ok_or_else(|| format!("attribute `num_split`: {count}; supported: 1 to 64"))?;
    let x = scope.inputs[1].clone();
    scope.results(parts, "Split", &[&x], vec![int("axis", axis), int("num_outputs", count)]);
    Ok(parts)
}

/// Two numbers a dim: before and behind it. ONNX has all before, then all behind.
pub(super) fn pad(scope: &mut Scope<'_>) -> Result<usize, String> {
    let (x, paddings) = (scope.inputs[0].clone(), scope.inputs[1].clone());
    let value = scope.inputs.get(2).cloned();
    let turned = scope.step("turned", "Transpose", &[&paddings], vec![ints("perm", &[1, 0])]);
    let flat = scope.numbers("flat", &[-1])?;
    let pads = scope.step("pads", "Reshape", &[&turned, &flat], Vec::new());
    let inputs: Vec<&str> = [x.as_str(), &pads].into_iter().chain(value.as_deref()).collect();
    super::ops::keep_rank(scope);
    scope.result("Pad", &inputs, Vec::new());
    Ok(1)
}

/// Dims of 1 go: those that are named, or all.
pub(super) fn squeeze(scope: &mut Scope<'_>) -> Result<usize, String> {
    let x = scope.inputs[0].clone();
    let named = scope.attributes.ints("squeeze_dims")?.unwrap_or_default();
    if named.is_empty() {
        scope.result("Squeeze", &[&x], Vec::new());
    } else {
        let axes = scope.numbers("axes", named)?;
        scope.result("Squeeze", &[&x, &axes], Vec::new());
    }
    Ok(1)
}

pub(super) fn transpose(scope: &mut Scope<'_>) -> Result<usize, String> {
    let order = scope.constant_ints(1, "perm")?;
    let x = scope.inputs[0].clone();
    super::ops::keep_rank(scope);
    scope.result("Transpose", &[&x], vec![ints("perm", &order)]);
    Ok(1)
}

pub(super) fn gather(scope: &mut Scope<'_>) -> Result<usize, String> {
    let axis = scope.constant_int(2, "axis")?;
    if scope.attributes.int("batch_dims")?.is_some_and(|dims| dims != 0) {
        return Err("attribute `batch_dims`: only 0 is supported".to_owned());
    }
    let (x, indices) = (scope.inputs[0].clone(), scope.inputs[1].clone());
    scope.result("Gather", &[&x, &indices], vec![int("axis", axis)]);
    Ok(1)
}

/// Part of a tensor. A bit of a mask stands for a dim: it begins at its begin, ends at its end, or
/// is one element whose dim goes.
pub(super) fn slice(scope: &mut Scope<'_>) -> Result<usize, String> {
    let mut masks = [0; 5];
    for (mask, name) in masks.iter_mut().zip(MASKS) {
        *mask = scope.attributes.int(name)?.unwrap_or(0);
    }
    let [begin_mask, end_mask, ellipsis, new_axis, shrink] = masks;
    if ellipsis != 0 || new_axis != 0 {
        return Err("attributes `ellipsis_mask` and `new_axis_mask`: only 0 is supported".into());
    }
    let (begin, end) = (scope.constant_ints(1, "begin")?, scope.constant_ints(2, "end")?);
    let strides = scope.constant_ints(3, "strides")?;
    if begin.len() != end.len() || begin.len() != strides.len() || begin.len() > 32 {
        let (begin, end, strides) = (begin.len(), end.len(), strides.len());
        return Err(format!("{begin} begins, {end} ends, {strides} strides; expected the same"));
    }
    let (mut begins, mut ends, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let mut gone = Vec::new();
    for (dim, stride) in strides.iter().enumerate() {
        let bit = |mask: i64| mask >> dim & 1 == 1;
        let back = *stride < 0;
        if bit(shrink) {
            // The last element counted from the end has nothing behind it.
            let behind = begin[dim].checked_add(1).filter(|end| *end != 0);
            begins.push(begin[dim]);
            ends.push(behind.unwrap_or(i64::MAX));
            steps.push(1);
            gone.push(i64::try_from(dim).unwrap_or(0));
            continue;
        }
        let whole = [(0, i64::MAX), (i64::MAX, i64::MIN)][usize::from(back)];
        begins.push(if bit(begin_mask) { whole.0 } else { begin[dim] });
        ends.push(if bit(end_mask) { whole.1 } else { end[dim] });
        steps.push(*stride);
    }
    let axes: Vec<i64> = (0..).take(strides.len()).collect();
    let x = scope.inputs[0].clone();
    let begins = scope.numbers("begins", &begins)?;
    let ends = scope.numbers("ends", &ends)?;
    let axes = scope.numbers("axes", &axes)?;
    let steps = scope.numbers("steps", &steps)?;
    let inputs = [x.as_str(), &begins, &ends, &axes, &steps];
    if gone.is_empty() {
        scope.result("Slice", &inputs, Vec::new());
        return Ok(1);
    }
    let part = scope.step("part", "Slice", &inputs, Vec::new());
    let gone = scope.numbers("dims of one", &gone)?;
    scope.result("Squeeze", &[&part, &gone], Vec::new());
    Ok(1)
}
