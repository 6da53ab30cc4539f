//! Windows over images, scales of images, and blocks of them.

use super::condition::Condition;
use super::expr::Expr;
use super::look::{Dims, Look};

/// Most halvings of a scale that is followed.
const HALVES_MAX: i32 = 20;

/// Numbers of a window, one a spatial dim.
struct Window {
    kernel: Vec<i64>,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Before and behind.
    pads: Vec<(i64, i64)>,
    /// As many places as strides, whatever the pads.
    same: bool,
}

impl Window {
    fn of(look: &Look<'_>, rank: usize, kernel: Vec<i64>) -> Option<Self> {
        let list = |name, default| look.ints(name).unwrap_or_else(|| vec![default; rank]);
        let (strides, dilations) = (list("strides", 1), list("dilations", 1));
        let pads = look.ints("pads").unwrap_or_else(|| vec![0; 2 * rank]);
        let positive = [&kernel, &strides, &dilations];
        if positive.iter().any(|own| own.len() != rank || own.iter().any(|own| *own < 1))
            || pads.len() != 2 * rank
        {
            return None;
        }
        let explicit: Vec<(i64, i64)> =
            pads[..rank].iter().copied().zip(pads[rank..].iter().copied()).collect();
        let (pads, same) = match look.text("auto_pad").as_deref() {
            None | Some("NOTSET") => (explicit, false),
            Some("VALID") => (vec![(0, 0); rank], false),
            Some("SAME_UPPER" | "SAME_LOWER") => (vec![(0, 0); rank], true),
            Some(_) => return None,
        };
        Some(Self { kernel, strides, dilations, pads, same })
    }

    /// Elements that the window spans.
    fn reach(&self, dim: usize) -> Option<i64> {
        (self.kernel[dim] - 1).checked_mul(self.dilations[dim])?.checked_add(1)
    }

    /// Number of its places along a dim.
    fn places(&self, look: &mut Look<'_>, dim: usize, of: &Expr, up: bool) -> Option<Expr> {
        let (stride, (before, after)) = (self.strides[dim], self.pads[dim]);
        if self.same {
            return of.ceil(stride);
        }
        let reach = self.reach(dim)?;
        let room = of.shifted(before.checked_add(after)?.checked_sub(reach)?)?;
        look.least(&room, 0)?;
        if !up {
            return room.floor(stride)?.shifted(1);
        }
        // A last place that begins behind the image does not count: there may be one.
        let none_behind = stride.checked_add(after)? <= reach;
        let count = room.ceil(stride)?.shifted(1)?;
        if none_behind { Some(count) } else { Some(look.unknown()) }
    }
}

/// Dims of the kernel: an attribute, or those of the weights.
fn kernel(look: &Look<'_>, weights: &[Expr]) -> Option<Vec<i64>> {
    let own = || weights.iter().skip(2).map(Expr::as_number).collect();
    look.ints("kernel_shape").or_else(own)
}

pub(crate) fn conv(look: &mut Look<'_>) -> Option<Dims> {
    let weights = look.dims(if look.node.op == "QLinearConv" { 3 } else { 1 })?;
    let dims = look.dims(0)?;
    let window = Window::of(look, dims.len().checked_sub(2)?, kernel(look, &weights)?)?;
    let maps = weights.get(1)?.scaled(look.int("group").unwrap_or(1))?;
    look.equal(&dims[1], &maps)?;
    let mut own = vec![dims[0].clone(), weights[0].clone()];
    for (at, dim) in dims[2..].iter().enumerate() {
        own.push(window.places(look, at, dim, false)?);
    }
    Some(own)
}

pub(crate) fn pool(look: &mut Look<'_>) -> Option<Dims> {
    let dims = look.dims(0)?;
    let window = Window::of(look, dims.len().checked_sub(2)?, look.ints("kernel_shape")?)?;
    let up = look.int("ceil_mode") == Some(1);
    let mut own = dims[..2].to_vec();
    for (at, dim) in dims[2..].iter().enumerate() {
        own.push(window.places(look, at, dim, up)?);
    }
    Some(own)
}

pub(crate) fn conv_transpose(look: &mut Look<'_>) -> Option<Dims> {
    let (dims, weights) = (look.dims(0)?, look.dims(1)?);
    let rank = dims.len().checked_sub(2)?;
    let window = Window::of(look, rank, kernel(look, &weights)?)?;
    let maps = weights.get(1)?.scaled(look.int("group").unwrap_or(1))?;
    let mut own = vec![dims[0].clone(), maps];
    let given = look.ints("output_shape");
    let more = look.ints("output_padding").unwrap_or_else(|| vec![0; rank]);
    for (at, dim) in dims[2..].iter().enumerate() {
        let (stride, (before, after)) = (window.strides[at], window.pads[at]);
        own.push(match &given {
            Some(given) => Expr::number(*given.get(given.len().checked_sub(rank)? + at)?),
            None if window.same => dim.scaled(stride)?,
            None => {
                let wider = window.reach(at)?.checked_add(*more.get(at)?)?;
                let wider = wider.checked_sub(before.checked_add(after)?)?;
                let all = dim.scaled(stride)?.shifted(wider.checked_sub(stride)?)?;
                look.least(&all, 0)?;
                all
            }
        });
    }
    Some(own)
}

pub(crate) fn resize(look: &mut Look<'_>) -> Option<Dims> {
    let mut dims = look.dims(0)?;
    let axes = match look.ints("axes") {
        Some(axes) => axes.iter().map(|axis| Look::axis(*axis, dims.len())).collect(),
        None => Some((0..dims.len()).collect::<Vec<_>>()),
    }?;
    let stretch = look.text("keep_aspect_ratio_policy").is_none_or(|own| own == "stretch");
    let cropped = look.text("coordinate_transformation_mode");
    if !stretch || cropped.is_some_and(|own| own == "tf_crop_and_resize") {
        return None;
    }
    if look.has(3) {
        let (sizes, _) = look.values(3)?;
        for (axis, size) in axes.iter().zip(&sizes) {
            dims[*axis] = size.clone();
        }
        return (sizes.len() == axes.len()).then_some(dims);
    }
    let at = if look.node.op == "Upsample" || look.opset < 11 { 1 } else { 2 };
    let scales = match look.list("scales") {
        Some(scales) => scales,
        None => look.floats(at)?,
    };
    for (axis, scale) in axes.iter().zip(&scales) {
        dims[*axis] = scaled(&dims[*axis], *scale)?;
    }
    (scales.len() == axes.len()).then_some(dims)
}

/// The dim times a scale, rounded down: every float is a whole number of some halves of halves.
fn scaled(dim: &Expr, scale: f64) -> Option<Expr> {
    let halves = (0..=HALVES_MAX).find(|halves| (scale * 2f64.powi(*halves)).fract() == 0.0)?;
    let above = scale * 2f64.powi(halves);
    let fits = above > 0.0 && above < f64::from(1 << 30);
    #[expect(clippy::cast_possible_truncation, reason = "whole, and below 2^30")]
    let above = fits.then_some(above as i64)?;
    dim.scaled(above)?.floor(1 << halves)
}

pub(crate) fn space(look: &mut Look<'_>) -> Option<Dims> {
    let dims = look.dims(0)?;
    let [n, c, h, w] = &dims[..] else { return None };
    let block = look.int("blocksize").filter(|block| *block > 0)?;
    let square = block.checked_mul(block)?;
    let depth = look.node.op == "DepthToSpace";
    let mut parts = |of: &Expr, by: i64| {
        look.ask(Condition::Multiple(of.clone(), by))?;
        of.floor(by)
    };
    Some(if depth {
        let c = parts(c, square)?;
        vec![n.clone(), c, h.scaled(block)?, w.scaled(block)?]
    } else {
        let (h, w) = (parts(h, block)?, parts(w, block)?);
        vec![n.clone(), c.scaled(square)?, h, w]
    })
}
