//! Sorting networks: lists of pairs to compare and exchange, independent of the data.

/// Pairs of positions, the lower one first, that sort `count` items: Batcher's odd-even merge sort.
pub(super) fn sorting_network(count: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut half = 1;
    while half < count {
        let mut distance = half;
        while distance >= 1 {
            for begin in (distance % half..count.saturating_sub(distance)).step_by(2 * distance) {
                for low in begin..(begin + distance).min(count - distance) {
                    if low / (2 * half) == (low + distance) / (2 * half) {
                        pairs.push((low, low + distance));
                    }
                }
            }
            distance /= 2;
        }
        half *= 2;
    }
    pairs
}

/// Return the pairs of a network that affect the output at `position`.
pub(super) fn pruned_network(position: usize, count: usize, pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut needed = vec![false; count];
    if let Some(position) = needed.get_mut(position) {
        *position = true;
    }
    let mut pruned: Vec<_> = pairs
        .iter()
        .rev()
        .copied()
        .filter(|&(low, high)| {
            let either = needed[low] || needed[high];
            needed[low] |= either;
            needed[high] |= either;
            either
        })
        .collect();
    pruned.reverse();
    pruned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorting_network_sorts_all_inputs() {
        // A network that sorts zeros and ones sorts everything.
        for count in 0..13 {
            let pairs = sorting_network(count);
            for bits in 0..1u32 << count {
                let mut items: Vec<bool> = (0..count).map(|position| bits >> position & 1 == 1).collect();
                for &(low, high) in &pairs {
                    (items[low], items[high]) = (items[low] & items[high], items[low] | items[high]);
                }
                assert!(items.is_sorted());
            }
        }
    }

    #[test]
    fn pruned_network_has_fewer_pairs() {
        for count in 1..11 {
            let pairs = sorting_network(count);
            let middle = (count - 1) / 2;
            let fewer = pruned_network(middle, count, &pairs);
            assert!(fewer.len() <= pairs.len());
            for bits in 0..1u32 << count {
                let mut items: Vec<bool> = (0..count).map(|position| bits >> position & 1 == 1).collect();
                let ones = bits.count_ones() as usize;
                for &(low, high) in &fewer {
                    (items[low], items[high]) = (items[low] & items[high], items[low] | items[high]);
                }
                assert_eq!(items[middle], count - ones <= middle);
            }
        }
    }
}
