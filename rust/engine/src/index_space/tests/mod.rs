//! Tests of composition against its definition, position by position.

#![allow(clippy::unwrap_used, clippy::panic)]

use proptest::prelude::*;

use super::*;

mod blocks;
mod partition;

/// All positions of a domain, in C order.
fn positions(dims: &[Dim]) -> Vec<Vec<i64>> {
    dims.iter().fold(vec![vec![]], |before, dim| {
        let longer =
            |start: &Vec<i64>| (dim.lower..dim.upper).map(|at| [&start[..], &[at]].concat()).collect();
        before.iter().flat_map(|start| -> Vec<Vec<i64>> { longer(start) }).collect()
    })
}

/// The index to which a map takes a position.
fn index(map: &OutputMap, dims: &[Dim], position: &[i64]) -> i64 {
    match &map.source {
        MapSource::Constant => map.offset,
        MapSource::InputDimension(k) => map.offset + map.stride * position[*k],
        MapSource::IndexArray(listed) => {
            let (mut at, items) = (0, listed.indices.to_vec());
            for (k, len) in listed.indices.shape().into_iter().enumerate() {
                at = at * len + if len == 1 { 0 } else { (position[k] - dims[k].lower) as usize };
            }
            map.offset + map.stride * items[at]
        }
    }
}

fn indices(view: &IndexTransform, position: &[i64]) -> Vec<i64> {
    view.maps.iter().map(|map| index(map, &view.dims, position)).collect()
}

fn dims() -> impl Strategy<Value = Vec<Dim>> {
    let dim = (-3i64..4, 1i64..5).prop_map(|(lower, size)| Dim::new(lower, lower + size));
    proptest::collection::vec(dim, 1..4)
}

/// A transform that fits the dimensions, with all kinds of maps.
fn act(dims: Vec<Dim>) -> impl Strategy<Value = IndexTransform> {
    let inner = proptest::collection::vec((-2i64..3, 1usize..4), 1..4);
    let choices = proptest::collection::vec((0u8..4, any::<u32>(), any::<bool>()), dims.len());
    (inner, choices).prop_map(move |(inner, choices)| {
        let new: PerDimension<Dim> =
            inner.iter().map(|&(lower, size)| Dim::new(lower, lower + size as i64)).collect();
        let map = |(dim, &(kind, seed, back)): (&Dim, &(u8, u32, bool))| {
            let within = |seed: i64| dim.lower + seed.rem_euclid(dim.size());
            let k = seed as usize % new.len();
            match kind {
                0 => OutputMap::constant(within(i64::from(seed))),
                1 if new[k].size() <= dim.size() && back => {
                    OutputMap::from_dimension(k, dim.upper - 1 + new[k].lower, -1)
                }
                1 if new[k].size() <= dim.size() => OutputMap::from_dimension(k, dim.lower - new[k].lower, 1),
                _ => {
                    let axes = if kind == 2 { 1 << k } else { seed };
                    let shape: Vec<usize> = (0..new.len())
                        .map(|k| if axes >> k & 1 == 1 { new[k].size() as usize } else { 1 })
                        .collect();
                    let items = (0..shape.iter().product::<usize>())
                        .map(|at| within(i64::from(seed.rotate_left(at as u32 % 32))));
                    let items = IndexArray::new(items.collect(), &shape);
                    OutputMap::from_index_array(items.unwrap(), 0, 1, (dim.lower, dim.upper))
                }
            }
        };
        IndexTransform { maps: dims.iter().zip(&choices).map(map).collect(), dims: new }
    })
}

fn chain() -> impl Strategy<Value = (IndexTransform, IndexTransform, IndexTransform)> {
    dims().prop_flat_map(|base| {
        act(base).prop_flat_map(|first| {
            act(first.dims.to_vec()).prop_flat_map(move |second| {
                let first = first.clone();
                act(second.dims.to_vec()).prop_map(move |third| (first.clone(), second.clone(), third))
            })
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn composition_maps_positions_like_both_transforms((first, second, third) in chain()) {
        let composed = first.compose(second.clone()).unwrap().compose(third.clone()).unwrap();
        let at_once = first.compose(second.compose(third.clone()).unwrap()).unwrap();
        for position in positions(&composed.dims) {
            let expected = indices(&first, &indices(&second, &indices(&third, &position)));
            prop_assert_eq!(&indices(&composed, &position), &expected);
            prop_assert_eq!(&indices(&at_once, &position), &expected);
        }
    }

    #[test]
    fn reversed_transposition_restores_transform((first, second, _) in chain()) {
        let view = first.compose(second).unwrap();
        let order: Vec<usize> = (0..view.dims.len()).rev().collect();
        let turned = view.transposed(&order).unwrap();
        for position in positions(&turned.dims) {
            let back: Vec<i64> = position.iter().rev().copied().collect();
            prop_assert_eq!(indices(&turned, &position), indices(&view, &back));
        }
        prop_assert_eq!(turned.transposed(&order).unwrap(), view);
    }

    #[test]
    fn slices_match_counted_positions(
        lower in -9i64..9, size in 0i64..9, start in proptest::option::of(-12i64..12),
        stop in proptest::option::of(-12i64..12), step in (-4i64..5).prop_filter("a step", |step| *step != 0),
    ) {
        let dim = Dim::new(lower, lower + size);
        let key = Slice { start, stop, step: Some(step) };
        let first = start.unwrap_or(if step > 0 { lower } else { lower + size - 1 });
        let end = stop.unwrap_or(if step > 0 { lower + size } else { lower - 1 });
        let expected: Vec<i64> = std::iter::successors(Some(first), |at| Some(at + step))
            .take_while(|at| if step > 0 { *at < end } else { *at > end })
            .collect();
        let whole = if step > 0 { first..end } else { end + 1..first + 1 };
        let fits = whole.is_empty() || dim.lower <= whole.start && whole.end <= dim.upper;
        match dim.sliced(key) {
            Ok((new, line)) => {
                prop_assert!(fits && (end - first) * step >= 0);
                let got: Vec<i64> =
                    (new.lower..new.upper).map(|at| line.offset + line.stride * at).collect();
                prop_assert_eq!(got, expected);
            }
            Err(_) => prop_assert!(!fits || (end - first) * step < 0),
        }
    }

    #[test]
    fn strided_domain_contains_exact_multiples(lower in -20i64..20, size in 1i64..20, by in (-5i64..6).prop_filter("a stride", |by| *by != 0)) {
        let dim = Dim::new(lower, lower + size);
        let new = dim.strided(by);
        let expected: Vec<i64> = (-50..50).filter(|at| (dim.lower..dim.upper).contains(&(at * by))).collect();
        prop_assert_eq!((new.lower..new.upper).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn overflow_is_rejected() {
    let dims: PerDimension<Dim> = [Dim::new(-INFINITE, END)].into_iter().collect();
    let distant = IndexTransform {
        dims: dims.clone(),
        maps: [OutputMap::from_dimension(0, 0, i64::MAX)].into_iter().collect(),
    };
    let twice = IndexTransform { dims, maps: [OutputMap::from_dimension(0, 0, 2)].into_iter().collect() };
    assert!(distant.compose(twice).is_err());
}

#[test]
fn indices_outside_an_index_array_are_rejected() {
    let dims: PerDimension<Dim> = [Dim::new(5, 8)].into_iter().collect();
    let listed = IndexArray::new(vec![1, 2, 3], &[3]).unwrap();
    let view = IndexTransform {
        dims: dims.clone(),
        maps: [OutputMap::from_index_array(listed, 0, 1, WHOLE)].into_iter().collect(),
    };
    for at in [4, 8, i64::MAX, i64::MIN] {
        let act = IndexTransform {
            dims: PerDimension::new(),
            maps: [OutputMap::constant(at)].into_iter().collect(),
        };
        assert!(view.compose(act).is_err());
        let index_array = IndexArray::new(vec![5, at], &[2]).unwrap();
        let two: PerDimension<Dim> = [Dim::new(0, 2)].into_iter().collect();
        let act = IndexTransform {
            dims: two,
            maps: [OutputMap::from_index_array(index_array, 0, 1, WHOLE)].into_iter().collect(),
        };
        assert!(view.compose(act).is_err());
    }
}

#[test]
fn slices_of_an_index_array_share_memory() {
    let dims: PerDimension<Dim> = [Dim::new(0, 3), Dim::new(0, 3)].into_iter().collect();
    let listed = IndexArray::new((0..9).collect(), &[3, 3]).unwrap();
    let view = IndexTransform {
        dims,
        maps: [OutputMap::from_index_array(listed, 0, 1, WHOLE)].into_iter().collect(),
    };
    let diagonal = view
        .apply_operations(
            Some(&[DimSelector::Number(0), DimSelector::Number(1)]),
            vec![DimOperation::Diagonal],
        )
        .unwrap();
    let [OutputMap { source: MapSource::IndexArray(listed), .. }] = &diagonal.maps[..] else {
        panic!("no index array");
    };
    assert_eq!(listed.indices.to_vec(), [0, 4, 8]);
    assert_eq!(listed.indices.shape()[..], [3]);
}

#[test]
fn merged_domains_have_the_bounds_of_both() {
    let labelled = |dim: Dim, label: &str| Dim { label: Some(label.into()), ..dim };
    let open = Dim { implicit: (true, true), ..Dim::new(-INFINITE, END) };
    let known = Dim { implicit: (false, true), ..Dim::new(0, 5) };
    assert_eq!(open.merge(&known).ok(), Some(known.clone()));
    assert_eq!(labelled(known.clone(), "x").merge(&open).ok(), Some(labelled(known.clone(), "x")));
    assert_eq!(known.merge(&Dim::new(0, 5)).ok(), Some(Dim::new(0, 5)));
    let beyond = Dim { implicit: (false, true), ..Dim::new(7, END) };
    let below = Dim { implicit: (true, false), ..Dim::new(-INFINITE, 5) };
    for wrong in [Dim::new(0, 6), Dim::new(1, 5), Dim::new(-INFINITE, END)] {
        assert!(known.merge(&wrong).is_err());
    }
    assert!(beyond.merge(&below).is_err());
    assert!(labelled(known.clone(), "x").merge(&labelled(known, "y")).is_err());
}

#[test]
fn resize_of_view_sets_bounds_of_base() {
    let viewed = IndexTransform::identity(
        [10, 20].map(|size| Dim { implicit: (false, true), ..Dim::new(0, size) }).into_iter().collect(),
    );
    let moved = |lower, upper, within| DimResize { lower, upper, within };
    let actual = viewed.base_resizes(None, Some(&[Some(12), None]), false).unwrap();
    let unchanged = Some((0, END));
    assert_eq!(actual[..], [moved(None, Some(12), unchanged), moved(None, None, unchanged)]);
    assert_eq!(
        viewed.base_resizes(None, Some(&[Some(12), None]), true).unwrap()[0],
        moved(None, Some(12), None)
    );
    let backwards = IndexTransform {
        maps: [OutputMap::from_dimension(0, 5, -1), OutputMap::constant(3)].into_iter().collect(),
        ..viewed.clone()
    };
    // Its upper bound is the lower bound of the base: 5 - (8 - 1).
    let actual = backwards.base_resizes(None, Some(&[Some(8), None]), false).unwrap();
    assert_eq!(actual[..], [moved(Some(-2), None, Some((-INFINITE, 6))), moved(None, None, Some((3, 4)))]);
    let refused = [
        viewed.base_resizes(Some(&[Some(1), None]), None, true), // explicit
        viewed.base_resizes(None, Some(&[Some(-1), None]), true), // before the lower bound
        viewed.base_resizes(None, Some(&[Some(END), None]), true), // no index
        viewed.base_resizes(None, Some(&[None]), true),          // another rank
        IndexTransform { maps: [OutputMap::from_dimension(0, 0, 2)].into_iter().collect(), ..viewed.clone() }
            .base_resizes(None, Some(&[Some(1), None]), true),
        IndexTransform {
            maps: [OutputMap::from_dimension(0, 0, 1), OutputMap::from_dimension(0, 0, 1)]
                .into_iter()
                .collect(),
            ..viewed.clone()
        }
        .base_resizes(None, Some(&[Some(1), None]), false),
        IndexTransform { maps: [OutputMap::from_dimension(0, i64::MAX, 1)].into_iter().collect(), ..viewed }
            .base_resizes(None, Some(&[Some(1), None]), true),
    ];
    for actual in refused {
        assert_eq!(actual.unwrap_err().kind, Kind::Argument);
    }
}
