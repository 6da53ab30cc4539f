//! What only the feed itself sees.

use std::time::Duration;

use crate::codes::Result;
use crate::context::Context;
use crate::device::{Config, Device};
use crate::feed::run::{Done, Work};
use crate::feed::{Abnormal, Align, Feed, FeedConfig, Message, MessageQueue};
use crate::lock::lock;
use crate::stream::StreamFlags;

/// The tasks of a set, one by one up to the start of the model.
#[test]
fn outputs_are_prepared_before_the_model_is_started() -> Result<()> {
    let context = Context::new(&Device::new(Config::default())?)?;
    let model = context.build_begin()?;
    let stream = context.stream(StreamFlags(StreamFlags::PERSISTENT))?;
    model.bind(&stream, true)?;
    model.end_task(&stream)?;
    model.build_end()?;
    let config = FeedConfig {
        model,
        input_queues: vec![MessageQueue::new(2)?],
        inputs: Vec::new(),
        output_queues: vec![MessageQueue::new(2)?, MessageQueue::new(2)?],
        outputs: vec![context.allocate(24)?, context.allocate(8)?],
        align: Align::InOrder,
        abnormal: Abnormal::default(),
    };
    let feed = Feed::new(&context);
    feed.load(config.clone())?;
    let mut message = Message::default();
    message.head.info.trans_id = 7;
    config.input_queues[0].enqueue(message, Duration::from_secs(60))?;
    let loaded = feed.shared.loaded()?;
    let mut run = lock(&loaded.run);
    let mut at = 0;
    while loaded.work(at) != Work::Activate {
        let done = loaded.perform(&feed.shared, &mut run, loaded.work(at))?;
        assert!(matches!(done, Done::Next), "task {at}");
        at += 1;
    }
    let prepared = run.outputs.iter().flatten().map(|message| {
        (message.head.info.trans_id, message.data.len(), message.data.capacity() >= 8)
    });
    assert_eq!(prepared.collect::<Vec<_>>(), [(7, 0, true), (7, 0, true)]);
    drop(run);
    drop(loaded);
    feed.destroy()
}
