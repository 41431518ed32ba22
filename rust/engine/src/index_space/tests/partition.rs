//! Tests of partitions: each position is in one part, and maps to the right element.

use std::collections::HashMap;

use super::*;

/// A view, and boxes of its base, some of them without positions.
fn cut() -> impl Strategy<Value = (IndexTransform, Vec<Vec<(i64, i64)>>)> {
    dims().prop_flat_map(|base| {
        let bounds = proptest::collection::vec((-4i64..6, 0i64..6), base.len());
        let boxes = proptest::collection::vec(bounds, 0..6).prop_map(|boxes| {
            let interval = |&(lower, size): &(i64, i64)| (lower, lower + size);
            boxes.iter().map(|bounds| bounds.iter().map(interval).collect()).collect()
        });
        (act(base), boxes)
    })
}

/// Each position of a part: the index in the whole view, and in the base.
fn part_positions(
    view: &IndexTransform,
    offset_of: &IndexTransform,
    whole: &IndexTransform,
) -> Vec<(Vec<i64>, Vec<i64>)> {
    let origin = || whole.dims.iter().map(|dim| dim.lower);
    let at = |position: &Vec<i64>| {
        indices(offset_of, position).iter().zip(origin()).map(|(at, low)| at + low).collect()
    };
    positions(&view.dims).iter().map(|position| (at(position), indices(view, position))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn last_layer_of_a_position_is_visible((view, boxes) in cut()) {
        let of_box = |bounds: &Vec<(i64, i64)>| {
            let dims = bounds.iter().map(|&(lower, upper)| Dim::new(lower, upper));
            IndexTransform::identity(dims.collect())
        };
        let layers = LayerStack::new(boxes.iter().map(of_box).collect()).unwrap();
        let mut expected = HashMap::new();
        for position in positions(&view.dims) {
            let index = indices(&view, &position);
            let within = |bounds: &&Vec<(i64, i64)>| {
                bounds.iter().zip(&index).all(|(&(lower, upper), at)| (lower..upper).contains(at))
            };
            let layer = boxes.iter().collect::<Vec<_>>().iter().rposition(within);
            expected.insert(position, (layer, index));
        }
        match layers.visible_layers(&view) {
            Err(_) => prop_assert!(expected.values().any(|(layer, _)| layer.is_none())),
            Ok(seen) => {
                let mut actual = HashMap::new();
                for one in seen {
                    for (position, index) in part_positions(&one.view, &one.target, &view) {
                        let before = actual.insert(position, (Some(one.layer), index));
                        prop_assert!(before.is_none());
                    }
                }
                prop_assert_eq!(actual, expected);
            }
        }
    }

    #[test]
    fn partition_assigns_each_position_to_its_cell(
        (view, shape, origin) in dims().prop_flat_map(|base| {
            let count = base.len();
            (act(base), proptest::collection::vec(1i64..4, count), proptest::collection::vec(-3i64..3, count))
        })
    ) {
        let dims: PerDimension<Dim> = shape.iter().map(|_| Dim::new(-4, 9)).collect();
        let grid = Grid { dims, origin: origin.into(), shape: shape.into() };
        let (low, size) = (grid.origin.clone(), grid.shape.clone());
        let cells = Partitioner::new(&view).unwrap().unwrap().by_cells(grid).unwrap();
        let mut actual = HashMap::new();
        let mut last = Vec::new();
        for number in 0..cells.count() {
            let dims: Vec<Dim> = cells.domain(number).collect();
            let part = cells.part(number).unwrap();
            prop_assert!(!last.contains(&dims));
            for (position, mut index) in part_positions(&part.view, &part.target, &view) {
                index.iter_mut().zip(&dims).for_each(|(at, dim)| *at += dim.lower);
                for (k, at) in index.iter().enumerate() {
                    let begin = low[k] + (at - low[k]).div_euclid(size[k]) * size[k];
                    prop_assert_eq!(&dims[k], &Dim::new(begin.max(-4), (begin + size[k]).min(9)));
                }
                prop_assert!(actual.insert(position, index).is_none());
            }
            last.push(dims);
        }
        let expected = positions(&view.dims).into_iter().map(|position| {
            let index = indices(&view, &position);
            (position, index)
        });
        prop_assert_eq!(actual, expected.collect::<HashMap<_, _>>());
    }

    #[test]
    fn copy_steps_match_positions((view, sizes) in dims().prop_flat_map(|base| {
        let sizes: Vec<usize> = base.iter().map(|dim| dim.upper.max(1) as usize).collect();
        let base = base.iter().map(|dim| Dim::new(0, dim.upper.max(1))).collect();
        (act(base), Just(sizes))
    })) {
        let strides = |shape: &[usize]| -> Vec<isize> {
            (0..shape.len()).map(|k| shape[k + 1..].iter().product::<usize>() as isize).collect()
        };
        let array: Vec<u8> = (0..sizes.iter().product::<usize>()).map(|at| (at as u8).wrapping_add(1)).collect();
        let shape: Vec<usize> = view.dims.iter().map(|dim| dim.size() as usize).collect();
        let mut items = vec![0u8; shape.iter().product()];
        let item = crate::copy::Item { bytes: 1, swap: 0 };
        let offset_of = |position: &Vec<i64>| -> usize {
            indices(&view, position).iter().zip(strides(&sizes)).map(|(at, step)| *at as usize * step as usize).sum()
        };
        let (along, beside) = (strides(&sizes), strides(&shape));
        let (viewed, ordered) = (CopySide::of_view(&view, &sizes, &along).unwrap(), CopySide::items(&beside));
        let steps = CopySteps::between(&shape, &viewed, &ordered);
        // SAFETY: the steps are those of both arrays.
        unsafe { copy_all(&[(steps, array.as_ptr(), items.as_mut_ptr())], item) }.unwrap();
        let expected: Vec<u8> = positions(&view.dims).iter().map(|position| array[offset_of(position)]).collect();
        prop_assert_eq!(&items, &expected);
        let mut written = vec![0u8; array.len()];
        let mut should = written.clone();
        for (at, position) in positions(&view.dims).iter().enumerate() {
            should[offset_of(position)] = at as u8;
        }
        let numbered: Vec<u8> = (0..items.len()).map(|at| at as u8).collect();
        let steps = CopySteps::between(&shape, &ordered, &viewed);
        // SAFETY: the steps are those of both arrays.
        unsafe { copy_all(&[(steps, numbered.as_ptr(), written.as_mut_ptr())], item) }.unwrap();
        prop_assert_eq!(written, should);
    }
}

#[test]
fn distant_cells_of_points_are_distinguished() {
    // More pairs of bounds than a table has room for.
    let count = 3000;
    let list = |by: i64| {
        OutputMap::from_index_array(
            IndexArray::new((0..count).map(|at| at * by % 997).collect(), &[count as usize]).unwrap(),
            0,
            1,
            WHOLE,
        )
    };
    let view = IndexTransform {
        dims: [Dim::new(0, count)].into_iter().collect(),
        maps: [list(7), list(31)].into_iter().collect(),
    };
    let square = |at: i64| {
        IndexTransform::identity([Dim::new(at * 10, 1000), Dim::new(at * 7, 1000)].into_iter().collect())
    };
    let layers = LayerStack::new((0..100).map(square).collect()).unwrap();
    let seen = layers.visible_layers(&view).unwrap();
    assert!(seen.len() > 50 && seen.len() <= 100);
    for one in seen {
        for index in positions(&one.view.dims).iter().map(|at| indices(&one.view, at)) {
            let last = (0..100).rev().find(|at| index[0] >= at * 10 && index[1] >= at * 7);
            assert_eq!(last, Some(one.layer as i64));
        }
    }
}

#[test]
fn cells_of_maximum_length_are_partitioned() {
    let (low, high) = (INFINITE - 10, INFINITE - 2);
    for origin in [-INFINITE, 0, INFINITE] {
        let view = IndexTransform::identity([Dim::new(low, high)].into_iter().collect());
        let grid = Grid {
            dims: view.dims.clone(),
            origin: [origin].into_iter().collect(),
            shape: [i64::MAX].into_iter().collect(),
        };
        let cells = Partitioner::new(&view).unwrap().unwrap().by_cells(grid).unwrap();
        let dims: Vec<Dim> = cells.domain(0).collect();
        let part = cells.part(0).unwrap();
        assert_eq!((&dims[0], &part.view.dims[0]), (&view.dims[0], &view.dims[0]));
        assert_eq!((part.view.maps[0].offset, cells.count()), (-low, 1));
    }
}

#[test]
fn domain_without_layers_is_empty() {
    let layers =
        LayerStack::new(vec![IndexTransform::identity([Dim::new(5, 10)].into_iter().collect())]).unwrap();
    for (bound, expected) in [((-INFINITE, 3), (3, 3)), ((20, END), (20, 20)), ((1, END), (1, 10))] {
        let bound = Dim { implicit: (true, true), ..Dim::new(bound.0, bound.1) };
        let actual = layers.domain(None, Some(&[bound])).unwrap();
        assert_eq!((actual[0].lower, actual[0].upper), expected);
    }
}
