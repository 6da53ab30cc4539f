//! User functions that do odd things: what `udf-executor`'s tests deploy.
#![deny(unsafe_code)]

mod wild;

use flow_func::{Context, FlowFunc, InitContext, Msg, Result, codes, export_flow_funcs, flow_info};

/// Sends its first input on, without a copy.
#[derive(Debug, Default)]
pub struct Identity;

impl FlowFunc for Identity {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        ctx.set_output(0, &inputs[0])
    }
}

/// Adds two tensors of i64, element by element; passes codes on.
#[derive(Debug, Default)]
pub struct Add;

impl FlowFunc for Add {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        if let Some(bad) = inputs.iter().find(|input| input.ret_code() != 0) {
            return ctx.set_output(0, bad);
        }
        let (a, b) = (inputs[0].data::<i64>()?, inputs[1].data::<i64>()?);
        let mut out = ctx.alloc::<i64>(inputs[0].shape())?;
        for ((to, a), b) in out.as_mut_slice::<i64>()?.iter_mut().zip(a).zip(b) {
            *to = a + b;
        }
        ctx.set_output(0, &out)
    }
}

/// Panics for odd ids.
#[derive(Debug, Default)]
pub struct PanicOnOdd;

impl FlowFunc for PanicOnOdd {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        assert!(inputs[0].trans_id().is_multiple_of(2), "odd id {}", inputs[0].trans_id());
        ctx.set_output(0, &inputs[0])
    }
}

/// Returns the attribute `code` for the id `id`.
#[derive(Debug, Default)]
pub struct CodeOnId {
    id: u64,
    code: i32,
}

impl FlowFunc for CodeOnId {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.id = ctx.attr::<i64>("id")?.cast_unsigned();
        self.code = i32::try_from(ctx.attr::<i64>("code")?).map_err(|_| codes::PARAM_INVALID)?;
        flow_info!(ctx, "code {} for id {}", self.code, self.id);
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        if inputs[0].trans_id() == self.id { Err(self.code) } else { ctx.set_output(0, &inputs[0]) }
    }
}

/// Asks twice for another call, or the attribute `times` times, then sends the input on.
#[derive(Debug, Default)]
pub struct PendingTwice {
    calls: i64,
    times: i64,
}

impl FlowFunc for PendingTwice {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.times = ctx.attr_or("times", 2)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        self.calls += 1;
        if self.calls <= self.times {
            return Err(codes::PENDING);
        }
        self.calls = 0;
        ctx.set_output(0, &inputs[0])
    }
}

/// Sets nothing.
#[derive(Debug, Default)]
pub struct NoOutput;

impl FlowFunc for NoOutput {
    fn proc(&mut self, _ctx: &mut Context<'_>, _inputs: &[Msg<'_>]) -> Result {
        Ok(())
    }
}

/// Sends its input to both outputs, reshaped to one dimension on the second.
#[derive(Debug, Default)]
pub struct TwoOutputs;

impl FlowFunc for TwoOutputs {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        ctx.set_output(0, &inputs[0])?;
        let mut flat = ctx.copy_ref(&inputs[0])?;
        flat.reshape(&[inputs[0].element_count()])?;
        ctx.set_output(1, &flat)
    }
}

/// Allocates the attribute `count` messages for each input and sends them all.
#[derive(Debug, Default)]
pub struct AllocMany {
    count: u8,
}

impl FlowFunc for AllocMany {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.count = u8::try_from(ctx.attr::<i64>("count")?).map_err(|_| codes::PARAM_INVALID)?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, _inputs: &[Msg<'_>]) -> Result {
        for index in 0..self.count {
            let mut out = ctx.alloc::<u8>(&[16])?;
            out.as_mut_slice::<u8>()?.fill(index);
            ctx.set_output(0, &out)?;
        }
        Ok(())
    }
}

/// Holds the attribute `count` messages at once, sends none of them.
#[derive(Debug, Default)]
pub struct HoldMany {
    count: i64,
}

impl FlowFunc for HoldMany {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.count = ctx.attr("count")?;
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let held: Result<Vec<_>> = (0..self.count).map(|_| ctx.alloc::<u8>(&[16])).collect();
        held?;
        ctx.set_output(0, &inputs[0])
    }
}

/// Asks for another `init` the attribute `again` times.
#[derive(Debug, Default)]
pub struct InitAgain {
    calls: i64,
}

impl FlowFunc for InitAgain {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.calls += 1;
        if self.calls <= ctx.attr("again")? { Err(codes::INIT_AGAIN) } else { Ok(()) }
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        ctx.set_output(0, &inputs[0])
    }
}

/// A source: numbers from 1.
#[derive(Debug, Default)]
pub struct Count {
    last: i64,
}

impl FlowFunc for Count {
    fn proc(&mut self, ctx: &mut Context<'_>, _inputs: &[Msg<'_>]) -> Result {
        self.last += 1;
        let mut out = ctx.alloc::<i64>(&[1])?;
        out.as_mut_slice::<i64>()?.fill(self.last);
        ctx.set_output(0, &out)
    }
}

/// Sends the code of each of its inputs.
#[derive(Debug, Default)]
pub struct Codes;

impl FlowFunc for Codes {
    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let mut out = ctx.alloc::<i64>(&[i64::try_from(inputs.len()).unwrap_or(0)])?;
        for (to, input) in out.as_mut_slice::<i64>()?.iter_mut().zip(inputs) {
            *to = i64::from(input.ret_code());
        }
        ctx.set_output(0, &out)
    }
}

export_flow_funcs! {
    "identity" => Identity,
    "add" => Add,
    "panic-on-odd" => PanicOnOdd,
    "code-on-id" => CodeOnId,
    "pending-twice" => PendingTwice,
    "no-output" => NoOutput,
    "two-outputs" => TwoOutputs,
    "alloc-many" => AllocMany,
    "hold-many" => HoldMany,
    "init-again" => InitAgain,
    "codes" => Codes,
    "count" => Count,
    "segv-on-id" => wild::SegvOnId,
    "write-into-input" => wild::WriteIntoInput,
    "slow" => wild::Slow,
}
