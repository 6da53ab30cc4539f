//! `dflow ps` and `dflow held`.

use executor_core::error::Code;
use executor_core::owner::SlotState;

use super::report::code_text;
use super::{Failure, exit, print, table};
use crate::notice;
use crate::tools::group::{GroupView, NodeState};
use crate::tools::{ToolError, running, select};

/// All running flows with their processes.
pub(super) fn ps() -> Result<u8, Failure> {
    let mut text = String::new();
    for flow in running() {
        // One that ends while it is looked at is left out.
        let Ok(view) = GroupView::open(flow) else { continue };
        text.push_str(&format!("{}\n{}", view.flow().title(), table(&nodes(&view.nodes()))));
    }
    if text.is_empty() {
        notice::to_stderr("no flow runs\n");
    }
    print(&text)
}

fn nodes(nodes: &[NodeState]) -> Vec<Vec<String>> {
    let heading = [
        "  slot",
        "node",
        "state",
        "model",
        "pid",
        "restarts",
        "up, s",
        "processed",
        "coded",
        "late",
        "busy with",
        "last end",
    ];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(nodes.iter().map(|node| {
        let lives = node.pid != 0;
        let or_none = |given: bool, text: String| if given { text } else { "-".to_owned() };
        vec![
            format!("  {}", node.slot),
            node.label.clone(),
            state(node.state),
            node.model.map_or("-".to_owned(), |model| model.to_string()),
            or_none(lives, node.pid.to_string()),
            node.restarts.to_string(),
            or_none(lives, format!("{:.1}", node.up_ms as f64 / 1000.0)),
            node.processed.to_string(),
            node.coded.to_string(),
            node.late.to_string(),
            node.busy_with.map_or("-".to_owned(), |id| format!("id {id}")),
            node.last_end.clone().unwrap_or_default(),
        ]
    }));
    rows
}

fn state(state: Result<SlotState, u32>) -> String {
    let word = match state {
        Ok(SlotState::Vacant) => "not started",
        Ok(SlotState::Starting) => "starting",
        Ok(SlotState::Running) => "running",
        Ok(SlotState::Stopped) => "stopped",
        Ok(SlotState::Dead) => "died",
        Ok(SlotState::BackOff) => "waits for restart",
        Ok(SlotState::Failed) => "failed",
        Ok(SlotState::Ended) => "ended",
        Err(number) => return format!("state {number}"),
    };
    word.to_owned()
}

/// Every live mbuf with its holder.
pub(super) fn held(flow: Option<&str>) -> Result<u8, Failure> {
    let (flow, node) = select(running(), flow, None)?;
    if let Some(node) = node {
        let running = vec![flow.title()];
        return Err(ToolError::Unknown { name: node, running }.into());
    }
    let view = GroupView::open(flow)?;
    let heading = ["id", "holder", "bytes", "partition of", "mbuf", "code"];
    let mut rows = vec![heading.map(str::to_owned).to_vec()];
    rows.extend(view.held().into_iter().map(|mbuf| {
        vec![
            mbuf.trans_id.to_string(),
            mbuf.holder,
            mbuf.bytes.to_string(),
            mbuf.home,
            mbuf.entry.to_string(),
            match mbuf.ret_code {
                0 => String::new(),
                code => code_text(Code::from_ret_code(code)),
            },
        ]
    }));
    let count = rows.len() - 1;
    let title = view.flow().title();
    if count == 0 {
        notice::to_stderr(&format!("{title}: no mbuf is in use\n"));
        return Ok(exit::DONE);
    }
    print(&format!("{title}: {count} mbufs in use\n{}", table(&rows)))
}
