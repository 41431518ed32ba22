//! Tests of the copy against a naive reference that visits every step in C order.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

/// Every (source, destination) offset of the nest, in C order.
fn steps(axes: &[Axis<'_>]) -> Vec<(isize, isize)> {
    let mut offset_pairs = vec![(0, 0)];
    for axis in axes {
        let offsets: Vec<(isize, isize)> = match *axis {
            Axis::Strided { count, src, dst } => (0..count as isize).map(|i| (i * src, i * dst)).collect(),
            Axis::List { offsets } => offsets.to_vec(),
        };
        offset_pairs = offset_pairs
            .iter()
            .flat_map(|&(s, d)| offsets.iter().map(move |&(ds, dd)| (s + ds, d + dd)))
            .collect();
    }
    offset_pairs
}

/// Buffers just large enough for the nest, and the position of offset 0 in each.
struct Buffers {
    src: Vec<u8>,
    src_base: usize,
    dst: Vec<u8>,
    dst_base: usize,
}

fn buffers(axes: &[Axis<'_>], bytes: usize) -> Buffers {
    let offset_pairs = steps(axes);
    let extent = |pick: fn(&(isize, isize)) -> isize| {
        let low = offset_pairs.iter().map(pick).min().unwrap_or(0).min(0);
        let high = offset_pairs.iter().map(pick).max().unwrap_or(0).max(0);
        (low.unsigned_abs(), high as usize + low.unsigned_abs() + bytes)
    };
    let ((src_base, src_len), (dst_base, dst_len)) = (extent(|p| p.0), extent(|p| p.1));
    let src = (0..src_len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
    Buffers { src, src_base, dst: vec![0xee; dst_len], dst_base }
}

fn reference(buffers: &Buffers, axes: &[Axis<'_>], item: Item) -> Vec<u8> {
    let mut dst = buffers.dst.clone();
    for (s, d) in steps(axes) {
        let s = (buffers.src_base as isize + s) as usize;
        let d = (buffers.dst_base as isize + d) as usize;
        dst[d..d + item.bytes].copy_from_slice(&buffers.src[s..s + item.bytes]);
        if item.swap > 1 {
            dst[d..d + item.bytes].chunks_exact_mut(item.swap).for_each(<[u8]>::reverse);
        }
    }
    dst
}

/// Copy by the engine and by the reference, and compare.
fn check(axes: &[Axis<'_>], item: Item) {
    let mut buffers = buffers(axes, item.bytes);
    let expected = reference(&buffers, axes, item);
    // SAFETY: the buffers hold every step by construction.
    unsafe {
        copy(
            buffers.src.as_ptr().add(buffers.src_base),
            buffers.dst.as_mut_ptr().add(buffers.dst_base),
            axes,
            item,
        )
    };
    assert_eq!(buffers.dst, expected, "{axes:?} {item:?}");
}

/// Fill by the engine and by the reference, and compare.
fn check_fill(axes: &[Axis<'_>], value: &[u8]) {
    let mut buffers = buffers(axes, value.len());
    let mut expected = buffers.dst.clone();
    for (_, d) in steps(axes) {
        let d = (buffers.dst_base as isize + d) as usize;
        expected[d..d + value.len()].copy_from_slice(value);
    }
    // SAFETY: the buffer holds every step by construction.
    unsafe { fill(buffers.dst.as_mut_ptr().add(buffers.dst_base), axes, value) };
    assert_eq!(buffers.dst, expected, "{axes:?} {value:?}");
}

const ITEMS: [Item; 21] = {
    const fn item(bytes: usize, swap: usize) -> Item {
        Item { bytes, swap }
    }
    [
        item(1, 0),
        item(2, 0),
        item(3, 1),
        item(4, 0),
        item(5, 0),
        item(7, 0),
        item(8, 1),
        item(12, 0),
        item(16, 0),
        item(24, 0),
        item(33, 0),
        item(100, 0),
        item(200, 0),
        item(2, 2),
        item(4, 2),
        item(4, 4),
        item(6, 3),
        item(8, 4),
        item(8, 8),
        item(16, 8),
        item(24, 8),
    ]
};

/// Strides of an array of `counts` items, whose axes are in `order` (outermost first). Every axis
/// is widened by a gap and possibly reversed.
fn strides(counts: &[usize], order: &[usize], gaps: &[usize], back: &[bool], bytes: usize) -> Vec<isize> {
    let mut strides = vec![0isize; counts.len()];
    let mut next = bytes as isize;
    for &axis in order.iter().rev() {
        next *= gaps[axis] as isize;
        strides[axis] = if back[axis] { -next } else { next };
        next *= counts[axis].max(1) as isize;
    }
    strides
}

/// One side of a random nest: the order of its axes, gaps, directions.
type Side = (Vec<usize>, Vec<usize>, Vec<bool>);

fn side(rank: usize) -> impl Strategy<Value = Side> {
    (
        Just((0..rank).collect::<Vec<_>>()).prop_shuffle(),
        prop::collection::vec(prop_oneof![4 => Just(1usize), 1 => 2..5usize], rank),
        prop::collection::vec(prop::bool::weighted(0.2), rank),
    )
}

/// The form of an axis: regular, broadcast, or a list of these indices.
#[derive(Clone, Debug)]
enum Form {
    Regular,
    Broadcast,
    List(Vec<usize>),
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![
        8 => Just(Form::Regular),
        1 => Just(Form::Broadcast),
        2 => prop::collection::vec(0..64usize, 0..20).prop_map(Form::List),
    ]
}

#[derive(Clone, Debug)]
struct Nest {
    counts: Vec<usize>,
    src: Side,
    dst: Side,
    forms: Vec<Form>,
    item: Item,
    scatter: bool,
}

fn nest() -> impl Strategy<Value = Nest> {
    (0..5usize).prop_flat_map(|rank| {
        let count = prop_oneof![1 => 0..2usize, 10 => 1..6usize, 6 => 6..22usize, 1 => 60..90usize];
        (
            prop::collection::vec(count, rank),
            side(rank),
            side(rank),
            prop::collection::vec(form(), rank),
            prop::sample::select(&ITEMS[..]),
            any::<bool>(),
        )
            .prop_map(|(mut counts, src, dst, forms, item, scatter)| {
                // Bound the number of steps.
                while counts.iter().product::<usize>() > 6000 {
                    counts.iter_mut().for_each(|count| *count = count.div_ceil(2));
                }
                Nest { counts, src, dst, forms, item, scatter }
            })
    })
}

/// The random axes, with lists resolved to offset pairs: as in a read (any source index, ascending
/// destination) or as in a write (`scatter`: the reverse).
fn with_axes(nest: &Nest, run: impl Fn(&[Axis<'_>], Item)) {
    let (order, gaps, back) = &nest.src;
    let src = strides(&nest.counts, order, gaps, back, nest.item.bytes);
    let (order, gaps, back) = &nest.dst;
    let dst = strides(&nest.counts, order, gaps, back, nest.item.bytes);
    let lists: Vec<Vec<(isize, isize)>> = (0..nest.counts.len())
        .map(|axis| match &nest.forms[axis] {
            Form::List(indices) => indices
                .iter()
                .take(nest.counts[axis])
                .enumerate()
                .map(|(i, &index)| {
                    let index = (index % nest.counts[axis]) as isize;
                    let (s, d) = if nest.scatter { (i as isize, index) } else { (index, i as isize) };
                    (s * src[axis], d * dst[axis])
                })
                .collect(),
            _ => Vec::new(),
        })
        .collect();
    let axes: Vec<Axis<'_>> = (0..nest.counts.len())
        .map(|axis| match nest.forms[axis] {
            Form::Regular => Axis::Strided { count: nest.counts[axis], src: src[axis], dst: dst[axis] },
            Form::Broadcast => Axis::Strided { count: nest.counts[axis], src: 0, dst: dst[axis] },
            Form::List(_) => Axis::List { offsets: &lists[axis] },
        })
        .collect();
    run(&axes, nest.item);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any nest copies like the reference, repeated destinations included.
    #[test]
    fn copies_like_the_reference(nest in nest()) {
        with_axes(&nest, check);
    }

    /// The rows of any nest visit each step of the reference.
    #[test]
    fn rows_are_the_steps_of_the_reference(nest in nest()) {
        with_axes(&nest, |axes, _| {
            let mut visited = Vec::new();
            each_row(axes, &mut |(src, dst), count, (step, stride)| {
                visited.extend((0..count as isize).map(|k| (src + k * step, dst + k * stride)));
            });
            let mut expected = steps(axes);
            expected.sort_unstable();
            visited.sort_unstable();
            assert_eq!(visited, expected, "{axes:?}");
        });
    }

    /// Any nest fills like the reference, with uniform and other values.
    #[test]
    fn fills_like_the_reference(nest in nest(), uniform in any::<bool>()) {
        with_axes(&nest, |axes, item| {
            let value: Vec<u8> = (0..item.bytes).map(|i| if uniform { 7 } else { i as u8 + 1 }).collect();
            check_fill(axes, &value);
        });
    }

    /// Two-dimensional transpositions of every item, around the edges of tiles.
    #[test]
    fn transposes_like_the_reference(
        rows in 1..150usize, cells in 1..150usize, pad in 0..3usize, item in prop::sample::select(&ITEMS[..]),
        row_back in any::<bool>(), cell_back in any::<bool>(),
    ) {
        let b = item.bytes as isize;
        let (src_row, dst_cell) = (b, b);
        let src_cell = b * (rows + pad) as isize;
        let dst_row = b * (cells + pad) as isize;
        let sign = |back| if back { -1 } else { 1 };
        check(&[
            Axis::Strided { count: rows, src: sign(row_back) * src_row, dst: dst_row },
            Axis::Strided { count: cells, src: sign(cell_back) * src_cell, dst: dst_cell },
        ], item);
    }

    /// `is_filled` compares every item, for odd item sizes and lengths too.
    #[test]
    fn is_filled_compares_every_item(
        item in prop::collection::vec(any::<u8>(), 1..20), count in 0..300usize, harm in any::<prop::sample::Index>(),
    ) {
        let mut data = item.repeat(count);
        prop_assert!(is_filled(&data, &item));
        if !data.is_empty() {
            let at = harm.index(data.len());
            data[at] ^= 1;
            prop_assert!(!is_filled(&data, &item));
        }
    }

    /// `are_valid_bools` detects one invalid byte anywhere.
    #[test]
    fn are_valid_bools_detects_one_invalid_byte(len in 1..10_000usize, harm in any::<prop::sample::Index>(), bad in 2..=255u8) {
        let mut data: Vec<u8> = (0..len).map(|i| (i % 2) as u8).collect();
        prop_assert!(are_valid_bools(&data));
        data[harm.index(len)] = bad;
        prop_assert!(!are_valid_bools(&data));
        let truth: Vec<bool> = data.iter().map(|&byte| byte != 0).collect();
        normalize_bools(&mut data);
        prop_assert_eq!(data, truth.into_iter().map(u8::from).collect::<Vec<_>>());
    }

    /// Swapping reverses each unit and leaves a rest unchanged.
    #[test]
    fn swap_in_place_reverses_units(data in prop::collection::vec(any::<u8>(), 0..200), unit in 0..17usize) {
        let mut swapped = data.clone();
        swap_in_place(&mut swapped, unit);
        let mut expected = data;
        if unit > 1 {
            expected.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
        }
        prop_assert_eq!(swapped, expected);
    }
}

/// More axes than fit inline spill to the heap and still copy right.
#[test]
fn copies_many_axes() {
    for rank in [9, 12, 40, 64] {
        let counts: Vec<usize> = (0..rank).map(|axis| if axis % (rank / 9) == 0 { 2 } else { 1 }).collect();
        let order: Vec<usize> = (0..rank).collect();
        let (gaps, back) = (vec![1; rank], vec![false; rank]);
        let reversed: Vec<usize> = order.iter().rev().copied().collect();
        let src = strides(&counts, &reversed, &gaps, &back, 2);
        let dst = strides(&counts, &order, &gaps, &back, 2);
        let axes: Vec<Axis<'_>> = (0..rank)
            .map(|axis| Axis::Strided { count: counts[axis], src: src[axis], dst: dst[axis] })
            .collect();
        check(&axes, Item { bytes: 2, swap: 2 });
    }
}

/// No axes: one item; no bytes: nothing.
#[test]
fn copies_one_item_and_no_bytes() {
    for item in ITEMS {
        check(&[], item);
    }
    let axes = [Axis::Strided { count: 3, src: 0, dst: 0 }];
    check(&axes, Item { bytes: 0, swap: 0 });
    check_fill(&axes, &[]);
}

/// Large fills continue past the piece size, for sizes that do not divide it.
#[test]
fn fills_long_rows() {
    for bytes in [1usize, 2, 3, 5, 8, 12, 16, 100, 5000] {
        let value: Vec<u8> = (0..bytes).map(|i| (i % 251) as u8).collect();
        check_fill(
            &[Axis::Strided { count: 30_000usize.div_ceil(bytes), src: 0, dst: bytes as isize }],
            &value,
        );
    }
}

/// `contiguous_bytes` recognises one memcpy through axes of one step and after merging, and nothing
/// else.
#[test]
fn recognises_one_memcpy() {
    let item = Item { bytes: 2, swap: 0 };
    let axis = |count, src, dst| Axis::Strided { count, src, dst };
    let whole = [axis(3, 40, 40), axis(1, 9, -9), axis(4, 10, 10), axis(5, 2, 2)];
    assert_eq!(Plan::new(&whole, item).contiguous_bytes(), Some(120));
    assert_eq!(Plan::new(&[], item).contiguous_bytes(), Some(2));
    assert_eq!(Plan::new(&[axis(0, 2, 2)], item).contiguous_bytes(), Some(0));
    assert_eq!(Plan::new(&whole, Item { bytes: 2, swap: 2 }).contiguous_bytes(), None);
    assert_eq!(Plan::new(&[axis(3, 42, 40), axis(20, 2, 2)], item).contiguous_bytes(), None);
    assert_eq!(Plan::new(&[axis(3, -2, -2)], item).contiguous_bytes(), None);
    assert_eq!(Plan::new(&[axis(3, 0, 2)], item).contiguous_bytes(), None);
    assert_eq!(Plan::new(&[Axis::List { offsets: &[(0, 0), (2, 2)] }], item).contiguous_bytes(), None);
    assert_eq!(Plan::new(&[Axis::List { offsets: &[(2, 0)] }], item).contiguous_bytes(), None);
    assert_eq!(Plan::new(&[Axis::List { offsets: &[(0, 0)] }], item).contiguous_bytes(), Some(2));
}

/// Edge cases of the scans: empty buffers, partial items, values that differ only in their bits.
#[test]
fn scans_edges() {
    assert!(is_filled(&[], &[1, 2]));
    assert!(!is_filled(&[1, 2, 1], &[1, 2]));
    assert!(!is_filled(&(-0.0f64).to_ne_bytes(), &0.0f64.to_ne_bytes()));
    assert!(is_filled(&f32::NAN.to_ne_bytes(), &f32::NAN.to_ne_bytes()));
    assert!(are_valid_bools(&[]));
}

#[test]
fn in_pieces_processes_each_walk_once() {
    // A long walk, which is divided, between short ones; and a walk that cannot be divided.
    let counts = [3usize, 4000, 1, 700];
    let source: Vec<u8> = (0..counts.iter().sum::<usize>()).map(|at| (at % 251) as u8 + 1).collect();
    let pairs: Vec<(isize, isize)> = (0..700).map(|at| (at, 699 - at)).collect();
    let mut target = vec![0u8; source.len()];
    let (mut walks, mut at) = (Vec::new(), 0);
    for count in counts {
        let axis = match count {
            700 => Axis::List { offsets: &pairs },
            _ => Axis::Strided { count, src: 1, dst: 1 },
        };
        let (src, dst) = (source[at..].as_ptr(), target[at..].as_mut_ptr());
        walks.push(Walk { axes: [axis].into_iter().collect(), src, dst });
        at += count;
    }
    in_pieces(&walks, 1000, &|axes, from, to| {
        // SAFETY: the walks are those of both arrays.
        unsafe { copy(from, to, axes, Item { bytes: 1, swap: 0 }) };
    })
    .unwrap();
    let cut = source.len() - 700;
    assert_eq!(target[..cut], source[..cut]);
    assert!(target[cut..].iter().eq(source[cut..].iter().rev()));
}

/// Consecutive walks are in one batch: they may share cache lines.
#[test]
fn batches_have_consecutive_tasks_of_similar_size() {
    let batch_ends = |items: &[usize], count| pieces::batch_ends(items.iter().copied(), count);
    assert_eq!(batch_ends(&[], 4), [0_usize; 0]);
    assert_eq!(batch_ends(&[0, 0], 4), [2]);
    assert_eq!(batch_ends(&[10; 12], 4), [3, 6, 9, 12]);
    assert_eq!(batch_ends(&[10; 3], 8), [1, 2, 3]);
    // A large task is not in one batch with all small tasks.
    let mut mixed = vec![1000, 1000];
    mixed.extend([1; 300]);
    assert_eq!(batch_ends(&mixed, 8), [1, 2, 291, 302]);
    mixed.reverse();
    assert_eq!(batch_ends(&mixed, 8)[1..], [300, 301, 302]);
}

/// `in_pieces` processes all walks, for any number of walks.
#[test]
fn in_pieces_processes_many_walks() {
    let bytes = vec![7u8; 4000];
    let mut target = vec![0u8; bytes.len()];
    let of = |at: usize, target: &mut [u8]| Walk {
        axes: [Axis::Strided { count: 10, src: 1, dst: 1 }].into_iter().collect(),
        src: bytes[at..].as_ptr(),
        dst: target[at..].as_mut_ptr(),
    };
    let walks: Vec<Walk<'_>> = (0..400).map(|n| of(10 * n, &mut target)).collect();
    in_pieces(&walks, 1000, &|axes, from, to| {
        // SAFETY: the walks are those of both arrays.
        unsafe { copy(from, to, axes, Item { bytes: 1, swap: 0 }) };
    })
    .unwrap();
    assert_eq!(target, bytes);
}

/// Rows of all lengths around those where another loop begins, adjacent and scattered.
#[test]
fn copies_rows_of_any_length() {
    for bytes in [63usize, 64, 65, 127, 128, 129, 191, 192, 193, 400, 2047, 2048, 2049] {
        for (count, rows) in [(8, 1), (9, 1), (20, 3)] {
            for gap in [1isize, 64] {
                let step = bytes as isize + gap;
                let axis = |count, src, dst| Axis::Strided { count, src, dst };
                let outer = count as isize * step + 5;
                let axes = [axis(rows, 2 * outer, outer), axis(count, bytes as isize, step)];
                check(&axes, Item { bytes, swap: 0 });
            }
        }
    }
}
