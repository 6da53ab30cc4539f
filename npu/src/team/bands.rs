//! Parts that are the same rows of several planes: for kernels that make all of them from what they
//! prepare once.

use std::slice::ChunksMut;
use std::sync::Mutex;

use super::{Team, WORTH, lock};
use crate::isa;

/// Most planes that are dealt out together.
pub(crate) const PLANES: usize = 16;

/// Deals out bands of the planes of `out`, of `plane` elements each and at most [`PLANES`]: `size`
/// elements of each of them, which cost so many floating-point operations of a convolution
/// together; the last band may be smaller. `of` gets the number of the band and its part of each
/// plane. What is too little is done here, band after band.
pub(crate) fn bands<T: Send>(
    team: Option<&Team>,
    (out, plane): (&mut [T], usize),
    (size, cost): (usize, usize),
    of: impl Fn(usize, &mut [&mut [T]]) + Sync,
) {
    let (plane, size) = (plane.max(1), size.max(1));
    let count = plane.div_ceil(size);
    let mut planes = out.chunks_mut(plane).map(|own| own.chunks_mut(size));
    let planes: [Option<ChunksMut<'_, T>>; PLANES] = std::array::from_fn(|_| planes.next());
    let left = Mutex::new((0, planes));
    let work = || {
        loop {
            let mut own: [&mut [T]; PLANES] = std::array::from_fn(|_| Default::default());
            let mut left = lock(&left);
            let band = left.0;
            if band == count {
                break;
            }
            left.0 += 1;
            let mut planes = 0;
            for (to, from) in own.iter_mut().zip(left.1.iter_mut().flatten()) {
                *to = from.next().unwrap_or_default();
                planes += 1;
            }
            drop(left);
            of(band, &mut own[..planes]);
        }
    };
    let worth = count > 1 && cost.saturating_mul(count) >= WORTH;
    match team.filter(|team| worth && team.threads() > 1) {
        Some(team) => {
            let limit = isa::limit();
            team.call(&|| isa::at_most(limit, work));
        }
        None => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::team;

    #[test]
    fn every_element_of_every_plane_is_in_one_band() {
        let team = team();
        for (planes, rows, each) in [(1, 1, 1), (3, 7, 2), (16, 5, 5), (2, 4, 9)] {
            for team in [None, Some(&*team)] {
                let mut out = vec![0_usize; planes * rows * 4];
                bands(team, (&mut out, rows * 4), (each * 4, 1000), |band, own| {
                    assert_eq!(own.len(), planes);
                    for part in own {
                        part.iter_mut().for_each(|to| *to += band + 1);
                    }
                });
                for (at, found) in out.iter().enumerate() {
                    assert_eq!(*found, at / 4 % rows / each + 1, "{planes} {rows} {each}: {at}");
                }
            }
        }
    }
}
