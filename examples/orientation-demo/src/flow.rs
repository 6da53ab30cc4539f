//! Every page through the flow.

use crate::record;
use crate::set::Page;
use crate::verdict::Found;
use demo_flow::flow::{self, Run};
use dflow::Session;

/// Sends every page through a session of one output; a page that fails has its reason.
///
/// # Errors
/// The session ended or nothing came for a minute.
pub fn run(session: &Session, pages: &[Page]) -> Result<Run<Found>, String> {
    let files: Vec<(&str, &[u8])> =
        pages.iter().map(|page| (page.name.as_str(), page.file.as_slice())).collect();
    flow::run(session, &files, |event| Found {
        answer: flow::answer(event, record::read),
        millis: flow::millis(event),
    })
}
