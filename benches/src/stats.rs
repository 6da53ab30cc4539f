//! Order statistics of a handful of samples: median, quartiles, extremes.

/// Five numbers of a sample set, in the samples' unit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Summary {
    /// The middle sample (mean of the middle two when the count is even).
    pub median: f64,
    /// Third quartile minus first quartile.
    pub iqr: f64,
    /// The smallest sample.
    pub min: f64,
    /// The largest sample.
    pub max: f64,
    /// How many samples there were.
    pub count: usize,
}

/// Summarises samples; `None` when there is none or one is not a number.
#[must_use]
pub fn summarise(samples: &[f64]) -> Option<Summary> {
    if samples.is_empty() || samples.iter().any(|sample| sample.is_nan()) {
        return None;
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let quartile = |quarters: usize| interpolate(&sorted, quarters);
    Some(Summary {
        median: quartile(2),
        iqr: quartile(3) - quartile(1),
        min: quartile(0),
        max: quartile(4),
        count: sorted.len(),
    })
}

/// The value at `quarters`/4 of a sorted, non-empty set, linear between neighbours.
fn interpolate(sorted: &[f64], quarters: usize) -> f64 {
    let position = (sorted.len() - 1) * quarters;
    let (below, rest) = (position / 4, position % 4);
    let low = sorted[below];
    match rest {
        0 => low,
        1 => low + (sorted[below + 1] - low) * 0.25,
        2 => low + (sorted[below + 1] - low) * 0.5,
        _ => low + (sorted[below + 1] - low) * 0.75,
    }
}

/// The ratios `a[i] / b[i]` of paired samples.
#[must_use]
pub fn paired_ratios(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a / b).collect()
}

#[cfg(test)]
mod tests {
    use super::{paired_ratios, summarise};

    #[test]
    fn odd_count_has_its_middle_sample() {
        let summary = summarise(&[5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        assert_eq!((summary.median, summary.iqr), (3.0, 2.0));
        assert_eq!((summary.min, summary.max, summary.count), (1.0, 5.0, 5));
    }

    #[test]
    fn even_count_interpolates() {
        let summary = summarise(&[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert_eq!((summary.median, summary.iqr), (2.5, 1.5));
    }

    #[test]
    fn one_sample_is_its_own_summary() {
        let summary = summarise(&[7.0]).unwrap();
        assert_eq!((summary.median, summary.iqr), (7.0, 0.0));
    }

    #[test]
    fn nothing_and_not_a_number_have_no_summary() {
        assert_eq!(summarise(&[]), None);
        assert_eq!(summarise(&[1.0, f64::NAN]), None);
    }

    #[test]
    fn ratios_are_paired_by_block() {
        assert_eq!(paired_ratios(&[2.0, 9.0], &[1.0, 3.0]), [2.0, 3.0]);
    }
}
