//! Stable sorts by a number, in linear time and with memory that does not depend on the numbers.

/// Buckets of one pass; their ends fit into the first-level cache.
const MAX_DIGIT_BITS: u32 = 11;

/// Shorter lists are sorted by comparisons: one pass counts as many buckets.
const MIN_RADIX_LEN: usize = 1 << MAX_DIGIT_BITS;

/// The positions `0..count`, each with a number to sort by.
pub(super) struct Numbered {
    /// `number << position_bits | position`.
    words: Vec<u64>,
    position_bits: u32,
    number_bits: u32,
}

impl Numbered {
    /// Number all positions 0, for numbers below `limit`; None if a number and a position together
    /// exceed 64 bits.
    pub(super) fn new(count: usize, limit: u64) -> Option<Numbered> {
        let bits = |limit: u64| u64::BITS - limit.saturating_sub(1).leading_zeros();
        let (position_bits, number_bits) = (bits(count as u64), bits(limit));
        (position_bits + number_bits <= u64::BITS).then(|| Numbered {
            words: (0..count as u64).collect(),
            position_bits,
            number_bits,
        })
    }

    /// Add to the number of each position, in order.
    pub(super) fn add(&mut self, numbers: impl Iterator<Item = u64>) {
        let bits = self.position_bits;
        self.words.iter_mut().zip(numbers).for_each(|(word, number)| *word += number << bits);
    }

    /// Sort by number. Positions with the same number stay in order. Return whether the order has
    /// changed.
    pub(super) fn sort(&mut self) -> bool {
        if self.words.is_sorted() {
            return false;
        }
        if self.words.len() < MIN_RADIX_LEN {
            self.words.sort_unstable();
            return true;
        }
        let passes = self.number_bits.div_ceil(MAX_DIGIT_BITS);
        let digit_bits = self.number_bits.div_ceil(passes);
        let mut sorted = vec![0; self.words.len()];
        for pass in 0..passes {
            sort_by_digit(&self.words, &mut sorted, self.position_bits + pass * digit_bits, digit_bits);
            std::mem::swap(&mut self.words, &mut sorted);
        }
        true
    }

    /// Return the positions with their numbers: (number, position).
    pub(super) fn iter(&self) -> impl ExactSizeIterator<Item = (u64, usize)> + '_ {
        let bits = self.position_bits;
        let mask = (1 << bits) - 1;
        self.words.iter().map(move |&word| (word >> bits, (word & mask) as usize))
    }
}

/// Sort `words` stably into `sorted` by the digit of `bits` bits above the lowest `shift`.
fn sort_by_digit(words: &[u64], sorted: &mut [u64], shift: u32, bits: u32) {
    let mask = (1 << bits) - 1;
    let digit = |word: u64| (word >> shift & mask) as usize;
    let mut starts = vec![0usize; 1 << bits];
    words.iter().for_each(|&word| starts[digit(word)] += 1);
    let mut end = 0;
    for start in &mut starts {
        end += std::mem::replace(start, end);
    }
    for &word in words {
        let start = &mut starts[digit(word)];
        sorted[*start] = word;
        *start += 1;
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Pseudo-random numbers below `limit`.
    fn numbers(count: usize, limit: u64) -> Vec<u64> {
        let mut state = 1u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            u64::try_from((u128::from(state) * u128::from(limit)) >> 64).unwrap()
        };
        (0..count).map(|_| next()).collect()
    }

    #[test]
    fn sort_equals_a_stable_sort_of_the_standard_library() {
        for count in [0, 1, 2, 100, MIN_RADIX_LEN - 1, MIN_RADIX_LEN, 3 * MIN_RADIX_LEN + 5] {
            for limit in [1, 2, 100, 1 << 11, 5000, 1 << 33, 1 << 50] {
                let numbers = numbers(count, limit);
                let mut expected: Vec<(u64, usize)> = numbers.iter().copied().zip(0..).collect();
                let is_sorted = expected.is_sorted();
                expected.sort_by_key(|(number, _)| *number);
                let mut numbered = Numbered::new(count, limit).unwrap();
                numbered.add(numbers.into_iter());
                assert_eq!(numbered.sort(), !is_sorted);
                assert!(numbered.iter().eq(expected), "{count} numbers below {limit}");
            }
        }
    }

    #[test]
    fn numbers_and_positions_share_64_bits() {
        assert!(Numbered::new(1 << 4, 1 << 60).is_some());
        assert!(Numbered::new((1 << 4) + 1, 1 << 60).is_none());
        let mut single = Numbered::new(1, u64::MAX).unwrap();
        single.add(std::iter::once(u64::MAX - 1));
        assert!(single.iter().eq([(u64::MAX - 1, 0)]));
    }
}
