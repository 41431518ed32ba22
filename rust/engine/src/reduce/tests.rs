#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// Reduce blocks of an array in C order, whose axes may be reversed.
fn reduced<T: Copy + Default>(
    kind: &str,
    method: Method,
    axis_blocks: &[AxisBlocks],
    items: &[T],
    backwards: bool,
) -> Vec<T> {
    let strides = |sizes: Vec<usize>| {
        let mut stride = size_of::<T>() as isize;
        let mut strides: Vec<isize> = Vec::new();
        for size in sizes.into_iter().rev() {
            strides.push(stride);
            stride *= size as isize;
        }
        strides.reverse();
        strides
    };
    let mut steps = strides(axis_blocks.iter().map(|cut| cut.items().unwrap()).collect());
    let mut first = items.as_ptr().cast::<u8>().cast_mut();
    if backwards {
        steps.iter_mut().for_each(|step| *step = -*step);
        first = items.last().map_or(first, |last| std::ptr::from_ref(last).cast::<u8>().cast_mut());
    }
    let blocks: Vec<usize> = axis_blocks.iter().map(AxisBlocks::blocks).collect();
    let mut out = vec![T::default(); blocks.iter().product()];
    let source = StridedArray { address: first, strides: &steps };
    let target = StridedArray { address: out.as_mut_ptr().cast(), strides: &strides(blocks) };
    // SAFETY: both have the length of the blocks.
    unsafe { reduce(kind, method, axis_blocks, source, target) }.unwrap();
    out
}

/// The expected result, block by block.
fn model<T: Copy>(axis_blocks: &[AxisBlocks], items: &[T], make: impl Fn(Vec<T>) -> T) -> Vec<T> {
    let blocks: Vec<usize> = axis_blocks.iter().map(AxisBlocks::blocks).collect();
    let count: usize = blocks.iter().product();
    let block_offsets = |number: usize| {
        let mut rest = number;
        let mut block_offsets = vec![0];
        let mut stride = 1;
        for (cut, &blocks) in axis_blocks.iter().zip(&blocks).rev() {
            let (begin, length, _) = cut.block(rest % blocks);
            rest /= blocks;
            let along =
                (begin..begin + length).flat_map(|at| block_offsets.iter().map(move |&p| p + at * stride));
            block_offsets = along.collect();
            stride *= cut.items().unwrap();
        }
        block_offsets
    };
    (0..count)
        .map(|number| make(block_offsets(number).into_iter().map(|item_offset| items[item_offset]).collect()))
        .collect()
}

fn cut() -> impl Strategy<Value = AxisBlocks> {
    (1..7usize, 0..5usize, 0..7usize, 0..7usize).prop_map(|(whole, wholes, first, last)| {
        let last = if first + wholes + last == 0 { 1 } else { last };
        AxisBlocks { first: first.min(whole - 1), whole, wholes, last: last.min(whole) }
    })
}

fn filled(axis_blocks: &[AxisBlocks], items: &[u64]) -> Vec<u64> {
    let count: usize = axis_blocks.iter().map(|cut| cut.items().unwrap()).product();
    items.iter().copied().cycle().take(count).collect()
}

fn mode(mut block: Vec<i64>) -> i64 {
    block.sort_unstable();
    let most = block.chunk_by(|a, b| a == b).map(<[_]>::len).max().unwrap();
    block.chunk_by(|a, b| a == b).find(|run| run.len() == most).unwrap()[0]
}

fn mean(block: Vec<i64>) -> i64 {
    let (sum, count) = (block.iter().map(|&item| i128::from(item)).sum::<i128>(), block.len() as i128);
    let twice = 2 * sum;
    let down = sum.div_euclid(count);
    let half = twice - 2 * down * count;
    (down + i128::from(half > count || (half == count && down & 1 == 1))) as i64
}

macro_rules! compare {
    ($kind:literal, $number:ty, $axis_blocks:expr, $items:expr, $backwards:expr) => {{
        let items: Vec<$number> =
            filled($axis_blocks, $items).into_iter().map(|item| item as $number).collect();
        let mut seen = items.clone();
        if $backwards {
            seen.reverse();
        }
        let seen: Vec<i64> = seen.into_iter().map(|item| item as i64).collect();
        for (method, make) in [
            (Method::Min, (|block| block.into_iter().min().unwrap()) as fn(Vec<i64>) -> i64),
            (Method::Max, |block| block.into_iter().max().unwrap()),
            (Method::Mode, mode),
            (Method::Mean, mean),
            (Method::Median, |mut block| {
                block.sort_unstable();
                block[(block.len() - 1) / 2]
            }),
        ] {
            let actual = reduced($kind, method, $axis_blocks, &items, $backwards);
            let actual: Vec<i64> = actual.into_iter().map(|item| item as i64).collect();
            prop_assert_eq!(actual, model($axis_blocks, &seen, make), "{:?} of {}", method, $kind);
        }
    }};
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn blocks_match_separate_reductions(
        axis_blocks in prop::collection::vec(cut(), 0..4),
        items in prop::collection::vec(prop_oneof![any::<u64>(), 0..3u64], 1..300),
        backwards in any::<bool>(),
    ) {
        compare!("i1", i8, &axis_blocks, &items, backwards);
        compare!("u2", u16, &axis_blocks, &items, backwards);
        compare!("i4", i32, &axis_blocks, &items, backwards);
        compare!("i8", i64, &axis_blocks, &items, backwards);
        let bits: Vec<u64> = items.iter().map(|item| item & 1).collect();
        compare!("bool", u8, &axis_blocks, &bits, backwards);
        let floats: Vec<u64> = items.iter().map(|item| item % 8 * 720).collect();
        for (method, make) in [
            (Method::Min, (|block| block.into_iter().fold(f64::INFINITY, f64::min)) as fn(Vec<f64>) -> f64),
            (Method::Max, |block| block.into_iter().fold(0.0, f64::max)),
            (Method::Mean, |block| block.iter().sum::<f64>() / block.len() as f64),
        ] {
            let mut numbers: Vec<f64> = filled(&axis_blocks, &floats).into_iter().map(|item| item as f64).collect();
            let actual = reduced("f8", method, &axis_blocks, &numbers, backwards);
            if backwards {
                numbers.reverse();
            }
            prop_assert_eq!(actual, model(&axis_blocks, &numbers, make));
        }
    }
}

#[test]
fn large_blocks_are_sorted_separately() {
    let axis_blocks = [AxisBlocks { first: 3, whole: 901, wholes: 2, last: 400 }];
    let items: Vec<i16> =
        (0..axis_blocks[0].items().unwrap()).map(|item| (item * 7919 % 1000 / 3) as i16).collect();
    let wide: Vec<i64> = items.iter().map(|&item| i64::from(item)).collect();
    let wide = |make: fn(Vec<i64>) -> i64| -> Vec<i16> {
        model(&axis_blocks, &wide, make).into_iter().map(|item| item as i16).collect()
    };
    let middle = |mut block: Vec<i64>| {
        block.sort_unstable();
        block[(block.len() - 1) / 2]
    };
    assert_eq!(reduced("i2", Method::Median, &axis_blocks, &items, false), wide(middle));
    assert_eq!(reduced("i2", Method::Mode, &axis_blocks, &items, false), wide(mode));
}

#[test]
fn large_integer_sums_are_exact() {
    let count = 1 << 21;
    let axis_blocks = [AxisBlocks { first: 0, whole: count, wholes: 1, last: 0 }];
    let mut items = vec![u32::MAX; count];
    assert_eq!(reduced("u4", Method::Mean, &axis_blocks, &items, false), [u32::MAX]);
    items[..count / 2].fill(u32::MAX - 1);
    items[0] -= 1;
    assert_eq!(reduced("u4", Method::Mean, &axis_blocks, &items, false), [u32::MAX - 1]);
    assert_eq!(reduced("i8", Method::Mean, &axis_blocks, &vec![i64::MIN; count], false), [i64::MIN]);
}

#[test]
fn nan_is_greater_than_all_numbers() {
    let axis_blocks = [AxisBlocks { first: 0, whole: 3, wholes: 3, last: 1 }];
    let nan = f32::NAN;
    let items = [nan, 1.0, 2.0, nan, nan, 1.0, 2.0, nan, -0.0, nan];
    let actual = |method| {
        let result = reduced("f4", method, &axis_blocks, &items, false);
        assert!(result[3].is_nan());
        result[..3].to_vec()
    };
    assert_eq!(actual(Method::Min), [1.0, 1.0, 0.0]);
    assert_eq!(actual(Method::Max), [2.0, 1.0, 2.0]);
    assert_eq!(actual(Method::Mode), [1.0, 1.0, 0.0]);
    let median = actual(Method::Median);
    assert_eq!(median[0], 2.0);
    assert!(median[1].is_nan());
}

#[test]
fn half_floats_widen_exactly() {
    for bits in 0..=u16::MAX {
        let wide = Float16(bits).widen();
        let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
        let magnitude = match exponent {
            31 if bits & 1023 != 0 => f32::NAN,
            31 => f32::INFINITY,
            0 => fraction * 2f32.powi(-24),
            _ => (1024.0 + fraction) * 2f32.powi(exponent - 25),
        };
        assert!(wide.abs() == magnitude || (wide.is_nan() && magnitude.is_nan()));
        assert_eq!(wide.is_sign_negative(), bits >> 15 == 1);
        let (back, brain) = (Float16::narrow(wide).0, BFloat16::narrow(BFloat16(bits).widen()).0);
        assert!(back == bits || (wide.is_nan() && back & 0x7c00 == 0x7c00 && back & 1023 != 0));
        assert!(brain == bits || BFloat16(bits).widen().is_nan());
    }
}

#[test]
fn half_floats_round_to_even() {
    for (wide, bits) in [
        (1.0 + 2f32.powi(-11), 0x3c00),
        (1.0 + 3.0 * 2f32.powi(-11), 0x3c02),
        (1.0 + 2f32.powi(-11) + 2f32.powi(-20), 0x3c01),
        (65519.0, 0x7bff),
        (65520.0, 0x7c00),
        (1e9, 0x7c00),
        (-f32::INFINITY, 0xfc00),
        (2f32.powi(-25), 0),
        (1.5 * 2f32.powi(-24), 2),
        (2f32.powi(-14) - 2f32.powi(-26), 0x400),
    ] {
        assert_eq!(Float16::narrow(wide).0, bits, "{wide}");
    }
    assert_eq!(BFloat16::narrow(1.0 + 2f32.powi(-8)).0, 0x3f80);
    assert_eq!(BFloat16::narrow(1.0 + 3.0 * 2f32.powi(-8)).0, 0x3f82);
    assert!(BFloat16::narrow(f32::NAN).widen().is_nan());
}

#[test]
fn unsupported_reductions_are_rejected() {
    let axis_blocks = [AxisBlocks::ONE];
    let mut item = [0u8; 16];
    let item_offset = StridedArray { address: item.as_mut_ptr(), strides: &[0] };
    for (kind, method) in [("c8", Method::Median), ("c16", Method::Min), ("i3", Method::Mean)] {
        // SAFETY: the buffer has space for any element.
        assert!(unsafe { reduce(kind, method, &axis_blocks, item_offset, item_offset) }.is_err());
    }
    assert_eq!(Method::from_name("stride"), None);
}
