//! Shared requests of reads that start together.

use std::collections::HashMap;
use std::sync::Arc;

use tessarr_engine::read;
use tessarr_engine::selection::Selection;
use tessarr_engine::store::{with_coalescing, CoalescingStore, ReadHint, Store};

use super::pending_transfer::{group_by_array, Part};

/// The size up to which reads of parts of one chunk become one read of the whole chunk, in local
/// and in remote stores.
const ALL_BYTES: [usize; 2] = [1 << 20, 16 << 20];

/// The store of an array below caches and transactions, and the coalescing store over it.
pub(super) struct Place {
    pub below: Arc<dyn Store>,
    pub shared: Arc<CoalescingStore>,
}

/// Send reads through the coalescing store if other reads need chunks of the same array with other
/// selections, as keys, or through another cache.
pub(super) fn share(mut reads: Vec<(&mut Part, Place)>) {
    let mut groups: HashMap<_, Vec<usize>> = HashMap::new();
    for (number, (part, place)) in reads.iter().enumerate() {
        let group = (Arc::as_ptr(&place.shared), &*part.base.get().prefix);
        groups.entry(group).or_default().push(number);
    }
    let groups: Vec<Vec<usize>> = groups.into_values().collect();
    for group in groups {
        let (first, Place { shared, .. }) = &reads[group[0]];
        let parts: Vec<&Part> = group.iter().map(|&number| &*reads[number].0).collect();
        let apart = group_by_array(&parts);
        if apart.len() < 2 && !shared.expects_below(&first.base.get().prefix) {
            continue;
        }
        expect(shared, &parts, &apart);
        let mut found: HashMap<_, Option<Arc<dyn Store>>> = HashMap::new();
        for number in group {
            let (part, place) = &mut reads[number];
            let over = found
                .entry(Arc::as_ptr(&part.store).cast::<()>())
                .or_insert_with(|| with_coalescing(&part.store, &place.below, &place.shared));
            part.store = over.clone().unwrap_or_else(|| part.store.clone());
        }
    }
}

/// Announce the chunks that the groups of `parts` and other readers need.
fn expect(shared: &CoalescingStore, parts: &[&Part], apart: &[Vec<usize>]) {
    let most = ALL_BYTES[usize::from(shared.concurrency() > 0)];
    let mut wanted: HashMap<String, Vec<ReadHint>> = HashMap::new();
    for alike in apart {
        let Part { base, state, store, .. } = parts[alike[0]];
        let selections: Vec<&Selection> = alike.iter().map(|&index| &parts[index].selection).collect();
        let operation = base.get().operation(state, &**store, None);
        read::group_hints(operation, &selections, &mut |key, want, bytes| {
            if apart.len() > 1 || shared.expects(key) {
                let want = if bytes <= most { ReadHint::Whole } else { want };
                wanted.entry(key.to_owned()).or_default().push(want);
            }
        });
    }
    for (key, wants) in wanted {
        if wants.len() > 1 || shared.expects(&key) {
            wants.into_iter().for_each(|want| shared.expect_hint(&key, want));
        }
    }
}
