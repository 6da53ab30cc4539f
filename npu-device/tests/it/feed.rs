//! Models between queues: §7 nos. 34 to 40, and what becomes of a set that fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use npu_device::ModelState::{Abort, Error, Idle, Loading, Running, Stopped, Uninit};
use npu_device::{
    Abnormal, Align, Context, Fault, Feed, FeedConfig, Function, Message, MessageQueue, ModelOp,
    ModelState,
};

use crate::support::{Gate, code, context, counter, failing, finish, model, until};

const LONG: Duration = Duration::from_secs(60);

/// A feed whose model sums nothing: it copies its first input to its output, and counts.
struct Bench {
    context: Context,
    feed: Feed,
    config: FeedConfig,
    runs: Arc<AtomicUsize>,
}

impl Bench {
    fn new(inputs: usize) -> Self {
        Self::with(inputs, |_| None)
    }

    /// The same with one more kernel.
    fn with(inputs: usize, kernel: impl Fn(&Context) -> Option<Function>) -> Self {
        let context = context();
        let (model, stream) = model(&context);
        let memories: Vec<_> = (0..inputs).map(|_| context.allocate(8).unwrap()).collect();
        let output = context.allocate(8).unwrap();
        let (count, runs) = counter(&context);
        stream.launch(&count, 1, [0; 4]).unwrap();
        if let Some(kernel) = kernel(&context) {
            stream.launch(&kernel, 1, [0; 4]).unwrap();
        }
        if let Some(first) = memories.first() {
            stream.copy((&output, 0), (first, 0), 8).unwrap();
        }
        finish(&model, &stream);
        let queue = |_| MessageQueue::new(8).unwrap();
        let config = FeedConfig {
            model,
            input_queues: (0..inputs.max(1)).map(queue).collect(),
            inputs: memories,
            output_queues: vec![queue(0)],
            outputs: vec![output],
            align: Align::InOrder,
            abnormal: Abnormal::default(),
        };
        Self { feed: Feed::new(&context), context, config, runs }
    }

    fn start(&self) {
        self.feed.load(self.config.clone()).unwrap();
        self.feed.execute().unwrap();
    }

    fn put(&self, port: usize, message: Message) {
        self.config.input_queues[port].enqueue(message, LONG).unwrap();
    }

    fn get(&self) -> Message {
        self.config.output_queues[0].dequeue(LONG).unwrap()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }
}

/// A message of an id, whose data is a number.
fn message(trans_id: u64, value: u64) -> Message {
    let mut message = Message { data: value.to_le_bytes().to_vec(), ..Message::default() };
    message.head.info.trans_id = trans_id;
    message
}

fn value(message: &Message) -> u64 {
    u64::from_le_bytes(message.data[..8].try_into().unwrap())
}

fn timed(time: u64) -> Message {
    let mut message = message(time, time);
    (message.head.info.start_time, message.head.info.end_time) = (time, time);
    message
}

const CATCH: Abnormal = Abnormal { catch: true, enqueue: true, stop: false };

#[test]
fn v7_34_calls_that_the_state_does_not_allow() {
    let bench = Bench::new(1);
    let feed = &bench.feed;
    for call in [Feed::execute, Feed::abort, Feed::restart, Feed::clear_inputs] {
        assert_eq!(code(call(feed)), 21_103);
    }
    bench.start();
    assert_eq!(feed.state(), Running);
    assert_eq!(code(feed.load(bench.config.clone())), 21_103);
    assert_eq!(code(feed.execute()), 21_103);
    feed.stop().unwrap();
    assert_eq!(code(feed.stop()), 21_103);
    assert_eq!(code(feed.execute()), 21_103);
    feed.restart().unwrap();
    assert_eq!(feed.state(), Idle);
    assert_eq!(code(feed.abort()), 21_103);
    feed.destroy().unwrap();
    assert_eq!(feed.state(), Uninit);
}

/// A feed in a state, by calls and messages.
fn bench_in(state: ModelState) -> Bench {
    let bench = Bench::new(1);
    if state == Uninit {
        return bench;
    }
    bench.feed.load(bench.config.clone()).unwrap();
    if state == Loading {
        return bench;
    }
    bench.feed.execute().unwrap();
    match state {
        Error => {
            bench.put(0, Message::default());
            assert_eq!(bench.feed.wait_outcome(LONG).unwrap().0, 21_001);
        }
        Abort => bench.feed.abort().unwrap(),
        Stopped => bench.feed.stop().unwrap(),
        Idle => {
            bench.feed.stop().unwrap();
            bench.feed.restart().unwrap();
        }
        _ => {}
    }
    bench
}

#[test]
fn v7_34_every_call_in_every_state() {
    type FeedCall = (ModelOp, fn(&Bench) -> npu_device::Result<()>);
    let calls: [FeedCall; 7] = [
        (ModelOp::Load, |bench| bench.feed.load(bench.config.clone())),
        (ModelOp::Execute, |bench| bench.feed.execute()),
        (ModelOp::Abort, |bench| bench.feed.abort()),
        (ModelOp::Stop, |bench| bench.feed.stop()),
        (ModelOp::Restart, |bench| bench.feed.restart()),
        (ModelOp::ClearInput, |bench| bench.feed.clear_inputs()),
        (ModelOp::Destroy, |bench| bench.feed.destroy()),
    ];
    let mut refused = 0;
    for state in [Uninit, Idle, Loading, Running, Error, Abort, Stopped] {
        for (op, call) in calls {
            let bench = bench_in(state);
            assert_eq!(bench.feed.state(), state);
            let (found, next) = (code(call(&bench)), state.after(op));
            assert_eq!(found, if next.is_ok() { 0 } else { 21_103 }, "{op:?} in {state:?}");
            assert_eq!(bench.feed.state(), next.unwrap_or(state), "after {op:?} in {state:?}");
            refused += usize::from(next.is_err());
        }
    }
    assert_eq!(refused, 27);
}

#[test]
fn one_call_at_a_time() {
    let gate = std::sync::OnceLock::new();
    let bench =
        Bench::with(1, |context| Some(gate.get_or_init(|| Gate::new(context)).function.clone()));
    let gate = gate.get().unwrap();
    bench.start();
    bench.put(0, message(1, 1));
    gate.wait_for(1);
    thread::scope(|scope| {
        // It waits for the kernel at the gate.
        let destroying = scope.spawn(|| bench.feed.destroy());
        until(|| bench.feed.state() == Uninit);
        assert_eq!(code(bench.feed.stop()), 21_100);
        gate.open();
        destroying.join().unwrap().unwrap();
    });
    bench.feed.load(bench.config.clone()).unwrap();
}

#[test]
fn v7_35_a_feed_that_waits_goes_on_when_something_comes() {
    let bench = Bench::new(2);
    bench.start();
    bench.put(0, message(1, 10));
    until(|| bench.config.input_queues[0].is_empty());
    // It waits for the second input, with the first in hand.
    assert_eq!((bench.feed.iterations(), bench.config.output_queues[0].len()), (0, 0));
    bench.put(1, message(1, 20));
    assert_eq!(value(&bench.get()), 10);
    // Nothing is missed however messages come.
    thread::scope(|scope| {
        for port in 0..2 {
            let bench = &bench;
            scope.spawn(move || (0..500).for_each(|n| bench.put(port, message(n, n))));
        }
        for n in 0..500 {
            assert_eq!(value(&bench.get()), n);
        }
    });
}

#[test]
fn v7_35_outputs_wait_for_room() {
    let bench = Bench::new(1);
    bench.start();
    thread::scope(|scope| {
        scope.spawn(|| (0..100).for_each(|n| bench.put(0, message(n, n))));
        until(|| bench.config.output_queues[0].len() == 8);
        for n in 0..100 {
            assert_eq!(value(&bench.get()), n);
        }
    });
}

#[test]
fn v7_36_as_many_outputs_as_inputs() {
    let bench = Bench::new(2);
    bench.start();
    for n in 0..50 {
        bench.put(0, message(100 + n, n));
        bench.put(1, message(200 + n, 1000 + n));
        let output = bench.get();
        assert_eq!((output.head.info.trans_id, value(&output)), (100 + n, n));
    }
    until(|| bench.feed.iterations() == 50);
    assert_eq!(bench.runs(), 50);
    assert!(bench.config.output_queues[0].is_empty());
}

#[test]
fn v7_37_ends_of_sequences_and_no_data() {
    let bench = Bench::new(2);
    bench.start();
    let mut last = message(1, 5);
    last.head.eos = 0x5A;
    bench.put(0, message(1, 5));
    bench.put(1, last);
    let output = bench.get();
    assert_eq!((output.head.eos, value(&output), bench.runs()), (0x5A, 5, 1));
    let mut none = Message::default();
    (none.head.info.trans_id, none.head.info.data_flag) = (2, 1);
    bench.put(0, message(2, 6));
    bench.put(1, none);
    let output = bench.get();
    assert_eq!((output.head.info.data_flag & 1, output.head.info.trans_id), (1, 2));
    assert_eq!((output.data.len(), output.head.eos, bench.runs()), (0, 0, 1));
    // The next set is as the first.
    (0..2).for_each(|port| bench.put(port, message(3, 7)));
    let output = bench.get();
    assert_eq!((value(&output), output.head.info.data_flag, bench.runs()), (7, 0, 2));
}

fn failed(trans_id: u64) -> Message {
    let mut failed = message(trans_id, 1);
    failed.head.info.ret_code = 7;
    failed
}

#[test]
fn v7_38_a_code_goes_on_with_its_set() {
    let mut bench = Bench::new(1);
    bench.config.abnormal = CATCH;
    bench.start();
    bench.put(0, failed(1));
    let output = bench.get();
    assert_eq!((output.head.info.ret_code, output.data.len(), bench.runs()), (7, 0, 0));
    bench.put(0, message(2, 9));
    let output = bench.get();
    assert_eq!((output.head.info.ret_code, value(&output), bench.runs()), (0, 9, 1));
}

#[test]
fn v7_38_a_code_that_is_not_enqueued_and_one_that_ends_the_loop() {
    let mut bench = Bench::new(1);
    bench.config.abnormal = Abnormal { enqueue: false, ..CATCH };
    bench.start();
    bench.put(0, failed(1));
    bench.put(0, message(2, 9));
    assert_eq!(bench.get().head.info.trans_id, 2);
    bench.feed.destroy().unwrap();
    bench.config.abnormal = Abnormal { stop: true, ..CATCH };
    bench.start();
    bench.put(0, failed(3));
    assert_eq!(bench.get().head.info.ret_code, 7);
    assert_eq!(bench.feed.wait_outcome(LONG).unwrap().0, 21_006);
    assert_eq!(bench.feed.iterations(), 0);
    // It can begin again.
    bench.feed.execute().unwrap();
    bench.put(0, message(4, 4));
    assert_eq!(value(&bench.get()), 4);
}

#[test]
fn a_model_that_fails_and_data_that_does_not_fit() {
    let broken = |context: &Context| Some(failing(context, Fault::Exception));
    let bench = Bench::with(1, broken);
    bench.start();
    bench.put(0, message(1, 1));
    assert_eq!(bench.feed.wait_outcome(LONG).unwrap().0, 507_015);
    let mut bench = Bench::with(1, broken);
    bench.config.abnormal = CATCH;
    bench.start();
    bench.put(0, message(1, 1));
    assert_eq!(bench.get().head.info.ret_code, 507_015);
    bench.put(0, Message { data: vec![0; 7], ..message(2, 0) });
    // Inner codes are raised.
    assert_eq!(bench.get().head.info.ret_code, 521_001);
    bench.config.input_queues[0].close();
    assert_eq!(bench.feed.wait_outcome(LONG).unwrap().0, 21_003);
    assert_eq!(bench.feed.state(), Error);
    assert_eq!(code(bench.config.input_queues[0].dequeue(LONG)), 21_003);
}

#[test]
fn v7_39_by_time_the_oldest_is_dropped() {
    let mut bench = Bench::new(2);
    bench.config.align = Align::ByTime { offsets: vec![0, 0], interval: 5 };
    bench.config.abnormal = CATCH;
    bench.start();
    // (10, 16) is too far apart: 10 goes, 20 is near enough.
    bench.put(0, timed(10));
    bench.put(1, timed(16));
    until(|| bench.config.input_queues.iter().all(MessageQueue::is_empty));
    bench.put(0, timed(20));
    assert_eq!(value(&bench.get()), 20);
    bench.put(0, timed(10));
    bench.put(1, timed(15));
    assert_eq!(value(&bench.get()), 10);
    assert_eq!(bench.runs(), 2);
    // A time that is none.
    let mut long = timed(30);
    long.head.info.end_time = 31;
    bench.put(0, long);
    bench.put(1, timed(30));
    assert_eq!(bench.get().head.info.ret_code, 521_001);
    // Times count from their offsets.
    bench.feed.destroy().unwrap();
    bench.config.align = Align::ByTime { offsets: vec![0, 100], interval: 0 };
    bench.start();
    bench.put(0, timed(40));
    bench.put(1, timed(140));
    assert_eq!(value(&bench.get()), 40);
    bench.feed.destroy().unwrap();
    bench.config.align = Align::ByTime { offsets: vec![0], interval: 0 };
    assert_eq!(code(bench.feed.load(bench.config.clone())), 21_001);
}

#[test]
fn v7_39_by_id_messages_out_of_order_pair_up() {
    let mut bench = Bench::new(2);
    bench.config.align = Align::ById { max_cache: 0, drop_out: false, timeout_ms: None };
    bench.start();
    let mut routed = message(1, 13);
    routed.head.info.route_label = 4;
    bench.put(0, message(1, 11));
    bench.put(0, message(2, 12));
    bench.put(0, routed.clone());
    bench.put(1, routed);
    assert_eq!(value(&bench.get()), 13);
    bench.put(1, message(2, 0));
    bench.put(1, message(1, 0));
    let both = [bench.get(), bench.get()];
    assert_eq!(both.each_ref().map(value), [12, 11]);
}

#[test]
fn v7_39_by_id_the_lowest_leaves_when_too_many_wait() {
    for drop_out in [false, true] {
        let mut bench = Bench::new(2);
        bench.config.align = Align::ById { max_cache: 2, drop_out, timeout_ms: None };
        bench.config.abnormal = CATCH;
        bench.start();
        for id in [9, 4, 7] {
            bench.put(1, message(id, id));
        }
        if !drop_out {
            let output = bench.get();
            assert_eq!((output.head.info.trans_id, output.head.info.ret_code), (4, 521_108));
        }
        // The third one was taken, and so the lowest left before anything completes.
        until(|| bench.config.input_queues[1].is_empty());
        bench.put(0, message(7, 70));
        assert_eq!(value(&bench.get()), 70);
        // What was thrown away is gone: its partner waits alone.
        bench.put(0, message(4, 40));
        bench.put(0, message(9, 90));
        assert_eq!(value(&bench.get()), 90);
        assert_eq!(bench.runs(), 2);
    }
    let mut bench = Bench::new(2);
    bench.config.align = Align::ById { max_cache: 1, drop_out: false, timeout_ms: None };
    bench.start();
    bench.put(0, message(1, 1));
    bench.put(0, message(2, 2));
    assert_eq!(bench.feed.wait_outcome(LONG).unwrap().0, 21_108);
    assert_eq!(bench.feed.state(), Error);
}

#[test]
fn v7_39_by_id_one_that_waits_too_long_leaves() {
    for drop_out in [false, true] {
        let mut bench = Bench::new(2);
        bench.config.align = Align::ById { max_cache: 0, drop_out, timeout_ms: Some(30) };
        bench.config.abnormal = CATCH;
        bench.start();
        // Nothing else comes that could wake it.
        bench.put(1, message(9, 1));
        if drop_out {
            until(|| bench.config.input_queues[1].is_empty());
            bench.put(1, message(4, 1));
            until(|| bench.config.input_queues[1].is_empty());
            let taken = std::time::Instant::now();
            until(|| taken.elapsed() > Duration::from_millis(60));
            // It was thrown away: what comes of it now waits alone.
            bench.put(0, message(9, 90));
            // Both of an id, until a machine with other work is quick enough.
            let found = (100..200).find_map(|id| {
                (0..2).for_each(|port| bench.put(port, message(id, id)));
                bench.config.output_queues[0].dequeue(Duration::from_millis(300)).ok()
            });
            let found = found.expect("an output");
            assert_eq!(value(&found), found.head.info.trans_id);
            assert!(value(&found) >= 100, "{found:?}");
        } else {
            let output = bench.get();
            assert_eq!((output.head.info.trans_id, output.head.info.ret_code), (9, 521_108));
            assert_eq!((output.data.len(), bench.runs()), (0, 0));
            // Once more: the alarm is set anew.
            bench.put(0, message(2, 1));
            assert_eq!(bench.get().head.info.trans_id, 2);
        }
    }
    // An id that is whole goes at once, however long the limit is.
    let mut bench = Bench::new(2);
    let by_id = |timeout_ms| Align::ById { max_cache: 0, drop_out: false, timeout_ms };
    bench.config.align = by_id(Some(600_000));
    bench.start();
    (0..2).for_each(|port| bench.put(port, message(1, 8)));
    assert_eq!(value(&bench.get()), 8);
    bench.feed.destroy().unwrap();
    bench.config.align = by_id(Some(0));
    assert_eq!(code(bench.feed.load(bench.config.clone())), 21_001);
    bench.config.align = by_id(Some(30));
    bench.start();
    bench.put(0, message(1, 1));
    assert_eq!(bench.feed.wait_outcome(LONG).unwrap().0, 21_108, "without catch it is the end");
}

#[test]
fn v7_40_control_queues_and_counts_that_do_not_fit() {
    // Without inputs, one queue says when to run.
    let bench = Bench::new(0);
    bench.start();
    for _ in 0..3 {
        bench.put(0, Message::default());
        bench.get();
    }
    assert_eq!(bench.runs(), 3);
    bench.feed.destroy().unwrap();
    let load = |change: &dyn Fn(&mut FeedConfig)| {
        let mut config = bench.config.clone();
        change(&mut config);
        code(bench.feed.load(config))
    };
    let more = || MessageQueue::new(2).unwrap();
    assert_eq!(load(&|config| config.input_queues.push(more())), 145_008);
    assert_eq!(load(&|config| config.input_queues.clear()), 21_001);
    assert_eq!(load(&|config| config.output_queues.push(more())), 145_008);
    assert_eq!(load(&|config| config.inputs.push(config.outputs[0].clone())), 0);
    bench.feed.destroy().unwrap();
    // A model without outputs may tell any number of queues that it has run.
    let two = |config: &mut FeedConfig| {
        config.outputs.clear();
        config.output_queues.push(more());
    };
    assert_eq!(load(&two), 0);
    bench.feed.destroy().unwrap();
    // The same queue for two inputs is asked once.
    let mut bench = Bench::new(2);
    bench.config.input_queues[1] = bench.config.input_queues[0].clone();
    bench.start();
    bench.put(0, message(1, 8));
    assert_eq!(value(&bench.get()), 8);
    // It is this feed's.
    let other = Feed::new(&bench.context);
    assert_eq!(code(other.load(bench.config.clone())), 21_001);
    bench.feed.destroy().unwrap();
    other.load(bench.config.clone()).unwrap();
    assert_eq!(code(MessageQueue::new(1)), 107_000);
}

#[test]
fn aborted_stopped_and_begun_again() {
    let gate = std::sync::OnceLock::new();
    let bench =
        Bench::with(1, |context| Some(gate.get_or_init(|| Gate::new(context)).function.clone()));
    let gate = gate.get().unwrap();
    bench.start();
    bench.put(0, message(1, 1));
    gate.wait_for(1);
    bench.feed.abort().unwrap();
    assert_eq!(bench.feed.state(), Abort);
    bench.put(0, message(2, 2));
    gate.open();
    bench.feed.execute().unwrap();
    // The set under way was lost, the next one is answered.
    assert_eq!(bench.get().head.info.trans_id, 2);
    bench.feed.stop().unwrap();
    bench.put(0, message(3, 3));
    bench.put(0, message(4, 4));
    bench.feed.clear_inputs().unwrap();
    assert_eq!(bench.config.input_queues[0].len(), 0);
    assert_eq!(bench.feed.state(), Stopped);
    bench.feed.restart().unwrap();
    bench.feed.execute().unwrap();
    bench.put(0, message(5, 5));
    assert_eq!(value(&bench.get()), 5);
}

#[test]
fn queues_are_waited_for_with_a_limit_and_freed_by_a_feed_that_is_dropped() {
    let queue = MessageQueue::new(2).unwrap();
    let short = Duration::from_millis(1);
    assert_eq!(code(queue.dequeue(short)), 207_013);
    (0..2).for_each(|_| queue.enqueue(Message::default(), short).unwrap());
    assert_eq!(code(queue.enqueue(Message::default(), short)), 207_014);
    let bench = Bench::new(1);
    bench.start();
    let again = Feed::new(&bench.context);
    let Bench { feed, config, .. } = bench;
    drop(feed);
    again.load(config.clone()).unwrap();
    again.execute().unwrap();
    config.input_queues[0].enqueue(message(1, 1), LONG).unwrap();
    assert_eq!(value(&config.output_queues[0].dequeue(LONG).unwrap()), 1);
}
