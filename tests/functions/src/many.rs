//! `scatter` and `gather`: many messages of one id, and back to one.
//!
//! `scatter` sends `16 * (id mod 5)` messages, or one without data where that is 0. Each has its
//! number as its one element, and in its user data that number and how many there are (two u32);
//! its number is its route_label, too. `gather` sends how many came and the sum of their elements
//! once an id is complete, or the first code that came.

use std::collections::BTreeMap;

use flow_func::{Context, FlowFunc, Msg, Result, codes};

use crate::first;

#[derive(Default)]
pub(crate) struct Scatter;

/// What came of an id so far.
#[derive(Default)]
struct Part {
    seen: u32,
    sum: u64,
    code: i32,
}

#[derive(Default)]
pub(crate) struct Gather {
    open: BTreeMap<u64, Part>,
}

fn words(numbers: [u32; 2]) -> [u8; 8] {
    let [low, high] = numbers.map(u64::from);
    (low | high << 32).to_le_bytes()
}

impl FlowFunc for Scatter {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let id = first(inputs)?.trans_id();
        let count = u32::try_from(id % 5 * 16).map_err(|_| codes::PARAM_INVALID)?;
        if count == 0 {
            let mut none = ctx.alloc_empty()?;
            none.set_user_data(&words([0, 0]), 0)?;
            return ctx.set_output(0, &none);
        }
        for number in 0..count {
            let mut out = ctx.alloc::<u64>(&[1])?;
            out.as_mut_slice::<u64>()?.fill(u64::from(number));
            out.set_user_data(&words([number, count]), 0)?;
            out.set_route_label(number);
            ctx.set_output(0, &out)?;
        }
        Ok(())
    }
}

impl FlowFunc for Gather {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let input = first(inputs)?;
        let [_, _, _, _, low, high, _, _, ..] = input.user_data();
        let count = u32::from(u16::from_le_bytes([low, high]));
        let part = self.open.entry(input.trans_id()).or_default();
        part.seen += u32::from(!input.is_empty());
        part.sum += input.data::<u64>()?.first().copied().unwrap_or(0);
        if part.code == 0 {
            part.code = input.ret_code();
        }
        if part.seen < count && part.code == 0 {
            return Ok(());
        }
        let part = self.open.remove(&input.trans_id()).unwrap_or_default();
        if part.code != 0 {
            return ctx.set_code(0, part.code);
        }
        let mut out = ctx.alloc::<u64>(&[2])?;
        out.as_mut_slice::<u64>()?.copy_from_slice(&[u64::from(part.seen), part.sum]);
        ctx.set_output(0, &out)
    }
}
