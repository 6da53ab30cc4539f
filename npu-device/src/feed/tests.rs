//! What only the feed itself sees.

use std::sync::Arc;
use std::time::Duration;

use crate::codes::Result;
use crate::context::Context;
use crate::device::{Config, Device};
use crate::feed::{Abnormal, Align, Feed, FeedConfig, Message, MessageQueue};
use crate::kernel::Call;
use crate::lock::lock;
use crate::stream::StreamFlags;

const LONG: Duration = Duration::from_secs(60);

#[test]
fn outputs_are_prepared_before_the_model_runs() -> Result<()> {
    let context = Context::new(&Device::new(Config { cores: 2, ..Config::default() })?)?;
    let (arrived, open) = (MessageQueue::new(2)?, MessageQueue::new(2)?);
    let inside = (arrived.clone(), open.clone());
    let gate = move |_: &Call| {
        let _ = inside.0.enqueue(Message::default(), LONG);
        let _ = inside.1.dequeue(LONG);
        Ok(())
    };
    let gate = context.register("gate", Arc::new(gate))?;
    let (model, stream) =
        (context.build_begin()?, context.stream(StreamFlags(StreamFlags::PERSISTENT))?);
    model.bind(&stream, true)?;
    stream.launch(&gate, 1, [0; 4])?;
    model.end_task(&stream)?;
    model.build_end()?;
    let config = FeedConfig {
        model,
        input_queues: vec![MessageQueue::new(2)?],
        inputs: Vec::new(),
        output_queues: vec![MessageQueue::new(2)?],
        outputs: vec![context.allocate(24)?],
        align: Align::InOrder,
        abnormal: Abnormal::default(),
    };
    let feed = Feed::new(&context);
    feed.load(config.clone())?;
    feed.execute()?;
    config.input_queues[0].enqueue(Message::default(), LONG)?;
    arrived.dequeue(LONG)?;
    // The turn has left its core, or is about to: it waits for the model's end.
    let loaded = feed.shared.loaded()?;
    let room: Vec<_> = lock(&loaded.run).outputs.iter().flatten().map(room).collect();
    open.enqueue(Message::default(), LONG)?;
    assert_eq!(room, [(0, true)]);
    assert_eq!(config.output_queues[0].dequeue(LONG)?.data, [0; 24]);
    feed.destroy()
}

fn room(message: &Message) -> (usize, bool) {
    (message.data.len(), message.data.capacity() >= 24)
}
