//! The graph as a picture: mermaid, dot, or a self-contained SVG.
//!
//! The SVG stacks columns by distance from the inputs; it is for a look, not for print.

use std::fmt::Write as _;

use crate::check::{CheckedFlow, Source, Target};

/// One box or pill of the picture.
struct Item {
    id: String,
    text: String,
    is_node: bool,
    column: usize,
}

/// Items and edges, each edge with the port it leaves or enters by.
struct Picture {
    items: Vec<Item>,
    edges: Vec<(usize, usize, String)>,
}

impl Picture {
    fn new(flow: &CheckedFlow) -> Self {
        let graph = flow.graph();
        let inputs = graph.inputs.len();
        let mut items: Vec<Item> = Vec::new();
        let ends = |id: String, name: &str, column| {
            let text = name.to_owned();
            Item { id, text, is_node: false, column }
        };
        for (index, name) in graph.inputs.names().enumerate() {
            items.push(ends(format!("in{index}"), name, 0));
        }
        let columns = columns(flow);
        for (index, (name, node)) in graph.nodes.iter().enumerate() {
            let times = match node.instances {
                1 => String::new(),
                count => format!(" x{count}"),
            };
            let text = format!("{name}{times}");
            items.push(Item {
                id: format!("n{index}"),
                text,
                is_node: true,
                column: columns[index],
            });
        }
        let last = columns.iter().max().map_or(1, |column| column + 1);
        for (index, name) in graph.outputs.names().enumerate() {
            items.push(ends(format!("out{index}"), name, last));
        }
        let mut edges = Vec::new();
        let mut connect = |target: Target, to: usize| {
            let (from, port) = match flow.source(target) {
                Source::Input(input) => (input, String::new()),
                Source::Node { node, output } => {
                    (inputs + node, graph.nodes.item(node).outputs.name(output).to_owned())
                }
            };
            edges.push((from, to, port));
        };
        for node in 0..graph.nodes.len() {
            for input in 0..graph.nodes.item(node).inputs.len() {
                connect(Target::Node { node, input }, inputs + node);
            }
        }
        for output in 0..graph.outputs.len() {
            connect(Target::Output(output), inputs + graph.nodes.len() + output);
        }
        Self { items, edges }
    }
}

/// Longest way from a graph input, per node; inputs stand in column 0.
fn columns(flow: &CheckedFlow) -> Vec<usize> {
    let graph = flow.graph();
    let mut columns = vec![1; graph.nodes.len()];
    for node in flow.order().iter().copied() {
        for input in 0..graph.nodes.item(node).inputs.len() {
            if let Source::Node { node: from, .. } = flow.source(Target::Node { node, input }) {
                columns[node] = columns[node].max(columns[from] + 1);
            }
        }
    }
    columns
}

/// Mermaid flowchart.
#[must_use]
pub fn mermaid(flow: &CheckedFlow) -> String {
    let picture = Picture::new(flow);
    let mut text = String::from("flowchart LR\n");
    for Item { id, text: label, is_node, .. } in &picture.items {
        let (open, close) = if *is_node { ("[", "]") } else { ("([", "])") };
        let _ = writeln!(text, "  {id}{open}\"{label}\"{close}");
    }
    for (from, to, port) in &picture.edges {
        let (from, to) = (&picture.items[*from].id, &picture.items[*to].id);
        let label = if port.is_empty() { String::new() } else { format!("|{port}|") };
        let _ = writeln!(text, "  {from} -->{label} {to}");
    }
    text
}

/// Graphviz dot.
#[must_use]
pub fn dot(flow: &CheckedFlow) -> String {
    let picture = Picture::new(flow);
    let name = &flow.graph().name;
    let mut text = format!("digraph \"{name}\" {{\n  rankdir=LR;\n");
    for Item { id, text: label, is_node, .. } in &picture.items {
        let shape = if *is_node { "box" } else { "oval" };
        let _ = writeln!(text, "  {id} [label=\"{label}\", shape={shape}];");
    }
    for (from, to, port) in &picture.edges {
        let (from, to) = (&picture.items[*from].id, &picture.items[*to].id);
        let _ = writeln!(text, "  {from} -> {to} [label=\"{port}\"];");
    }
    text.push_str("}\n");
    text
}

const COLUMN: usize = 190;
const ROW: usize = 70;
const WIDTH: usize = 130;
const HEIGHT: usize = 40;
const MARGIN: usize = 20;

/// SVG with a layered layout.
#[must_use]
pub fn svg(flow: &CheckedFlow) -> String {
    let picture = Picture::new(flow);
    let mut rows =
        vec![0_usize; picture.items.iter().map(|item| item.column + 1).max().unwrap_or(1)];
    let places: Vec<(usize, usize)> = picture
        .items
        .iter()
        .map(|item| {
            let row = rows[item.column];
            rows[item.column] += 1;
            (MARGIN + item.column * COLUMN, MARGIN + row * ROW)
        })
        .collect();
    let width = rows.len() * COLUMN - (COLUMN - WIDTH) + 2 * MARGIN;
    let height = rows.iter().max().map_or(1, |rows| *rows) * ROW - (ROW - HEIGHT) + 2 * MARGIN;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n\
         <defs><marker id=\"a\" markerWidth=\"8\" markerHeight=\"8\" refX=\"7\" refY=\"4\" \
         orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (from, to, port) in &picture.edges {
        let (x1, y1) = (places[*from].0 + WIDTH, places[*from].1 + HEIGHT / 2);
        let (x2, y2) = (places[*to].0, places[*to].1 + HEIGHT / 2);
        let middle = usize::midpoint(x1, x2);
        let _ = writeln!(
            text,
            "<path d=\"M{x1},{y1} C{middle},{y1} {middle},{y2} {x2},{y2}\" fill=\"none\" \
             stroke=\"black\" marker-end=\"url(#a)\"/>"
        );
        let (x, y) = (x1 + 4, y1.saturating_sub(5));
        let _ = writeln!(text, "<text x=\"{x}\" y=\"{y}\" font-size=\"10\">{port}</text>");
    }
    for (item, (x, y)) in picture.items.iter().zip(&places) {
        let (round, fill) = if item.is_node { (4, "#e8f0fe") } else { (20, "#f1f3f4") };
        let (cx, cy) = (x + WIDTH / 2, y + HEIGHT / 2 + 5);
        let _ = writeln!(
            text,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" height=\"{HEIGHT}\" rx=\"{round}\" \
             fill=\"{fill}\" stroke=\"black\"/>\n\
             <text x=\"{cx}\" y=\"{cy}\" text-anchor=\"middle\">{}</text>",
            item.text
        );
    }
    text.push_str("</svg>\n");
    text
}
