//! The small tensors that dims travel in: from Shape, through a little arithmetic, to Reshape,
//! Expand, Resize and such.

use super::condition::Condition;
use super::expr::Expr;
use super::look::{Look, Seen};
use super::moves;

/// The output of a node, if its elements are known; `None` otherwise.
pub(crate) fn apply(look: &mut Look<'_>) -> Option<Seen> {
    let op = look.node.op.as_str();
    match op {
        "Shape" => {
            let dims = moves::span(look)?;
            return Some(Seen::numbers(vec![Expr::of(dims.len())?], dims));
        }
        "Size" => return Some(Seen::numbers(Vec::new(), vec![Expr::product(&look.dims(0)?)?])),
        _ => {}
    }
    // Lists and single numbers: elements lie as they are counted.
    let flat = |index: usize| look.dims(index).is_some_and(|dims| dims.len() <= 1);
    let (own, float) = look.values(0).filter(|_| flat(0))?;
    let (values, float) = match op {
        "Identity" => (own, float),
        "Cast" => match look.int("to")? {
            6 | 7 => (own, false),
            1 | 11 => (own, true),
            _ => return None,
        },
        // Whole numbers already.
        "Floor" | "Ceil" | "Round" => (own, float),
        "Neg" => (own.iter().map(|own| own.scaled(-1)).collect::<Option<_>>()?, float),
        "Reshape" | "Squeeze" | "Unsqueeze" | "Flatten" => {
            let shape = moves::apply(look)?.pop()?;
            return shape
                .dims
                .filter(|dims| dims.len() <= 1)
                .map(|dims| Seen { float, ..Seen::numbers(dims, own) });
        }
        "Concat" => {
            let mut all = own;
            for index in 1..look.inputs.len() {
                all.extend(look.values(index).filter(|_| flat(index))?.0);
            }
            let dims = vec![Expr::of(all.len())?];
            return Some(Seen { float, ..Seen::numbers(dims, all) });
        }
        "Gather" => {
            let count = i64::try_from(own.len()).ok()?;
            let at = |index: i64| {
                let index = if index < 0 { index.checked_add(count)? } else { index };
                own.get(usize::try_from(index).ok()?).cloned()
            };
            let indices = look.integers(1).filter(|_| flat(1))?;
            let picked = indices.into_iter().map(at).collect::<Option<Vec<_>>>()?;
            return Some(Seen { float, ..Seen::numbers(look.dims(1)?, picked) });
        }
        "Slice" => (slice(look, &own)?, float),
        "Add" | "Sub" | "Mul" | "Div" | "Min" | "Max" if look.inputs.len() == 2 => {
            let (other, also) = look.values(1).filter(|_| flat(1))?;
            let length = own.len().max(other.len());
            let fits = |list: &[Expr]| list.len() == length || list.len() == 1;
            if !fits(&own) || !fits(&other) {
                return None;
            }
            let float = float || also;
            let at =
                |list: &[Expr], index: usize| list[if list.len() == 1 { 0 } else { index }].clone();
            let mut all = Vec::with_capacity(length);
            for index in 0..length {
                all.push(pair(look, op, (&at(&own, index), &at(&other, index)), float)?);
            }
            let (a, b) = (look.dims(0)?, look.dims(1)?);
            let dims = look.broadcast(&a, &b)?;
            return Some(Seen { float, ..Seen::numbers(dims, all) });
        }
        _ => return None,
    };
    let dims = if op == "Slice" { vec![Expr::of(values.len())?] } else { look.dims(0)? };
    Some(Seen { float, ..Seen::numbers(dims, values) })
}

/// One of two operands on two numbers.
fn pair(look: &mut Look<'_>, op: &str, (a, b): (&Expr, &Expr), float: bool) -> Option<Expr> {
    match op {
        "Add" => a.plus(1, b),
        "Sub" => a.plus(-1, b),
        "Mul" => a.times(b),
        "Div" => {
            if let Some(whole) = a.exactly(b) {
                return Some(whole);
            }
            let by = b.as_number().filter(|by| *by > 0)?;
            // Floats have a rest; whole numbers are rounded towards 0.
            (!float && a.is_natural()).then(|| a.floor(by))?
        }
        // A dim is compared with a number.
        _ => {
            let smaller = op == "Min";
            let (a, b) = if b.as_number().is_some() { (a, b) } else { (b, a) };
            let bound = b.as_number()?;
            match a.as_number() {
                Some(own) => {
                    Some(Expr::number(if smaller { own.min(bound) } else { own.max(bound) }))
                }
                None if smaller => None,
                None => {
                    look.ask(Condition::Least(a.clone(), bound))?;
                    Some(a.clone())
                }
            }
        }
    }
}

fn slice(look: &Look<'_>, own: &[Expr]) -> Option<Vec<Expr>> {
    let one = |name: &str, at: usize| {
        let list = if look.opset >= 10 { look.integers(at)? } else { look.ints(name)? };
        <[i64; 1]>::try_from(list).ok().map(|[own]| own)
    };
    let step = if look.opset >= 10 && look.has(4) { one("steps", 4)? } else { 1 };
    let count = i64::try_from(own.len()).ok()?;
    let place = |at: i64| {
        let at = if at < 0 { at.saturating_add(count) } else { at };
        usize::try_from(at.clamp(0, count)).ok()
    };
    let (start, end) = (place(one("starts", 1)?)?, place(one("ends", 2)?)?);
    (step == 1).then(|| own[start..end.max(start)].to_vec())
}
