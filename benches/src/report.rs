//! One JSON object per figure, printed as the last line.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use crate::machine;
use crate::stats::Summary;

/// The object under construction. Numbers are kept as measured, never rounded to an aim.
#[derive(Debug)]
pub struct Report {
    keys: Map<String, Value>,
}

impl Report {
    /// Starts the object of a figure with its name and the machine line.
    #[must_use]
    pub fn new(figure: &str) -> Self {
        let mut keys = Map::new();
        keys.insert("figure".to_owned(), json!(figure));
        keys.insert("machine".to_owned(), machine::describe());
        Self { keys }
    }

    /// Sets a key.
    pub fn put(&mut self, key: &str, value: impl Into<Value>) {
        self.keys.insert(key.to_owned(), value.into());
    }

    /// Sets `key` to the median, `iqr.key` and `spread.key` = [min, max].
    pub fn summary(&mut self, key: &str, summary: Summary) {
        self.put(key, summary.median);
        self.at(&["iqr", key], json!(summary.iqr));
        self.at(&["spread", key], json!([summary.min, summary.max]));
        self.put("blocks", summary.count);
    }

    /// The same for a key that is an object: `key.member`, `iqr.key.member`, `spread.key.member`.
    pub fn member(&mut self, key: &str, member: &str, summary: Summary) {
        self.at(&[key, member], json!(summary.median));
        self.at(&["iqr", key, member], json!(summary.iqr));
        self.at(&["spread", key, member], json!([summary.min, summary.max]));
        self.put("blocks", summary.count);
    }

    /// Sets the value at a path of object keys, making objects on the way.
    pub fn at(&mut self, path: &[&str], value: Value) {
        let Some((first, rest)) = path.split_first() else { return };
        let mut place = self.keys.entry((*first).to_owned()).or_insert(Value::Null);
        for key in rest {
            if !place.is_object() {
                *place = json!({});
            }
            place = &mut place[*key];
        }
        *place = value;
    }

    /// The finished line, without a line end.
    #[must_use]
    pub fn line(&self) -> String {
        Value::Object(self.keys.clone()).to_string()
    }

    /// Prints the object as one line on the standard output.
    ///
    /// # Errors
    /// The standard output can't be written.
    pub fn print(&self) -> io::Result<()> {
        writeln!(io::stdout(), "{}", self.line())
    }
}

#[cfg(test)]
mod tests {
    use super::Report;
    use crate::stats::summarise;

    #[test]
    fn one_line_with_spread_beside_each_median() {
        let mut report = Report::new("test");
        let summary = summarise(&[1.0, 2.0, 3.0]).unwrap();
        report.summary("hop_ns", summary);
        report.member("ratio", "8", summary);
        let line = report.line();
        assert!(!line.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["hop_ns"], 2.0);
        assert_eq!(value["iqr"]["hop_ns"], 1.0);
        assert_eq!(value["ratio"]["8"], 2.0);
        assert_eq!(value["spread"]["ratio"]["8"][1], 3.0);
    }
}
