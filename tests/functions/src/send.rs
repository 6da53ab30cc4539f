//! A function that sends what its input describes, so that a test can send any message to a node.
//!
//! The input is bytes, of which the first are `i64` words:
//!
//! | words | sent |
//! |---|---|
//! | 0, type, rank, dims… | a tensor of this type and shape; its bytes follow |
//! | 1, code | the code |
//! | 2 | a message without data |

use flow_func::{ALIGN_DEFAULT, Context, DataType, FlowFunc, Msg, Result, codes};

/// Most dims of a tensor that is sent.
const RANK_MAX: usize = 8;

/// See the module.
#[derive(Default)]
pub(crate) struct Send;

/// The next word of a description.
fn word(rest: &mut &[u8]) -> Result<i64> {
    let (word, after) = rest.split_first_chunk::<8>().ok_or(codes::PARAM_INVALID)?;
    *rest = after;
    Ok(i64::from_le_bytes(*word))
}

/// The next word as a number of another type.
fn number<T: TryFrom<i64>>(rest: &mut &[u8]) -> Result<T> {
    T::try_from(word(rest)?).map_err(|_| codes::PARAM_INVALID)
}

fn tensor(ctx: &mut Context<'_>, mut rest: &[u8]) -> Result {
    let dtype = DataType(number(&mut rest)?);
    let mut dims = [0; RANK_MAX];
    let rank: usize = number(&mut rest)?;
    let dims = dims.get_mut(..rank).ok_or(codes::PARAM_INVALID)?;
    for dim in &mut *dims {
        *dim = word(&mut rest)?;
    }
    let mut out = ctx.alloc_typed(dims, dtype, ALIGN_DEFAULT)?;
    match dtype {
        DataType::INT64 => {
            let values = out.as_mut_slice::<i64>()?.iter_mut().zip(rest.as_chunks().0);
            values.for_each(|(to, from)| *to = i64::from_le_bytes(*from));
        }
        DataType::INT32 => {
            let values = out.as_mut_slice::<i32>()?.iter_mut().zip(rest.as_chunks().0);
            values.for_each(|(to, from)| *to = i32::from_le_bytes(*from));
        }
        _ => {
            let values = out.as_mut_slice::<f32>()?.iter_mut().zip(rest.as_chunks().0);
            values.for_each(|(to, from)| *to = f32::from_le_bytes(*from));
        }
    }
    ctx.set_output(0, &out)
}

impl FlowFunc for Send {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let mut rest = crate::first(inputs)?.bytes();
        match word(&mut rest)? {
            0 => tensor(ctx, rest),
            1 => ctx.set_code(0, number(&mut rest)?),
            2 => {
                let out = ctx.alloc_empty()?;
                ctx.set_output(0, &out)
            }
            _ => Err(codes::PARAM_INVALID),
        }
    }
}
