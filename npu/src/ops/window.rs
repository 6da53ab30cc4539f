//! Windows that are moved over an image: kernel, strides, dilations and pads of pools and of
//! transposed convolutions. Images have up to three spatial dims; there are always three here,
//! those in front being 1.

use crate::ops::{Node, OpError};
use crate::params::{ParamReader, ParamWriter};
use crate::shape::Shape;

/// Spatial dims.
pub(super) const SPATIAL: usize = 3;

/// A window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Window {
    /// Spatial dims of the image.
    pub(super) rank: usize,
    /// Size.
    pub(super) kernel: [usize; SPATIAL],
    /// Distance between places.
    pub(super) strides: [usize; SPATIAL],
    /// Distance between elements.
    pub(super) dilations: [usize; SPATIAL],
    /// What is added before the image.
    pub(super) before: [usize; SPATIAL],
    /// What is added behind it.
    pub(super) after: [usize; SPATIAL],
    /// A place that is only partly inside counts, too.
    pub(super) ceil: bool,
}

/// A list of numbers that may be left out, one a spatial dim.
pub(super) fn numbers(
    node: &Node<'_>,
    name: &str,
    rank: usize,
    default: usize,
    least: usize,
) -> Result<[usize; SPATIAL], OpError> {
    let mut own = [default; SPATIAL];
    if let Some(given) = node.ints(name)? {
        let wanted = format!("{rank} numbers from {least} on");
        let refuse = || OpError::attribute(name, format!("{given:?}"), wanted.clone());
        if given.len() != rank {
            return Err(refuse());
        }
        for (to, number) in own[SPATIAL - rank..].iter_mut().zip(given) {
            let fits = |number: &usize| (least..1 << 40).contains(number);
            *to = usize::try_from(*number).ok().filter(fits).ok_or_else(refuse)?;
        }
    }
    Ok(own)
}

/// The spatial dims of an image `[N, C, …]`, with ones in front.
pub(super) fn spatial(shape: &Shape) -> Result<(usize, [usize; SPATIAL]), OpError> {
    let refuse =
        || OpError::shape(format!("{shape}: [N, C, …] with 1 to 3 more dims is supported"));
    let rank = shape.rank().checked_sub(2).filter(|rank| (1..=SPATIAL).contains(rank));
    let rank = rank.ok_or_else(refuse)?;
    let mut dims = [1; SPATIAL];
    dims[SPATIAL - rank..].copy_from_slice(&shape.dims()[2..]);
    Ok((rank, dims))
}

impl Window {
    /// Of a node with the attribute `kernel_shape`, on an image.
    pub(super) fn import(node: &Node<'_>) -> Result<Self, OpError> {
        let (rank, image) = spatial(&node.input(0)?.info.shape)?;
        if node.ints("kernel_shape")?.is_none() {
            let supported = format!("{rank} numbers");
            return Err(OpError::attribute("kernel_shape", "is not given", supported));
        }
        let kernel = numbers(node, "kernel_shape", rank, 1, 1)?;
        let strides = numbers(node, "strides", rank, 1, 1)?;
        let dilations = numbers(node, "dilations", rank, 1, 1)?;
        let ceil = node.flag("ceil_mode", false)?;
        let zero = [0; SPATIAL];
        let mut own = Self { rank, kernel, strides, dilations, before: zero, after: zero, ceil };
        match node.text("auto_pad")?.unwrap_or("NOTSET") {
            "NOTSET" => (own.before, own.after) = pads(node, rank)?,
            "VALID" => {}
            "SAME_UPPER" => own.pad_same(&image, false),
            "SAME_LOWER" => own.pad_same(&image, true),
            other => {
                let supported = "NOTSET, VALID, SAME_UPPER, SAME_LOWER";
                return Err(OpError::attribute("auto_pad", other, supported));
            }
        }
        Ok(own)
    }

    /// Pads so that there is a place for every stride of the image.
    fn pad_same(&mut self, image: &[usize; SPATIAL], lower: bool) {
        for (dim, length) in image.iter().enumerate() {
            let places = length.div_ceil(self.strides[dim]).max(1);
            let wanted = ((places - 1) * self.strides[dim]).saturating_add(self.reach(dim));
            let sum = wanted.saturating_sub(*length);
            let (small, large) = (sum / 2, sum - sum / 2);
            (self.before[dim], self.after[dim]) =
                if lower { (large, small) } else { (small, large) };
        }
        // There is a whole number of places.
        self.ceil = false;
    }

    /// Elements that the window spans.
    pub(super) fn reach(&self, dim: usize) -> usize {
        (self.kernel[dim] - 1).saturating_mul(self.dilations[dim]).saturating_add(1)
    }

    /// Number of places along each dim.
    pub(super) fn places(&self, image: &[usize; SPATIAL]) -> Result<[usize; SPATIAL], OpError> {
        let mut places = [1; SPATIAL];
        for dim in 0..SPATIAL {
            let padded = image[dim].saturating_add(self.before[dim]);
            let whole = padded.saturating_add(self.after[dim]);
            let refuse = || OpError::shape(format!("{image:?} padded is smaller than the kernel"));
            let room = whole.checked_sub(self.reach(dim)).ok_or_else(refuse)?;
            let stride = self.strides[dim];
            places[dim] = if self.ceil {
                let places = room.div_ceil(stride) + 1;
                // The last place begins in the image, or in what is added before it.
                if (places - 1) * stride >= padded { places - 1 } else { places }
            } else {
                room / stride + 1
            };
        }
        Ok(places)
    }

    /// Elements of the window that are inside the image at a place: the first, one behind the last,
    /// and where the first one is.
    #[inline(always)]
    pub(super) fn inside(&self, dim: usize, place: usize, image: usize) -> (usize, usize, usize) {
        let (begin, step) = (place * self.strides[dim], self.dilations[dim]);
        let first = self.before[dim].saturating_sub(begin).div_ceil(step);
        let end = (image + self.before[dim]).saturating_sub(begin).div_ceil(step);
        let end = end.min(self.kernel[dim]);
        let at = (begin + first * step).saturating_sub(self.before[dim]);
        (first.min(end), end, at)
    }

    pub(super) fn encode(&self, into: &mut ParamWriter) {
        into.size(self.rank);
        for list in [self.kernel, self.strides, self.dilations, self.before, self.after] {
            into.sizes(&list);
        }
        into.flag(self.ceil);
    }

    pub(super) fn decode(from: &mut ParamReader<'_>) -> Result<Self, OpError> {
        let rank = from.size()?;
        let (kernel, strides, dilations) = (from.sizes()?, from.sizes()?, from.sizes()?);
        let (before, after, ceil) = (from.sizes()?, from.sizes()?, from.flag()?);
        let own = Self { rank, kernel, strides, dilations, before, after, ceil };
        let positive = [kernel, strides, dilations];
        let all = [kernel, strides, dilations, before, after];
        let neutral = (0..SPATIAL - rank.min(SPATIAL)).all(|dim| {
            positive.iter().all(|list| list[dim] == 1) && before[dim] == 0 && after[dim] == 0
        });
        if !(1..=SPATIAL).contains(&rank)
            || positive.iter().flatten().any(|number| *number == 0)
            || all.iter().flatten().any(|number| *number > 1 << 40)
            || !neutral
        {
            return Err(OpError::params(format!("{own:?} is no window")));
        }
        Ok(own)
    }
}

/// The attribute `pads`: all before, then all behind.
pub(super) fn pads(
    node: &Node<'_>,
    rank: usize,
) -> Result<([usize; SPATIAL], [usize; SPATIAL]), OpError> {
    let (mut before, mut after) = ([0; SPATIAL], [0; SPATIAL]);
    if let Some(given) = node.ints("pads")? {
        let wanted = format!("{} numbers from 0 on", 2 * rank);
        let refuse = || OpError::attribute("pads", format!("{given:?}"), wanted.clone());
        if given.len() != 2 * rank {
            return Err(refuse());
        }
        let own = before[SPATIAL - rank..].iter_mut().chain(&mut after[SPATIAL - rank..]);
        for (to, number) in own.zip(given) {
            let fits = |number: &usize| *number < 1 << 40;
            *to = usize::try_from(*number).ok().filter(fits).ok_or_else(refuse)?;
        }
    }
    Ok((before, after))
}
