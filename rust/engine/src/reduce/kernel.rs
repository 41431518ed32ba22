//! What is made of the rows of a piece.
//!
//! Where the order does not matter, rows are joined item by item, and then the items of
//! each block: nearly all of the work is that of vectors. Medians and modes sort
//! many blocks at once by a network: items of one place of all blocks are beside each other,
//! so that each pair of it is a loop over blocks.

use std::cmp::Ordering;
use std::marker::PhantomData;

use super::element::{Element, Number, Real, Total};
use super::network::{leading_to, sorting};
use super::Rows;

/// The longest block that is sorted by a network.
const NETWORK: usize = 200;

/// Reduces the blocks of pieces, one piece after the other.
pub(super) trait Kernel<E: Element>: Default {
    /// Give one number for each block of `length` items of a row.
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]);
}

/// `join` each cell of `length` items with what is in `out`.
#[inline(always)]
fn cells<T, R: Copy>(items: &[T], length: usize, out: &mut [R], join: impl Fn(R, &[T]) -> R + Copy) {
    match length {
        1 => of_length::<1, T, R>(items, out, join),
        2 => of_length::<2, T, R>(items, out, join),
        3 => of_length::<3, T, R>(items, out, join),
        4 => of_length::<4, T, R>(items, out, join),
        _ => {
            for (cell, result) in items.chunks_exact(length).zip(out) {
                *result = join(*result, cell);
            }
        }
    }
}

#[inline(always)]
fn of_length<const LENGTH: usize, T, R: Copy>(items: &[T], out: &mut [R], join: impl Fn(R, &[T]) -> R) {
    for (cell, result) in items.chunks_exact(LENGTH).zip(out) {
        *result = join(*result, cell);
    }
}

/// Join all rows item by item, and give what `finish` makes of each cell of that.
#[inline(always)]
fn joined<E: Element, A: Copy>(
    rows: &mut Rows<'_, E>,
    all: &mut Vec<A>,
    length: usize,
    out: &mut [E::Wide],
    begin: impl Fn(E::Wide) -> A + Copy,
    join: impl Fn(A, A) -> A + Copy,
    finish: impl Fn(A) -> E::Wide + Copy,
) {
    all.clear();
    while let Some(row) = rows.next() {
        if all.is_empty() {
            all.extend(row.iter().map(|&item| begin(item)));
        } else {
            for (one, &item) in all.iter_mut().zip(row) {
                *one = join(*one, begin(item));
            }
        }
    }
    cells(all, length, out, |old, cell| cell.iter().copied().reduce(join).map_or(old, finish));
}

/// The least item.
#[derive(Default)]
pub(super) struct Least<N>(Vec<N>);

impl<E: Element> Kernel<E> for Least<E::Wide> {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        joined(rows, &mut self.0, length, out, |item| item, E::Wide::lesser, |item| item);
    }
}

/// The greatest item.
#[derive(Default)]
pub(super) struct Greatest<N>(Vec<N>);

impl<E: Element> Kernel<E> for Greatest<E::Wide> {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        joined(rows, &mut self.0, length, out, |item| item, E::Wide::greater, |item| item);
    }
}

/// What `F` makes of sums.
#[derive(Default)]
pub(super) struct Sums<A, F>(Vec<A>, PhantomData<F>);

/// What is made of a sum.
pub(super) trait Finish<A, N>: Default {
    fn finish(sum: A, count: usize) -> N;
}

impl<E: Element, A: Total<E::Wide>, F: Finish<A, E::Wide>> Kernel<E> for Sums<A, F> {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        let count = rows.left() * length;
        let finish = |sum| F::finish(sum, count);
        joined(rows, &mut self.0, length, out, A::of, A::with, finish);
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

/// Median and mode of zeros and ones: what is most of them, of two equal halves the zeros.
#[derive(Default)]
pub(super) struct Majority;

impl<A: Total<u8>> Finish<A, u8> for Majority {
    #[inline(always)]
    fn finish(sum: A, count: usize) -> u8 {
        u8::from(sum.is_most_of(count))
    }
}

/// The mean of floats, which are summed in the order of C.
#[derive(Default)]
pub(super) struct FloatMean;

impl<E: Element<Wide: Real>> Kernel<E> for FloatMean {
    #[inline(always)]
    fn reduce(&mut self, rows: &mut Rows<'_, E>, length: usize, out: &mut [E::Wide]) {
        let count = rows.left() * length;
        out.fill(E::Wide::NOTHING);
        while let Some(row) = rows.next() {
            cells(row, length, out, |sum, cell| cell.iter().fold(sum, |sum, &item| sum.plus(item)));
        }
        for sum in out {
            *sum = sum.over(count);
        }
    }
}

/// Blocks by places: the first item of each, then the second item of each, and so on.
#[derive(Default)]
struct Planes<N> {
    items: Vec<N>,
    pairs: Vec<(usize, usize)>,
    /// For blocks of how many items `pairs` are.
    count: usize,
}

impl<N: Number> Planes<N> {
    /// Take the items of all rows; return how many each block has.
    #[inline(always)]
    fn load<E: Element<Wide = N>>(&mut self, rows: &mut Rows<'_, E>, length: usize, blocks: usize) -> usize {
        let count = rows.left() * length;
        self.items.resize(count * blocks, N::default());
        let mut planes = self.items.chunks_exact_mut(blocks);
        while let Some(row) = rows.next() {
            for place in 0..length {
                let Some(plane) = planes.next() else { break };
                for (item, &value) in plane.iter_mut().zip(row[place..].iter().step_by(length)) {
                    *item = value;
                }
            }
        }
        count
    }

    /// Do what `pairs` say, which are those for blocks of `count` items.
    #[inline(always)]
    fn sort(&mut self, count: usize, blocks: usize, pairs: impl Fn() -> Vec<(usize, usize)>) {
        if self.count != count {
            self.pairs = pairs();
            self.count = count;
        }
        for &(low, high) in &self.pairs {
            let (before, after) = self.items.split_at_mut(high * blocks);
            for (one, other) in before[low * blocks..].iter_mut().zip(&mut after[..blocks]) {
                let (a, b) = (*one, *other);
                let swap = b.less(a);
                *one = if swap { b } else { a };
                *other = if swap { a } else { b };
            }
        }
    }

    /// The items of one block.
    fn block(&self, number: usize, blocks: usize) -> impl Iterator<Item = N> + '_ {
        self.items[number..].iter().step_by(blocks).copied()
    }
}

fn order<N: Number>(one: &N, other: &N) -> Ordering {
    if one.less(*other) {
        Ordering::Less
    } else if other.less(*one) {
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
        if count <= NETWORK {
            self.planes.sort(count, blocks, || leading_to(middle, count, &sorting(count)));
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
        if count <= NETWORK {
            self.planes.sort(count, blocks, || sorting(count));
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
    /// Of blocks that are sorted, the first of the longest runs; all blocks at once.
    #[inline(always)]
    fn most_frequent(&mut self, blocks: usize, out: &mut [N]) {
        self.runs.clear();
        self.runs.resize(blocks, 0);
        self.longest.clear();
        self.longest.resize(blocks, 0);
        out.copy_from_slice(&self.planes.items[..blocks]);
        let planes = self.planes.items.chunks_exact(blocks);
        for (plane, before) in planes.clone().skip(1).zip(planes) {
            let items = plane.iter().zip(before).zip(out.iter_mut());
            for (((&item, &old), best), (run, longest)) in
                items.zip(self.runs.iter_mut().zip(&mut self.longest))
            {
                *run = if item.equal(old) { *run + 1 } else { 0 };
                let longer = *run > *longest;
                *longest = if longer { *run } else { *longest };
                *best = if longer { item } else { *best };
            }
        }
    }
}

fn longest_run<N: Number>(sorted: &[N]) -> Option<N> {
    let runs = sorted.chunk_by(|one, other| one.equal(*other));
    let mut best: &[N] = &[];
    for run in runs {
        if run.len() > best.len() {
            best = run;
        }
    }
    best.first().copied()
}
