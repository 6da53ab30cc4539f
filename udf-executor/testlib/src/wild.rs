//! Functions that crash, write where they may not, or never come back.
#![allow(unsafe_code, reason = "writes to wild addresses, which is what is tested")]

use flow_func::{Context, FlowFunc, InitContext, Msg, Result};

/// Dies of a write to address 8 for the id in attribute `id`.
#[derive(Debug, Default)]
pub(crate) struct SegvOnId {
    id: u64,
}

impl FlowFunc for SegvOnId {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.id = ctx.attr::<i64>("id")?.cast_unsigned();
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        if inputs[0].trans_id() == self.id {
            let nowhere = core::ptr::without_provenance_mut::<u8>(8);
            // SAFETY: none: the process dies here, as the test wants.
            unsafe { nowhere.write_volatile(1) };
        }
        ctx.set_output(0, &inputs[0])
    }
}

/// Writes 7 into the first byte of its input, then sends it on.
#[derive(Debug, Default)]
pub(crate) struct WriteIntoInput;

impl FlowFunc for WriteIntoInput {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let first = inputs[0].bytes().as_ptr().cast_mut();
        // SAFETY: none for a foreign block: the process dies here, as the test wants. Of a copied
        // input this function is the only reader.
        unsafe { first.write_volatile(7) };
        ctx.set_output(0, &inputs[0])
    }
}

/// In the first life of its node: does not return when the first byte of its input is 1. Later:
/// sends on.
#[derive(Debug, Default)]
pub(crate) struct Slow {
    first_life: bool,
}

impl FlowFunc for Slow {
    fn init(&mut self, _ctx: &InitContext<'_>) -> Result {
        self.first_life = std::env::var("DFLOW_GENERATION").is_ok_and(|life| life == "1");
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        while self.first_life && inputs[0].bytes().first() == Some(&1) {
            std::thread::yield_now();
        }
        ctx.set_output(0, &inputs[0])
    }
}
