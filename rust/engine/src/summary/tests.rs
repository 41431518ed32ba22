#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

/// Return the summary of numbers.
fn summary<T: Copy>(kind: &str, numbers: &[T], max_bins: usize) -> Summary {
    // SAFETY: numbers have no padding.
    let bytes =
        unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast::<u8>(), std::mem::size_of_val(numbers)) };
    summarize(kind, bytes, max_bins).unwrap()
}

fn integers(summary: &Summary) -> &Totals<i128> {
    match summary {
        Summary::Integers(totals) => totals,
        Summary::Reals(_) => panic!("not integers"),
    }
}

fn reals(summary: &Summary) -> &Totals<f64> {
    match summary {
        Summary::Reals(totals) => totals,
        Summary::Integers(_) => panic!("not reals"),
    }
}

/// Return the exact sum, and the variance times the squared count.
fn exact_moments(numbers: &[i64]) -> (i128, f64) {
    let sum: i128 = numbers.iter().map(|&number| i128::from(number)).sum();
    let mean = sum as f64 / numbers.len() as f64;
    let variance = numbers.iter().map(|&number| (number as f64 - mean).powi(2)).sum::<f64>();
    (sum, variance / numbers.len() as f64)
}

macro_rules! compare {
    ($kind:literal, $number:ty, $items:expr, $bins:expr) => {{
        let items: Vec<$number> = $items.iter().map(|&item| item as $number).collect();
        let wide: Vec<i64> = items.iter().map(|&item| item as i64).collect();
        let summary = summary($kind, &items, $bins);
        let totals = integers(&summary);
        let (sum, variance) = exact_moments(&wide);
        prop_assert_eq!(totals.moments.sum(), sum);
        let low = i128::from(*wide.iter().min().unwrap());
        prop_assert_eq!(totals.extremes, Some((low, i128::from(*wide.iter().max().unwrap()))));
        let deviation = totals.moments.standard_deviation().unwrap();
        prop_assert!((deviation * deviation - variance).abs() <= 1e-9 * variance.max(1.0));
        let Histogram { exponent, first, counts } = &totals.histogram;
        prop_assert!(counts.len() <= $bins);
        let mut expected = vec![0u64; counts.len()];
        wide.iter().for_each(|&item| expected[((i128::from(item) >> exponent) - first) as usize] += 1);
        prop_assert_eq!(counts, &expected);
    }};
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn summaries_of_integers_are_exact(
        items in prop::collection::vec(prop_oneof![any::<i32>(), -3..3i32], 1..100),
        repeats in prop_oneof![Just(1usize), Just(70)],
        bins in 2..70usize,
    ) {
        let items = items.repeat(repeats);
        compare!("i1", i8, items, bins);
        compare!("u1", u8, items, bins);
        compare!("i2", i16, items, bins);
        compare!("u2", u16, items, bins);
        compare!("i4", i32, items, bins);
        compare!("u4", u32, items, bins);
        compare!("i8", i64, items, bins);
    }

    #[test]
    fn histograms_of_reals_have_exact_counts(
        items in prop::collection::vec(prop_oneof![any::<f64>(), -4.0..4.0f64, Just(f64::NAN)], 1..60),
        bins in 2..20usize,
    ) {
        let whole = summary("f8", &items, bins);
        let totals = reals(&whole);
        let finite: Vec<f64> = items.iter().copied().filter(|item| item.is_finite()).collect();
        let Histogram { exponent, first, counts } = &totals.histogram;
        prop_assert_eq!(counts.iter().sum::<u64>(), finite.len() as u64);
        let mut expected = vec![0u64; counts.len()];
        finite.iter().for_each(|item| expected[(item.bin(*exponent) - first) as usize] += 1);
        prop_assert_eq!(counts, &expected);

        let (left, right) = items.split_at(items.len() / 2);
        let merged = summary("f8", right, bins).merged(&summary("f8", left, bins)).unwrap();
        prop_assert_eq!(&reals(&merged).histogram, &totals.histogram);
        prop_assert_eq!(reals(&merged).extremes, totals.extremes);
    }
}

#[test]
fn many_elements_of_one_value_have_no_deviation() {
    let summary = summary("f4", &vec![0.1f32; 100_000], 8);
    let totals = reals(&summary);
    assert_eq!(totals.moments.mean(), Some(f64::from(0.1f32)));
    assert_eq!(totals.moments.standard_deviation(), Some(0.0));
    assert_eq!(totals.histogram.counts, [100_000]);
}

#[test]
fn repeated_summary_is_that_of_repeated_elements() {
    let items = [1.5f64, f64::NAN, -2.0, f64::INFINITY];
    let (once, often) = (summary("f8", &items, 8), summary("f8", &items.repeat(5), 8));
    let repeated = once.repeated(5);
    let (repeated, often) = (reals(&repeated), reals(&often));
    assert_eq!(repeated.histogram, often.histogram);
    assert_eq!(repeated.moments.mean(), often.moments.mean());
    assert_eq!((repeated.nan_count, repeated.positive_infinity_count), (5, 5));
    let none = once.repeated(0);
    assert_eq!((reals(&none).extremes, reals(&none).moments.count), (None, 0));
}

#[test]
fn summaries_of_times_count_nat() {
    let summary = summary("M8", &[i64::MIN, 3, i64::MAX, i64::MIN], 4);
    let totals = integers(&summary);
    assert_eq!(totals.nan_count, 2);
    assert_eq!(totals.extremes, Some((3, i128::from(i64::MAX))));
}

#[test]
fn summaries_of_unaligned_or_unknown_elements_are_none() {
    assert!(summarize("f4", &[0; 7], 4).is_none());
    assert!(summarize("c8", &[0; 8], 4).is_none());
    assert!(summary("i4", &[1i32], 4).merged(&summary("f4", &[1f32], 4)).is_none());
}
