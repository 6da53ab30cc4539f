//! Ops that move elements: by dims that are given, or by values that dims travel in.

use super::condition::Condition;
use super::expr::Expr;
use super::look::{Dims, Look, Seen};

/// The outputs of a node; `None` where nothing can be said.
pub(crate) fn apply(look: &mut Look<'_>) -> Option<Vec<Seen>> {
    let dims = match look.node.op.as_str() {
        "Transpose" => transpose(look)?,
        "Reshape" => {
            let target = match look.opset {
                ..5 => look.ints("shape")?.into_iter().map(Expr::number).collect(),
                _ => look.values(1)?.0,
            };
            reshape(look, &target)?
        }
        "Flatten" => flatten(look)?,
        "Squeeze" => squeeze(look)?,
        "Unsqueeze" => unsqueeze(look)?,
        "Concat" => concat(look)?,
        "Split" => return split(look),
        "Slice" => slice(look)?,
        "Gather" => gather(look)?,
        "GatherElements" => look.dims(1)?,
        "GatherND" => gather_nd(look)?,
        "Expand" => {
            let (own, target) = (look.dims(0)?, look.values(1)?.0);
            look.broadcast(&own, &target)?
        }
        "Tile" if look.opset >= 6 => {
            let (dims, repeats) = (look.dims(0)?, look.values(1)?.0);
            let same = dims.len() == repeats.len();
            let all = dims.iter().zip(&repeats).map(|(dim, times)| dim.times(times));
            all.collect::<Option<Dims>>().filter(|_| same)?
        }
        "Pad" => pad(look)?,
        "ConstantOfShape" => look.values(0)?.0,
        "Shape" => vec![Expr::of(span(look)?.len())?],
        "Size" => Vec::new(),
        _ => return None,
    };
    Some(vec![Seen::of(dims)])
}

/// The dims that Shape tells of.
pub(crate) fn span(look: &Look<'_>) -> Option<Dims> {
    let dims = look.dims(0)?;
    let rank = i64::try_from(dims.len()).ok()?;
    let place = |name: &str, default: i64| {
        let at = look.int(name).unwrap_or(default);
        let at = if at < 0 { at.saturating_add(rank) } else { at };
        usize::try_from(at.clamp(0, rank)).ok()
    };
    let (start, end) = (place("start", 0)?, place("end", rank)?);
    Some(dims[start..end.max(start)].to_vec())
}

fn transpose(look: &Look<'_>) -> Option<Dims> {
    let dims = look.dims(0)?;
    let Some(order) = look.ints("perm") else { return Some(dims.into_iter().rev().collect()) };
    let place = |at: &i64| dims.get(usize::try_from(*at).ok()?).cloned();
    order.iter().map(place).collect::<Option<Dims>>().filter(|own| own.len() == dims.len())
}

fn reshape(look: &mut Look<'_>, target: &[Expr]) -> Option<Dims> {
    let dims = look.dims(0)?;
    let zeros = look.int("allowzero") != Some(1);
    let mut own = Vec::with_capacity(target.len());
    let mut open = None;
    for (at, dim) in target.iter().enumerate() {
        own.push(match dim.as_number() {
            Some(0) if zeros => dims.get(at)?.clone(),
            Some(-1) if open.is_none() => {
                open = Some(at);
                Expr::number(1)
            }
            Some(..0) => return None,
            _ => dim.clone(),
        });
    }
    // Dims that stay are taken out of both products first, so that less has to be divided.
    let (mut from, mut to) = (dims, own.clone());
    to.retain(|dim| {
        let same = from.iter().position(|own| own == dim);
        same.map(|at| from.remove(at)).is_none()
    });
    let (from, to) = (Expr::product(&from)?, Expr::product(&to)?);
    let Some(open) = open else {
        look.equal(&from, &to)?;
        return Some(own);
    };
    own[open] = match (from.exactly(&to), to.as_number()) {
        (Some(whole), _) => whole,
        (None, Some(by)) if by > 0 => {
            look.ask(Condition::Multiple(from.clone(), by))?;
            from.floor(by)?
        }
        _ => look.unknown(),
    };
    Some(own)
}

fn flatten(look: &Look<'_>) -> Option<Dims> {
    let dims = look.dims(0)?;
    let rank = i64::try_from(dims.len()).ok()?;
    let axis = look.int("axis").unwrap_or(1);
    let axis = usize::try_from(if axis < 0 { axis.checked_add(rank)? } else { axis }).ok()?;
    let (before, behind) = dims.split_at_checked(axis)?;
    Some(vec![Expr::product(before)?, Expr::product(behind)?])
}

fn squeeze(look: &mut Look<'_>) -> Option<Dims> {
    let dims = look.dims(0)?;
    let Some(axes) = look.either("axes", 13, 1).ok()? else {
        // Any dim may be 1.
        let known = dims.iter().all(|dim| dim.as_number().is_some());
        let others = dims.into_iter().filter(|dim| dim.as_number() != Some(1));
        return known.then(|| others.collect());
    };
    let axes = axes.iter().map(|axis| Look::axis(*axis, dims.len()));
    let axes: Vec<usize> = axes.collect::<Option<_>>()?;
    for axis in &axes {
        look.equal(&dims[*axis], &Expr::number(1))?;
    }
    let others = dims.into_iter().enumerate().filter(|(at, _)| !axes.contains(at));
    Some(others.map(|(_, dim)| dim).collect())
}

fn unsqueeze(look: &Look<'_>) -> Option<Dims> {
    let dims = look.dims(0)?;
    let axes = look.either("axes", 13, 1).ok()??;
    let rank = dims.len() + axes.len();
    let axes: Vec<usize> =
        axes.iter().map(|axis| Look::axis(*axis, rank)).collect::<Option<_>>()?;
    let mut own = dims.into_iter();
    (0..rank)
        .map(|at| if axes.contains(&at) { Some(Expr::number(1)) } else { own.next() })
        .collect()
}

fn concat(look: &mut Look<'_>) -> Option<Dims> {
    let mut all = look.dims(0)?;
    let axis = Look::axis(look.int("axis").or((look.opset < 4).then_some(1))?, all.len())?;
    for index in 1..look.inputs.len() {
        let other = look.dims(index).filter(|other| other.len() == all.len())?;
        for (at, dim) in other.iter().enumerate() {
            all[at] = if at == axis { all[at].plus(1, dim)? } else { look.equal(&all[at], dim)? };
        }
    }
    Some(all)
}

fn split(look: &mut Look<'_>) -> Option<Vec<Seen>> {
    let dims = look.dims(0)?;
    let axis = Look::axis(look.int("axis").unwrap_or(0), dims.len())?;
    let count = i64::try_from(look.outputs()).ok().filter(|count| *count > 0)?;
    let given = look.either("split", 13, 1).ok()?;
    let sizes: Vec<Expr> = match given {
        Some(sizes) => {
            let all = sizes.iter().try_fold(0i64, |sum, size| sum.checked_add(*size))?;
            look.equal(&dims[axis], &Expr::number(all))?;
            sizes.into_iter().map(Expr::number).collect()
        }
        // From opset 18 on the last part may be smaller.
        None => {
            let parts = look.int("num_outputs").unwrap_or(count);
            look.ask(Condition::Multiple(dims[axis].clone(), parts))?;
            let part = dims[axis].floor(parts)?;
            (0..count).map(|_| part.clone()).collect()
        }
    };
    let of = |size: Expr| {
        let mut dims = dims.clone();
        dims[axis] = size;
        Seen::of(dims)
    };
    Some(sizes.into_iter().map(of).collect())
}

fn slice(look: &mut Look<'_>) -> Option<Dims> {
    let mut dims = look.dims(0)?;
    let lists = |look: &Look<'_>, name: &str, at: usize| {
        if look.opset >= 10 {
            return look.has(at).then(|| look.values(at)).map(|own| own.map(|(own, _)| own));
        }
        Some(look.ints(name).map(|own| own.into_iter().map(Expr::number).collect()))
    };
    let (starts, ends) = (lists(look, "starts", 1)??, lists(look, "ends", 2)??);
    let axes = look.either("axes", 10, 3).ok()?;
    let all = || (0..starts.len()).filter_map(|axis| i64::try_from(axis).ok()).collect();
    let axes: Vec<i64> = axes.unwrap_or_else(all);
    let steps =
        if look.opset >= 10 && look.has(4) { look.integers(4)? } else { vec![1; axes.len()] };
    if [starts.len(), ends.len(), steps.len()].iter().any(|own| *own != axes.len()) {
        return None;
    }
    for (index, axis) in axes.iter().enumerate() {
        let axis = Look::axis(*axis, dims.len())?;
        let span = (&starts[index], &ends[index], steps[index]);
        dims[axis] = part(look, &dims[axis], span)?;
    }
    Some(dims)
}

/// Length of a part of a dim.
fn part(look: &mut Look<'_>, dim: &Expr, (start, end, step): (&Expr, &Expr, i64)) -> Option<Expr> {
    /// What stands for the end of any dim.
    const FAR: i64 = 1 << 30;
    const NEAR: i64 = -FAR;
    let backwards = step < 0;
    // Where a bound lies, and whether that has to be inside.
    let place = |bound: &Expr, far: &Expr| match bound.as_number() {
        Some(FAR..) => Some((if backwards { dim.shifted(-1)? } else { dim.clone() }, false)),
        Some(..=NEAR) => Some((far.clone(), false)),
        Some(at @ ..0) => Some((dim.shifted(at)?, true)),
        // The dim itself, and what is less by a number.
        _ if bound.is_natural() || bound.as_number().is_some() => Some((bound.clone(), true)),
        _ => None,
    };
    let far = Expr::number(if backwards { -1 } else { 0 });
    let ((from, inside), (to, within)) = (place(start, &far)?, place(end, &far)?);
    for (bound, looked) in [(&from, inside), (&to, within)] {
        if looked {
            // Bounds beyond the dim would be drawn into it.
            let above = dim.plus(-1, bound)?;
            look.least(&above, if backwards { 1 } else { 0 })?;
            look.least(bound, 0)?;
        }
    }
    let (first, last) = if backwards { (&to, &from) } else { (&from, &to) };
    let length = last.plus(-1, first)?;
    look.least(&length, 0)?;
    length.ceil(step.checked_abs()?)
}

fn gather(look: &Look<'_>) -> Option<Dims> {
    let (dims, indices) = (look.dims(0)?, look.dims(1)?);
    let axis = Look::axis(look.int("axis").unwrap_or(0), dims.len())?;
    Some([&dims[..axis], &indices[..], &dims[axis + 1..]].concat())
}

fn gather_nd(look: &Look<'_>) -> Option<Dims> {
    let (dims, indices) = (look.dims(0)?, look.dims(1)?);
    let batch = usize::try_from(look.int("batch_dims").unwrap_or(0)).ok()?;
    let (last, front) = indices.split_last()?;
    let taken = usize::try_from(last.as_number()?).ok()?;
    let rest = dims.get(batch.checked_add(taken)?..)?;
    Some([front, rest].concat())
}

fn pad(look: &mut Look<'_>) -> Option<Dims> {
    let mut dims = look.dims(0)?;
    let pads = match look.opset {
        ..11 => look.ints("pads").or_else(|| look.ints("paddings"))?,
        _ => look.integers(1)?,
    };
    let axes = match look.has(3) {
        true => look.integers(3)?,
        false => (0..dims.len()).filter_map(|axis| i64::try_from(axis).ok()).collect(),
    };
    let (before, behind) = pads.split_at_checked(axes.len())?;
    if behind.len() != axes.len() {
        return None;
    }
    for ((axis, before), behind) in axes.iter().zip(before).zip(behind) {
        let axis = Look::axis(*axis, dims.len())?;
        dims[axis] = dims[axis].shifted(before.checked_add(*behind)?)?;
        if *before < 0 || *behind < 0 {
            look.least(&dims[axis].clone(), 0)?;
        }
    }
    Some(dims)
}
