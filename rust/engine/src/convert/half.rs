//! Numbers of 16 bits, which are computed as `f32`.

/// The upper half of an `f32`.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct BFloat16(pub(crate) u16);

impl BFloat16 {
    /// Return the same number as an `f32`.
    #[inline(always)]
    pub(crate) fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }

    /// Return the nearest number, ties to even.
    #[inline(always)]
    pub(crate) fn narrow(wide: f32) -> Self {
        let bits = wide.to_bits();
        let even = bits.wrapping_add(0x7fff + (bits >> 16 & 1));
        BFloat16(if wide.is_nan() { bits >> 16 | 0x40 } else { even >> 16 } as u16)
    }
}

/// A number of 16 bits, 5 of them the exponent.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Float16(pub(crate) u16);

impl Float16 {
    /// Return the same number as an `f32`.
    #[inline(always)]
    pub(crate) fn widen(self) -> f32 {
        // The bits move to their position in an `f32`, and a multiplication corrects the exponent
        // bias, which also normalises subnormal numbers.
        let magnitude = f32::from_bits(u32::from(self.0 & 0x7fff) << 13) * f32::from_bits(239 << 23);
        let infinite = if magnitude >= 65536.0 { 0x7f80_0000 } else { 0 };
        f32::from_bits(magnitude.to_bits() | infinite | u32::from(self.0 & 0x8000) << 16)
    }

    /// Return the nearest number, ties to even.
    #[inline(always)]
    pub(crate) fn narrow(wide: f32) -> Self {
        let sign = wide.to_bits() >> 16 & 0x8000;
        let bits = wide.to_bits() & 0x7fff_ffff;
        // Ties round to even, also where the result is infinite.
        let normal = bits.wrapping_sub(112 << 23).wrapping_add(0xfff + (bits >> 13 & 1)) >> 13;
        // The addition rounds to multiples of 2⁻²⁴.
        let small = (f32::from_bits(bits) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
        let least_normal = 113 << 23;
        let magnitude = match bits {
            0x7f80_0001.. => 0x7e00 | (bits >> 13 & 0x1ff),
            0x4780_0000.. => 0x7c00,
            _ if bits < least_normal => small,
            _ => normal,
        };
        Float16((sign | magnitude) as u16)
    }
}
