//! A task whose result lies where an operand lies: piece by piece, a copy of the operand's piece is
//! read while the result is written over it.
//!
//! The copy of a piece stays in the first-level cache; what an op computes of it does not depend on
//! where the pieces are cut.

use std::sync::{Mutex, PoisonError};

use crate::ops::{BY_PLACE_MAX, Op};
use crate::shape::Shape;
use crate::team::{self, Team};
use crate::tensor::{Fault, Inputs, Output, TensorInfo, element_size};

/// Bytes of a piece: a multiple of every element's size.
const PIECE: usize = if cfg!(test) { 64 } else { 4096 };

/// A copy, at an address that fits every element.
#[repr(align(64))]
struct Copied([u8; PIECE]);

/// Runs an op by pieces over `bytes`, which hold the operand `over` and get the result.
pub(crate) fn run(
    op: &dyn Op,
    over: usize,
    inputs: &(dyn Inputs + Sync),
    (info, bytes): (&TensorInfo, &mut [u8]),
    team: Option<&Team>,
) -> Result<(), Fault> {
    let size = element_size(info.dtype).ok_or(Fault::Type(info.dtype))?;
    let outcome = Mutex::new(Ok(()));
    let cost = team::moved(PIECE / size);
    team::deal(team, bytes, (PIECE, cost), |first, part| {
        let mut copied = Copied([0; PIECE]);
        for (index, bytes) in (first..).zip(part.chunks_mut(PIECE)) {
            let own = &mut copied.0[..bytes.len()];
            own.copy_from_slice(bytes);
            if let Err(fault) = piece(op, over, inputs, (info, bytes), (index, own)) {
                *outcome.lock().unwrap_or_else(PoisonError::into_inner) = Err(fault);
            }
        }
    });
    outcome.into_inner().unwrap_or_else(PoisonError::into_inner)
}

/// One piece: its number, and a copy of the operand's.
fn piece(
    op: &dyn Op,
    over: usize,
    inputs: &(dyn Inputs + Sync),
    (whole, bytes): (&TensorInfo, &mut [u8]),
    (index, copied): (usize, &[u8]),
) -> Result<(), Fault> {
    let size = element_size(whole.dtype).ok_or(Fault::Type(whole.dtype))?;
    let shape = Shape::new(&[bytes.len() / size]).map_err(|_| Fault::Memory)?;
    let info = TensorInfo::new(whole.dtype, shape);
    let first = index * PIECE / size;
    let mut pieces = Pieces { whole: inputs, over, copied, first, infos: [info; BY_PLACE_MAX] };
    if inputs.count() > pieces.infos.len() {
        return Err(Fault::Memory);
    }
    for (at, own) in pieces.infos.iter_mut().enumerate().take(inputs.count()) {
        let of = inputs.info(at);
        own.dtype = of.dtype;
        if at != over && of.shape != whole.shape {
            own.shape = Shape::SCALAR;
        }
    }
    let (scratch, more) = (&mut [][..], &mut [][..]);
    op.run(&pieces, &mut Output { info: &info, bytes, scratch, more, team: None })
}

/// Pieces of all operands; an operand of one element as it is.
struct Pieces<'a> {
    whole: &'a (dyn Inputs + Sync),
    over: usize,
    copied: &'a [u8],
    /// The first element.
    first: usize,
    infos: [TensorInfo; BY_PLACE_MAX],
}

impl Inputs for Pieces<'_> {
    fn count(&self) -> usize {
        self.whole.count()
    }

    fn info(&self, index: usize) -> &TensorInfo {
        &self.infos[index]
    }

    fn bytes(&self, index: usize) -> &[u8] {
        if index == self.over {
            return self.copied;
        }
        let (info, whole) = (&self.infos[index], self.whole.bytes(index));
        let size = element_size(info.dtype).unwrap_or(1);
        let first = if info.shape.rank() == 0 { 0 } else { self.first * size };
        whole.get(first..).and_then(|own| own.get(..info.bytes())).unwrap_or_default()
    }
}
