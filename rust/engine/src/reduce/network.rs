//! Networks that sort: pairs to be put in order, one after the other, whatever there is.

/// Pairs of places, the lower one first, that sort `count` items: Batcher's odd-even merge sort.
pub(super) fn sorting(count: usize) -> Vec<(usize, usize)> {
    let mut pairs = Vec::new();
    let mut half = 1;
    while half < count {
        let mut apart = half;
        while apart >= 1 {
            for begin in (apart % half..count.saturating_sub(apart)).step_by(2 * apart) {
                for low in begin..(begin + apart).min(count - apart) {
                    if low / (2 * half) == (low + apart) / (2 * half) {
                        pairs.push((low, low + apart));
                    }
                }
            }
            apart /= 2;
        }
        half *= 2;
    }
    pairs
}

/// Those pairs of a network on which what comes out at one place depends.
pub(super) fn leading_to(place: usize, count: usize, pairs: &[(usize, usize)]) -> Vec<(usize, usize)> {
    let mut needed = vec![false; count];
    if let Some(place) = needed.get_mut(place) {
        *place = true;
    }
    let mut kept: Vec<_> = pairs
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
    kept.reverse();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_items_are_sorted() {
        // What sorts zeros and ones sorts everything.
        for count in 0..13 {
            let pairs = sorting(count);
            for bits in 0..1u32 << count {
                let mut items: Vec<bool> = (0..count).map(|place| bits >> place & 1 == 1).collect();
                for &(low, high) in &pairs {
                    (items[low], items[high]) = (items[low] & items[high], items[low] | items[high]);
                }
                assert!(items.is_sorted());
            }
        }
    }

    #[test]
    fn one_place_takes_fewer_pairs() {
        for count in 1..11 {
            let pairs = sorting(count);
            let middle = (count - 1) / 2;
            let fewer = leading_to(middle, count, &pairs);
            assert!(fewer.len() <= pairs.len());
            for bits in 0..1u32 << count {
                let mut items: Vec<bool> = (0..count).map(|place| bits >> place & 1 == 1).collect();
                let ones = bits.count_ones() as usize;
                for &(low, high) in &fewer {
                    (items[low], items[high]) = (items[low] & items[high], items[low] | items[high]);
                }
                assert_eq!(items[middle], count - ones <= middle);
            }
        }
    }
}
