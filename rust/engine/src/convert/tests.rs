#![allow(clippy::unwrap_used)]

use super::*;

/// Items, converted between arrays whose items are `step` items apart.
fn converted<S: Copy + Default, T: Copy + Default>(
    from: Number<'_>,
    to: Number<'_>,
    items: &[S],
    step: usize,
) -> Vec<T> {
    let mut source = vec![S::default(); items.len() * step];
    source.iter_mut().step_by(step).zip(items).for_each(|(slot, &item)| *slot = item);
    let mut target = vec![T::default(); items.len() * step];
    let bytes = |size: usize| (step * size) as isize;
    let (src, dst) = (bytes(size_of::<S>()), bytes(size_of::<T>()));
    let axes = [Axis::Strided { count: items.len(), src, dst }];
    // SAFETY: both arrays have the length of `axes`.
    unsafe { convert(&axes, (source.as_ptr().cast(), from, 0), (target.as_mut_ptr().cast(), to)) }.unwrap();
    target.into_iter().step_by(step).collect()
}

fn named<S: Copy + Default, T: Copy + Default>(from: &str, to: &str, items: &[S]) -> Vec<T> {
    converted(Number::Named(from), Number::Named(to), items, 1)
}

#[test]
fn contiguous_and_strided_items_convert_equally() {
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    let wide: Vec<u32> = named("f2", "f4", &halves);
    for (&half, &bits) in halves.iter().zip(&wide) {
        assert_eq!(bits, Float16(half).widen().to_bits());
    }
    let strided: Vec<u32> = converted(Number::Named("f2"), Number::Named("f4"), &halves, 3);
    assert_eq!(wide, strided);
    // Every upper half, and ties round to even; NaN stays NaN.
    let numbers: Vec<u32> = (0..=u16::MAX)
        .flat_map(|n| [0, 0x0fff, 0x1000, 0x1001].map(|low| u32::from(n) << 16 | low))
        .collect();
    for name in ["f2", "bfloat16"] {
        let rounded: Vec<u16> = named("f4", name, &numbers);
        let strided: Vec<u16> = converted(Number::Named("f4"), Number::Named(name), &numbers, 2);
        assert_eq!(rounded, strided);
        for (&bits, &half) in numbers.iter().zip(&rounded) {
            let wide = f32::from_bits(bits);
            assert_eq!(half, if name == "f2" { Float16::narrow(wide).0 } else { BFloat16::narrow(wide).0 });
        }
    }
}

#[test]
fn sub_byte_integers_keep_their_lower_bits() {
    assert_eq!(named::<u8, i16>("int4", "i2", &[0x07, 0x08, 0xff, 0x1f]), [7, -8, -1, -1]);
    assert_eq!(named::<u8, i64>("uint4", "i8", &[0x0f, 0xf8]), [15, 8]);
    assert_eq!(named::<i32, u8>("i4", "int4", &[7, -8, -1, 1000]), [7, 8, 15, 8]);
    assert_eq!(named::<f64, u8>("f8", "int2", &[-1.9, 1.9, f64::NAN, -0.5]), [3, 1, 0, 0]);
    assert_eq!(named::<u8, u8>("int4", "b1", &[0, 8]), [0, 1]);
    assert_eq!(named::<u8, f32>("int2", "f4", &[1, 2, 3]), [1.0, -2.0, -1.0]);
    assert_eq!(named::<u8, u16>("int4", "f2", &[1, 15]), [0x3c00, 0xbc00]);
    assert_eq!(named::<u16, u8>("f2", "uint2", &[0x3c00, 0x4200, 0x4500]), [1, 3, 1]);
}

#[test]
fn floats_convert_to_integers_like_the_processor() {
    let floats = [1.9f32, -1.9, 300.0, 5e9, -5e9, 1e19, f32::NAN, f32::INFINITY, -1.0];
    let halves: Vec<u16> = named("f4", "bfloat16", &floats);
    let as_i32: Vec<i32> = named("bfloat16", "i4", &halves);
    assert_eq!(as_i32[..3], [1, -1, 300]);
    assert_eq!(as_i32[3..8], [i32::MIN; 5]);
    assert_eq!(named::<u16, u8>("bfloat16", "u1", &halves)[..3], [1, 255, 44]);
    let as_i64: Vec<i64> = named("bfloat16", "i8", &halves);
    assert_eq!(as_i64[3..5], [4_999_610_368, -4_999_610_368]);
    assert_eq!(as_i64[5..8], [i64::MIN; 3]);
    let as_u64: Vec<u64> = named("bfloat16", "u8", &halves);
    assert_eq!((as_u64[5], as_u64[8]), (10_016_005_571_271_983_104, u64::MAX));
    assert_eq!(named::<u16, u8>("bfloat16", "b1", &halves), [1; 9]);
}

#[test]
fn complex_conversion_uses_the_real_part() {
    let numbers = [[1.5f32, 2.0], [-3.0, f32::NAN], [300.0, -1.0]];
    assert_eq!(named::<[f32; 2], f64>("c8", "f8", &numbers), [1.5, -3.0, 300.0]);
    assert_eq!(named::<[f32; 2], u8>("c8", "u1", &numbers), [1, 253, 44]);
    assert_eq!(named::<[f32; 2], u16>("c8", "f2", &numbers)[0], Float16::narrow(1.5).0);
    assert_eq!(named::<i16, [f64; 2]>("i2", "c16", &[7, -8]), [[7.0, 0.0], [-8.0, 0.0]]);
    let wide: Vec<[f64; 2]> = converted(Number::Named("c8"), Number::Named("c16"), &numbers, 3);
    assert_eq!(wide[0], [1.5, 2.0]);
    assert!(wide[1][0] == -3.0 && wide[1][1].is_nan());
    let tables = whole_numbers();
    let tiny = 2f64.powi(-40);
    let rounded = [[2.5, 9.0], [2.5 + tiny, 9.0], [3.5 - tiny, 9.0]];
    assert_eq!(
        converted::<[f64; 2], u8>(Number::Named("c16"), Number::Byte(&tables), &rounded, 1),
        [2, 3, 3]
    );
}

/// A byte is an integer, `nearest` the integer nearest to an `f32`, ties to even.
fn whole_numbers() -> Box<Tables> {
    let mut tables = Box::new(Tables { numbers: [0; 1 << 8], nearest: [0; 1 << 16] });
    for (byte, bits) in tables.numbers.iter_mut().enumerate() {
        *bits = (byte as f32).to_bits();
    }
    for (upper, byte) in tables.nearest.iter_mut().enumerate() {
        *byte = f32::from_bits((upper as u32) << 16).round_ties_even() as u8;
    }
    tables
}

#[test]
fn table_floats_round_once() {
    let tables = whole_numbers();
    let whole = Number::Byte(&tables);
    let bytes: Vec<u8> = (0..=255).collect();
    let wide: Vec<f64> = converted(whole, Number::Named("f8"), &bytes, 1);
    assert!(wide.iter().zip(&bytes).all(|(&wide, &byte)| wide == f64::from(byte)));
    let tiny = 2f64.powi(-40);
    let rounded = [2.5, 2.5 + tiny, 2.5 - tiny, 3.5, 3.5 - tiny, 1e300, f64::NAN, tiny];
    assert_eq!(converted::<f64, u8>(Number::Named("f8"), whole, &rounded, 1), [2, 3, 2, 4, 3, 255, 0, 0]);
    assert_eq!(converted::<f32, u8>(Number::Named("f4"), whole, &[0.5, 1.5, 1.25], 2), [0, 2, 1]);
    assert_eq!(converted::<u8, u8>(whole, whole, &bytes, 1), bytes);
}

#[test]
fn reversed_axes_convert_and_unknown_types_are_rejected() {
    let source: Vec<u16> = (0..12).map(|n| Float16::narrow(n as f32).0).collect();
    let mut target = [0f32; 12];
    // A transposed view of 3 by 4, one axis reversed.
    let axes = [Axis::Strided { count: 4, src: 2, dst: -12 }, Axis::Strided { count: 3, src: 8, dst: 4 }];
    let last = target[9..].as_mut_ptr();
    let (from, to) = ((source.as_ptr().cast(), Number::Named("f2"), 0), (last.cast(), Number::Named("f4")));
    // SAFETY: the steps stay in both arrays.
    unsafe { convert(&axes, from, to) }.unwrap();
    assert_eq!(target, [3.0, 7.0, 11.0, 2.0, 6.0, 10.0, 1.0, 5.0, 9.0, 0.0, 4.0, 8.0]);
    for (one, other) in [("f2", "c4"), ("x", "int4"), ("f16", "f4")] {
        let (from, to) =
            ((source.as_ptr().cast(), Number::Named(one), 0), (last.cast(), Number::Named(other)));
        // SAFETY: the axis has no step.
        assert!(unsafe { convert(&[Axis::Strided { count: 0, src: 2, dst: 2 }], from, to) }.is_err());
    }
}

#[test]
fn large_arrays_convert_in_parallel() {
    let items: Vec<f32> = (0..3 * TASK).map(|n| (n % 2048) as f32).collect();
    let rounded: Vec<u16> = named("f4", "f2", &items);
    let back: Vec<f32> = named("f2", "f4", &rounded);
    assert_eq!(back, items);
}

#[test]
fn unaligned_items_convert_equally() {
    // More items than are loaded at a time.
    let numbers: Vec<f32> = (0..2 * BLOCK as u32 + 7).map(|n| n as f32 / 3.0 - 100.0).collect();
    let rounded: Vec<u16> = named("f4", "bfloat16", &numbers);
    let back: Vec<f32> = named("bfloat16", "f4", &rounded);
    let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
    for shift in [1, 2, 4] {
        let mut source = vec![0u8; bytes.len() + shift];
        source[shift..].copy_from_slice(&bytes);
        let mut halves = vec![0u8; 2 * numbers.len() + shift];
        let mut wide = vec![0u8; bytes.len() + shift];
        let axes = |src, dst| [Axis::Strided { count: numbers.len(), src, dst }];
        let (float, half) = (Number::Named("f4"), Number::Named("bfloat16"));
        // SAFETY: all arrays have the length of `axes`.
        unsafe {
            let (from, to) = (source.as_ptr().add(shift), halves.as_mut_ptr().add(shift));
            convert(&axes(4, 2), (from, float, 0), (to, half)).unwrap();
            convert(&axes(2, 4), (to, half, 0), (wide.as_mut_ptr().add(shift), float)).unwrap();
        }
        assert!(halves[shift..].iter().copied().eq(rounded.iter().flat_map(|half| half.to_ne_bytes())));
        assert!(wide[shift..].iter().copied().eq(back.iter().flat_map(|number| number.to_ne_bytes())));
    }
}

#[test]
fn swapped_items_convert_like_native_ones() {
    fn check<T: Copy + Default + PartialEq + std::fmt::Debug>(
        from: &str,
        to: &str,
        items: &[u8],
        unit: usize,
    ) {
        let (from, to) = (Number::Named(from), Number::Named(to));
        let bytes = from.bytes().unwrap();
        let count = items.len() / bytes;
        let swapped: Vec<u8> = items.chunks(unit).flat_map(|number| number.iter().rev().copied()).collect();
        for step in [1, -1isize] {
            let first = if step < 0 { count - 1 } else { 0 };
            let axes = [Axis::Strided { count, src: step * bytes as isize, dst: size_of::<T>() as isize }];
            let results = [(items, 0), (&swapped, unit)].map(|(source, swap)| {
                let mut target = vec![T::default(); count];
                let source = source[first * bytes..].as_ptr();
                // SAFETY: the steps stay in both arrays.
                unsafe { convert(&axes, (source, from, swap), (target.as_mut_ptr().cast(), to)) }.unwrap();
                target
            });
            assert_eq!(results[0], results[1]);
        }
    }
    // More items than are converted at a time.
    let bytes: Vec<u8> = (0..16 * (BLOCK + 9)).map(|n| (n % 251) as u8).collect();
    check::<i64>("i4", "i8", &bytes, 4);
    check::<u32>("u4", "u4", &bytes, 4);
    check::<u8>("i2", "b1", &bytes, 2);
    check::<i16>("f2", "i2", &bytes, 2);
    check::<[u64; 2]>("c8", "c16", &bytes[..8], 4);
    check::<[u32; 2]>("f8", "c8", &bytes[..8], 8);
    check::<f32>("c16", "f4", &bytes[..16], 8);
}
