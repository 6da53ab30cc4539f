//! The trait, the export macro and the in-process executor, through the ABI only.
#![allow(clippy::mem_forget, reason = "the executor must cope with a message let go of")]

use flow_func::abi::{ABI_VERSION, LIBRARY_MAGIC, PANIC_ABORT, PANIC_UNWIND};
use flow_func::testing::{LocalMsg, LocalRunner, LogLine};
use flow_func::{Bools, Context, DataType, FlowFunc, InitContext, IntLists, Msg, Result, Strs};
use flow_func::{FLAG_EOS, MsgType, codes, export_flow_funcs, flow_debug, flow_error, flow_info};

#[derive(Default)]
struct Scale {
    factor: f32,
}

impl FlowFunc for Scale {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.factor = ctx.attr_or("factor", 2.0)?;
        flow_info!(ctx, "{}: factor {}", ctx.name(), self.factor);
        Ok(())
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        let input = &inputs[0];
        let Ok(from) = input.data::<f32>() else { return ctx.set_code_on_all(9_900_001) };
        if input.is_empty() || input.ret_code() != 0 {
            return ctx.set_output(0, input);
        }
        let mut out = ctx.alloc::<f32>(input.shape())?;
        for (to, from) in out.as_mut_slice::<f32>()?.iter_mut().zip(from) {
            *to = from * self.factor;
        }
        ctx.set_output(0, &out)
    }
}

/// Does what its attribute `mode` says.
#[derive(Default)]
struct Tricks {
    mode: String,
}

impl FlowFunc for Tricks {
    fn init(&mut self, ctx: &InitContext<'_>) -> Result {
        self.mode = ctx.attr::<&str>("mode")?.to_owned();
        match self.mode.as_str() {
            "again" => Err(codes::INIT_AGAIN),
            "init-panic" => panic!("no init for {}", ctx.name()),
            "attrs" => check_attrs(ctx),
            _ => Ok(()),
        }
    }

    fn proc(&mut self, ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
        match self.mode.as_str() {
            "pending" => Err(codes::PENDING),
            "zero" => Err(0),
            "panic" => {
                let held = ctx.alloc::<u8>(&[16])?;
                let index = held.as_mut_slice_len();
                panic!("index {index} is past the end");
            }
            "heads" => heads(ctx, inputs),
            "shared" => shared(ctx, inputs),
            "user" => user_data(ctx),
            "alloc" => bad_allocs(ctx),
            _ => ctx.set_output(7, &inputs[0]),
        }
    }
}

trait Len {
    fn as_mut_slice_len(&self) -> usize;
}

impl Len for flow_func::OutMsg<'_> {
    fn as_mut_slice_len(&self) -> usize {
        use flow_func::AsMsg;
        self.as_msg().bytes().len()
    }
}

fn check_attrs(ctx: &InitContext<'_>) -> Result {
    assert_eq!(ctx.attr::<i64>("int"), Ok(-5));
    assert_eq!(ctx.attr::<bool>("bool"), Ok(true));
    assert_eq!(ctx.attr::<DataType>("type"), Ok(DataType::INT8));
    assert_eq!(ctx.attr::<&[i64]>("ints"), Ok(&[1, 2, 3][..]));
    assert_eq!(ctx.attr::<&[f32]>("floats"), Ok(&[0.5][..]));
    let texts: Vec<&str> = ctx.attr::<Strs<'_>>("texts")?.iter().collect();
    assert_eq!(texts, ["ä", ""]);
    let lists: Vec<&[i64]> = ctx.attr::<IntLists<'_>>("lists")?.iter().collect();
    assert_eq!(lists, [&[1][..], &[], &[2, 3]]);
    let bools: Vec<bool> = ctx.attr::<Bools<'_>>("bools")?.iter().collect();
    assert_eq!(bools, [true, false]);
    assert_eq!(ctx.attr::<f32>("missing"), Err(codes::ATTR_NOT_EXISTS));
    assert_eq!(ctx.attr::<f32>("int"), Err(codes::ATTR_TYPE_MISMATCH));
    assert_eq!((ctx.input_count(), ctx.output_count()), (2, 3));
    assert_eq!((ctx.device_id(), ctx.instance_id(), ctx.instance_num()), (-1, 0, 1));
    assert_eq!((ctx.name(), ctx.work_path()), ("tricks", ""));
    Ok(())
}

fn heads(ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
    assert!(inputs[0].is_eos() && !inputs[0].is_seg());
    let mut out = ctx.alloc_typed(&[3], DataType::INT4, 512)?;
    out.set_ret_code(-3);
    out.set_route_label(4);
    out.set_start_time(11);
    out.set_end_time(12);
    ctx.set_output(0, &out)?;
    out.set_flags(0);
    out.set_trans_id(77);
    ctx.set_output(0, &out)?;
    out.release();
    let raw = ctx.alloc_raw(5)?;
    ctx.set_output(0, &raw)
}

fn shared(ctx: &mut Context<'_>, inputs: &[Msg<'_>]) -> Result {
    let mut other = ctx.copy_ref(&inputs[0])?;
    assert_eq!(other.as_mut_slice::<f32>(), Err(codes::PARAM_INVALID));
    other.reshape(&[3, 1])?;
    assert_eq!(other.reshape(&[4]), Err(codes::PARAM_INVALID));
    ctx.set_output(0, &other)?;
    let mut own = ctx.alloc::<f32>(&[2])?;
    own.as_mut_slice::<f32>()?.fill(1.0);
    assert_eq!(own.as_mut_slice::<u8>(), Err(codes::PARAM_INVALID));
    ctx.set_output(0, &own)?;
    assert_eq!(own.as_mut_slice::<f32>(), Err(codes::PARAM_INVALID), "written after it was sent");
    std::mem::forget(own);
    Ok(())
}

fn user_data(ctx: &mut Context<'_>) -> Result {
    let mut bytes = [0; 4];
    ctx.user_data(&mut bytes, 60)?;
    assert_eq!(bytes, [60, 61, 62, 63]);
    assert_eq!(ctx.user_data(&mut bytes, 61), Err(codes::PARAM_INVALID));
    assert_eq!(ctx.user_data(&mut [], 0), Err(codes::PARAM_INVALID));
    let mut out = ctx.alloc::<u8>(&[1])?;
    out.set_user_data(&[7; 3], 6)?;
    for (data, offset) in [(&[][..], 0), (&[1], 64), (&[1, 2], 63), (&[1], usize::MAX)] {
        assert_eq!(out.set_user_data(data, offset), Err(codes::PARAM_INVALID), "{offset}");
    }
    ctx.set_output(0, &out)
}

fn bad_allocs(ctx: &mut Context<'_>) -> Result {
    for align in [0, 1, 16, 48, 65, 2048] {
        assert_eq!(ctx.alloc_typed(&[1], DataType::INT8, align).err(), Some(codes::PARAM_INVALID));
    }
    assert_eq!(ctx.alloc::<u8>(&[-1]).err(), Some(codes::PARAM_INVALID));
    assert_eq!(ctx.alloc::<u8>(&[1; 33]).err(), Some(codes::PARAM_INVALID));
    let mut none = ctx.alloc::<u8>(&[4, 0])?;
    assert_eq!(none.as_mut_slice::<u8>(), Ok(&mut [][..]));
    Ok(())
}

export_flow_funcs! { "scale" => Scale, "tricks" => Tricks }

fn tricks(mode: &str) -> LocalRunner {
    LocalRunner::builder(flow_library(), "tricks").attr("mode", mode).build().expect("init is fine")
}

fn floats() -> LocalMsg {
    LocalMsg::tensor(&[3], &[1.0_f32, 2.0, 3.0]).expect("three of three").with_trans_id(9)
}

#[test]
fn record_of_the_library() {
    let record = flow_library().record();
    assert_eq!((record.magic, record.abi_version), (LIBRARY_MAGIC, ABI_VERSION));
    assert_eq!((record.size, record.func_size, record.func_count), (64, 64, 2));
    assert_eq!(record.panic_strategy, PANIC_UNWIND);
    assert!(std::ptr::eq(dflow_library_v1(), record));
    assert_eq!(record.check(), Ok(()));
    let mut other = *record;
    other.panic_strategy = PANIC_ABORT;
    assert!(other.check().is_err_and(|text| text.contains("--profile udf")));
    other.abi_version = 2;
    assert!(other.check().is_err_and(|text| text.contains("version 2, expected 1")));
    assert!(flow_library().find("none").is_none());
    assert!(LocalRunner::builder(flow_library(), "none").build().is_err());
}

#[test]
fn a_function_transforms_and_inherits_the_head() {
    let mut runner = LocalRunner::builder(flow_library(), "scale").build().unwrap();
    let outputs = runner.run(&[&floats()]).unwrap();
    assert_eq!(outputs[0][0].data::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    assert_eq!((outputs[0][0].info().trans_id, outputs[0][0].shape()), (9, &[3][..]));
    assert_eq!(runner.take_logs(), [LogLine { level: 1, text: "scale: factor 2".to_owned() }]);
    assert_eq!(runner.open_handles(), 0);
}

#[test]
fn codes_pass_and_wrong_types_fail_one_message() {
    let mut runner = LocalRunner::builder(flow_library(), "scale").build().unwrap();
    let outputs = runner.run(&[&LocalMsg::empty(564_000)]).unwrap();
    assert_eq!(outputs[0][0].info().ret_code, 564_000);
    let wrong = LocalMsg::tensor(&[2], &[1_u8, 2]).unwrap();
    let outputs = runner.run(&[&wrong]).unwrap();
    assert_eq!(outputs[0][0].info().ret_code, 9_900_001);
    assert!(outputs[0][0].info().is_null_data());
}

#[test]
fn panics_become_a_code_and_a_log_line() {
    let mut runner = tricks("panic");
    assert_eq!(runner.run(&[&floats()]).err(), Some(codes::UDF_PANIC));
    let lines = runner.take_logs();
    assert_eq!((lines.len(), lines[0].level), (1, 3));
    assert!(lines[0].text.contains("index 16 is past the end"), "{}", lines[0].text);
    assert!(lines[0].text.contains("functions.rs:"), "{}", lines[0].text);
    assert_eq!(runner.open_handles(), 0);
    assert_eq!(runner.run(&[&floats()]).err(), Some(codes::UDF_PANIC), "usable afterwards");
}

#[test]
fn results_of_init_and_proc_are_codes() {
    let build = |mode: &str| {
        let runner = LocalRunner::builder(flow_library(), "tricks").attr("mode", mode).build();
        runner.err()
    };
    assert_eq!(build("again"), Some(codes::INIT_AGAIN));
    assert_eq!(build("init-panic"), Some(codes::UDF_PANIC));
    let none = LocalRunner::builder(flow_library(), "tricks").build();
    assert_eq!(none.err(), Some(codes::ATTR_NOT_EXISTS));
    assert_eq!(tricks("pending").run(&[&floats()]).err(), Some(codes::PENDING));
    assert_eq!(tricks("zero").run(&[&floats()]).err(), Some(codes::FAILED));
    assert_eq!(tricks("other").run(&[&floats()]).err(), Some(codes::PARAM_INVALID));
    for mode in ["shared", "alloc"] {
        assert!(tricks(mode).run(&[&floats()]).is_ok(), "{mode}");
    }
}

#[test]
fn attributes_by_type() {
    LocalRunner::builder(flow_library(), "tricks")
        .inputs(2)
        .outputs(3)
        .attr("mode", "attrs")
        .attr("int", -5)
        .attr("bool", true)
        .attr("type", DataType::INT8)
        .attr("ints", vec![1, 2, 3])
        .attr("floats", vec![0.5])
        .attr("texts", vec!["ä".to_owned(), String::new()])
        .attr("lists", flow_func::attrs::AttrValue::IntListList(vec![vec![1], vec![], vec![2, 3]]))
        .attr("bools", flow_func::attrs::AttrValue::BoolList(vec![true, false]))
        .build()
        .unwrap();
}

#[test]
fn heads_flags_and_user_data() {
    let input = floats().with_flags(FLAG_EOS).with_ret_code(5);
    let outputs = tricks("heads").run(&[&input]).unwrap();
    let [first, second, raw] = &outputs[0][..] else { panic!("{outputs:?}") };
    let (info, after) = (first.info(), second.info());
    assert_eq!((info.trans_id, info.flags, info.ret_code, info.route_label), (9, FLAG_EOS, -3, 4));
    assert_eq!((info.start_time, info.end_time, first.bytes().len()), (11, 12, 2));
    assert_eq!((after.trans_id, after.flags, after.is_custom_trans_id()), (77, 0, true));
    assert_eq!((raw.info().msg_type, raw.bytes().len()), (MsgType::RAW_MSG, 5));
    assert_eq!(raw.info().ret_code, 5, "raw messages inherit the code, udf 1.14");
    let user: [u8; 64] = std::array::from_fn(|index| u8::try_from(index).unwrap());
    let outputs = tricks("user").run(&[&floats().with_user_data(&user)]).unwrap();
    let mut changed = user;
    changed[6..9].fill(7);
    assert_eq!(outputs[0][0].user_data(), changed, "the rest is the input's");
    assert_eq!(tricks("user").run(&[]).err(), Some(codes::FAILED), "no input head");
}

#[test]
fn levels_below_the_limit_are_free() {
    #[derive(Default)]
    struct Talks;
    impl FlowFunc for Talks {
        fn proc(&mut self, ctx: &mut Context<'_>, _: &[Msg<'_>]) -> Result {
            flow_debug!(ctx, "one");
            flow_error!(ctx, "{:>2000}", "two");
            Ok(())
        }
    }
    use flow_func::export::{Funcs, Library, func_record};
    static FUNCS: Funcs<1> = Funcs([func_record::<Talks>("talks")]);
    static LIBRARY: Library = Library::new("t", &FUNCS, PANIC_UNWIND);
    let mut runner = LocalRunner::builder(&LIBRARY, "talks").build().unwrap();
    runner.run(&[]).unwrap();
    let lines = runner.take_logs();
    assert_eq!((lines[0].text.as_str(), lines[1].text.len()), ("one", 1024));
}
