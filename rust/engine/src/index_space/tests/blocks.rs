//! Tests of blocks against their definition: each position needs its whole block.

use super::*;
use crate::reduce::AxisBlocks;

/// A base, its block lengths, and a view of the blocks.
fn blocks_and_view() -> impl Strategy<Value = (Blocks, IndexTransform)> {
    dims().prop_flat_map(|base| {
        proptest::collection::vec(1i64..4, base.len()).prop_flat_map(move |factors| {
            let block = |(dim, factor): (&Dim, &i64)| {
                Dim::new(dim.lower.div_euclid(*factor), (dim.upper - 1).div_euclid(*factor) + 1)
            };
            let domain: Vec<Dim> = base.iter().zip(&factors).map(block).collect();
            let (base, factors) = (base.clone(), factors.clone());
            act(domain.clone()).prop_map(move |view| {
                let base = IndexTransform::identity(base.iter().cloned().collect());
                let (domain, factors) = (domain.iter().cloned().collect(), factors.iter().copied().collect());
                (Blocks { base, domain, factors }, view)
            })
        })
    })
}

/// The edges of the blocks along an axis.
fn edges(blocks: AxisBlocks) -> Vec<usize> {
    let whole = (0..blocks.wholes).map(|_| blocks.whole);
    let lengths = [blocks.first].into_iter().chain(whole).chain([blocks.last]).filter(|&length| length > 0);
    let mut edges = vec![0];
    edges.extend(lengths.scan(0, |end, length| {
        *end += length;
        Some(*end)
    }));
    edges
}

/// The base indices of a position along one axis, by definition.
fn block(blocks: &Blocks, k: usize, position: i64) -> Vec<i64> {
    let (base, factor) = (&blocks.base.dims[k], blocks.factors[k]);
    (base.lower..base.upper).filter(|at| at.div_euclid(factor) == position).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn sources_of_positions_are_their_blocks((blocks, view) in blocks_and_view()) {
        let sources = blocks.sources(&view).unwrap().unwrap();
        let rows = sources.counts().next().unwrap();
        let parts: Vec<_> = (0..rows).map(|row| blocks.part(&sources, row..row + 1).unwrap()).collect();
        let (whole, axis_blocks) = blocks.part(&sources, 0..rows).unwrap();
        for position in positions(&view.dims) {
            let (at, block_of) = (indices(&sources.order, &position), indices(&view, &position));
            for (k, &expected) in block_of.iter().enumerate() {
                let block_number = at[k] as usize;
                let (row, row_blocks) = &parts[at[0] as usize];
                let of_row = if k == 0 { 0 } else { block_number };
                for (part, division, block_number) in [(&whole, axis_blocks[k], block_number), (row, row_blocks[k], of_row)] {
                    let (edges, mut inside) = (edges(division), vec![0; part.dims.len()]);
                    prop_assert_eq!(*edges.last().unwrap() as i64, part.dims[k].size());
                    let items = (edges[block_number]..edges[block_number + 1]).map(|item| {
                        inside[k] = item as i64;
                        index(&part.maps[k], &part.dims, &inside)
                    });
                    prop_assert_eq!(items.collect::<Vec<_>>(), block(&blocks, k, expected));
                }
            }
        }
    }
}

#[test]
fn missing_blocks_have_no_sources() {
    let dims = |lower, upper| -> PerDimension<Dim> { [Dim::new(lower, upper)].into_iter().collect() };
    let factors = [2].into_iter().collect();
    let blocks = Blocks { base: IndexTransform::identity(dims(1, 6)), domain: dims(0, 3), factors };
    for (lower, upper) in [(-1, 2), (0, 4), (3, 4)] {
        assert!(blocks.sources(&IndexTransform::identity(dims(lower, upper))).is_err());
    }
    assert!(blocks.sources(&IndexTransform::identity(dims(1, 1))).unwrap().is_none());
    let straight = blocks.sources(&IndexTransform::identity(dims(1, 3))).unwrap().unwrap();
    assert!(straight.is_in_order());
    assert!(blocks.part(&straight, 1..1).is_err());
}
