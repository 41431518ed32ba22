//! The kernels that reduce the rows of a piece.
//!
//! Where the order does not matter, rows are combined item by item, and then the items of each
//! block: vector instructions do nearly all of the work. Medians and modes sort many blocks at once
//! by a sorting network: the items of one position of all blocks are contiguous, so that each pair
//! of the network is a loop over blocks.

use std::cmp::Ordering;
use std::marker::PhantomData;

use super::element::{Element, Number, Real, Total};
use super::network::{pruned_network, sorting_network};
use super::Rows;

/// The maximum length of a block that a network sorts.
const MAX_NETWORK_LENGTH: usize = 200;

/// Reduces the blocks of pieces, one piece after the other.
pub(super) trait Kernel<E: Element>: Default {
    /// Write one number for each block of `length` items of a row to `out`.
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]);
}

/// `combine` each block of `length` items with the value in `out`.
#[inline(always)]
fn combine_blocks<T, R: Copy>(
    items: &[T],
    length: usize,
    out: &mut [R],
    combine: impl Fn(R, &[T]) -> R + Copy,
) {
    match length {
        1 => combine_blocks_of::<1, T, R>(items, out, combine),
        2 => combine_blocks_of::<2, T, R>(items, out, combine),
        3 => combine_blocks_of::<3, T, R>(items, out, combine),
        4 => combine_blocks_of::<4, T, R>(items, out, combine),
        _ => {
            for (block_items, result) in items.chunks_exact(length).zip(out) {
                *result = combine(*result, block_items);
            }
        }
    }
}

#[inline(always)]
fn combine_blocks_of<const LENGTH: usize, T, R: Copy>(
    items: &[T],
    out: &mut [R],
    combine: impl Fn(R, &[T]) -> R,
) {
    for (block_items, result) in items.chunks_exact(LENGTH).zip(out) {
        *result = combine(*result, block_items);
    }
}

/// Combine all rows item by item, and apply `finish` to the combination of each block.
#[inline(always)]
fn combine_rows<E: Element, A: Copy>(
    rows: &mut Rows<'_, E>,
    combined: &mut Vec<A>,
    length: usize,
    out: &mut [E::Wide],
    convert: impl Fn(E::Wide) -> A + Copy,
    combine: impl Fn(A, A) -> A + Copy,
    finish: impl Fn(A) -> E::Wide + Copy,
) {
    combined.clear();
    while let Some(row) = rows.next() {
        if combined.is_empty() {
            combined.extend(row.iter().map(|&item| convert(item)));
        } else {
            for (first, &item) in combined.iter_mut().zip(row) {
                *first = combine(*first, convert(item));
            }
        }
    }
    combine_blocks(combined, length, out, |old, block_items| {
        block_items.iter().copied().reduce(combine).map_or(old, finish)
    });
}

/// The minimum.
#[derive(Default)]
pub(super) struct Minimum<N>(Vec<N>);

impl<E: Element> Kernel<E> for Minimum<E::Wide> {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        combine_rows(rows, &mut self.0, length, out, |item| item, E::Wide::min_ignoring_nan, |item| item);
    }
}

/// The maximum.
#[derive(Default)]
pub(super) struct Maximum<N>(Vec<N>);

impl<E: Element> Kernel<E> for Maximum<E::Wide> {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        combine_rows(rows, &mut self.0, length, out, |item| item, E::Wide::max_ignoring_nan, |item| item);
    }
}

/// A function `F` of sums.
#[derive(Default)]
pub(super) struct Sums<A, F>(Vec<A>, PhantomData<F>);

/// The result of a sum.
pub(super) trait Finish<A, N>: Default {
    fn finish(sum: A, count: usize) -> N;
}

impl<E: Element, A: Total<E::Wide>, F: Finish<A, E::Wide>> Kernel<E> for Sums<A, F> {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        let count = rows.remaining() * length;
        let finish = |sum| F::finish(sum, count);
        combine_rows(rows, &mut self.0, length, out, A::of, A::with, finish);
    }
}

/// The mean of integers.
#[derive(Default)]
pub(super) struct IntegerMean;

impl<A: Total<N>, N> Finish<A, N> for IntegerMean {
    #[inline(always)]
    fn finish(sum: A, count: usize) -> N {
        sum.mean(count)
    }
}

/// Median and mode of zeros and ones: the majority, zero for a tie.
#[derive(Default)]
pub(super) struct Majority;

impl<A: Total<u8>> Finish<A, u8> for Majority {
    #[inline(always)]
    fn finish(sum: A, count: usize) -> u8 {
        u8::from(sum.is_most_of(count))
    }
}

/// The mean of floats, summed in C order.
#[derive(Default)]
pub(super) struct FloatMean;

impl<E: Element<Wide: Real>> Kernel<E> for FloatMean {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        let count = rows.remaining() * length;
        out.fill(E::Wide::ZERO);
        while let Some(row) = rows.next() {
            combine_blocks(row, length, out, |sum, block_items| {
                block_items.iter().fold(sum, |sum, &item| sum.plus(item))
            });
        }
        for sum in out {
            *sum = sum.over(count);
        }
    }
}

/// Blocks by position: the first item of each, then the second item of each, and so on.
#[derive(Default)]
struct Planes<N> {
    items: Vec<N>,
    pairs: Vec<(usize, usize)>,
    /// The block length of `pairs`.
    count: usize,
}

impl<N: Number> Planes<N> {
    /// Load the items of all rows. Return the number of items of each block.
    #[inline(always)]
    fn load<E: Element<Wide = N>>(&mut self, rows: &mut Rows<'_, E>, length: usize, blocks: usize) -> usize {
        let count = rows.remaining() * length;
        self.items.resize(count * blocks, N::default());
        let mut planes = self.items.chunks_exact_mut(blocks);
        while let Some(row) = rows.next() {
            for position in 0..length {
                let Some(plane) = planes.next() else { break };
                for (item, &value) in plane.iter_mut().zip(row[position..].iter().step_by(length)) {
                    *item = value;
                }
            }
        }
        count
    }

    /// Apply the compare-exchange pairs for blocks of `count` items.
    #[inline(always)]
    fn sort(&mut self, count: usize, blocks: usize, pairs: impl Fn() -> Vec<(usize, usize)>) {
        if self.count != count {
            self.pairs = pairs();
            self.count = count;
        }
        for &(low, high) in &self.pairs {
            let (previous, after) = self.items.split_at_mut(high * blocks);
            for (first, second) in previous[low * blocks..].iter_mut().zip(&mut after[..blocks]) {
                let (a, b) = (*first, *second);
                let swap = b.less(a);
                *first = if swap { b } else { a };
                *second = if swap { a } else { b };
            }
        }
    }

    /// Return the items of one block.
    fn block(&self, number: usize, blocks: usize) -> impl Iterator<Item = N> + '_ {
        self.items[number..].iter().step_by(blocks).copied()
    }
}

fn order<N: Number>(first: &N, second: &N) -> Ordering {
    if first.less(*second) {
        Ordering::Less
    } else if second.less(*first) {
        Ordering::Greater
    } else {
        Ordering::Equal
    }
}

/// The middle item.
#[derive(Default)]
pub(super) struct Median<N> {
    planes: Planes<N>,
    block: Vec<N>,
}

impl<E: Element> Kernel<E> for Median<E::Wide> {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        let blocks = out.len();
        let count = self.planes.load(rows, length, blocks);
        let middle = (count - 1) / 2;
        if count <= MAX_NETWORK_LENGTH {
            self.planes.sort(count, blocks, || pruned_network(middle, count, &sorting_network(count)));
            out.copy_from_slice(&self.planes.items[middle * blocks..(middle + 1) * blocks]);
            return;
        }
        for (number, result) in out.iter_mut().enumerate() {
            self.block.clear();
            self.block.extend(self.planes.block(number, blocks));
            *result = *self.block.select_nth_unstable_by(middle, order).1;
        }
    }
}

/// The most frequent item, the least one of several.
#[derive(Default)]
pub(super) struct Mode<N> {
    planes: Planes<N>,
    block: Vec<N>,
    runs: Vec<u8>,
    longest: Vec<u8>,
}

impl<E: Element> Kernel<E> for Mode<E::Wide> {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        let blocks = out.len();
        let count = self.planes.load(rows, length, blocks);
        if count <= MAX_NETWORK_LENGTH {
            self.planes.sort(count, blocks, || sorting_network(count));
            return self.most_frequent(blocks, out);
        }
        for (number, result) in out.iter_mut().enumerate() {
            self.block.clear();
            self.block.extend(self.planes.block(number, blocks));
            self.block.sort_unstable_by(order);
            *result = longest_run(&self.block).unwrap_or(*result);
        }
    }
}

impl<N: Number> Mode<N> {
    /// The first of the longest runs in sorted blocks; all blocks at once.
    #[inline(always)]
    fn most_frequent(&mut self, blocks: usize, out: &mut [N]) {
        self.runs.clear();
        self.runs.resize(blocks, 0);
        self.longest.clear();
        self.longest.resize(blocks, 0);
        out.copy_from_slice(&self.planes.items[..blocks]);
        let planes = self.planes.items.chunks_exact(blocks);
        for (plane, previous) in planes.clone().skip(1).zip(planes) {
            let items = plane.iter().zip(previous).zip(out.iter_mut());
            for (((&item, &old), best), (run, longest)) in
                items.zip(self.runs.iter_mut().zip(&mut self.longest))
            {
                *run = if item == old { *run + 1 } else { 0 };
                let longer = *run > *longest;
                *longest = if longer { *run } else { *longest };
                *best = if longer { item } else { *best };
            }
        }
    }
}

fn longest_run<N: Number>(sorted: &[N]) -> Option<N> {
    let runs = sorted.chunk_by(|first, second| first == second);
    let mut best: &[N] = &[];
    for run in runs {
        if run.len() > best.len() {
            best = run;
        }
    }
    best.first().copied()
}
