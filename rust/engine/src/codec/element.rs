//! The type of the items that a codec computes with, in NumPy's notation: `<i4`, `>u2`, `|i1`.

use super::Config;
use crate::error::Result;

/// The kind of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Number {
    Signed,
    Unsigned,
    Float,
}

/// The type of an item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Element {
    pub(super) number: Number,
    pub(super) bytes: usize,
    pub(super) big_endian: bool,
}

impl Element {
    /// Return the parameter `name` of `config`.
    pub(super) fn of(config: &Config, name: &str) -> Result<Self> {
        let text = config.text(name)?;
        let parsed = || {
            let [order, kind, digit] = *text.as_bytes() else { return None };
            let number = match kind {
                b'i' => Number::Signed,
                b'u' => Number::Unsigned,
                b'f' => Number::Float,
                _ => return None,
            };
            let bytes = match (number, digit) {
                (Number::Signed | Number::Unsigned, b'1') => 1,
                (_, b'2') => 2,
                (_, b'4') => 4,
                (_, b'8') => 8,
                _ => return None,
            };
            matches!(order, b'<' | b'>' | b'|').then_some(Element {
                number,
                bytes,
                big_endian: order == b'>',
            })
        };
        parsed().ok_or_else(|| config.wrong(format!("{name} '{text}' is not a number type")))
    }

    /// Return the item in `bytes`, sign-extended; the bits of a floating-point number.
    pub(super) fn load(self, bytes: &[u8]) -> i64 {
        let mut word = [0; 8];
        let word_bytes = &mut word[..self.bytes];
        word_bytes.copy_from_slice(bytes);
        if self.big_endian {
            word_bytes.reverse();
        }
        self.wrap(i64::from_le_bytes(word))
    }

    /// `value` wrapped to an integer of this type.
    pub(super) fn wrap(self, value: i64) -> i64 {
        let unused = 64 - 8 * self.bytes as u32;
        match self.number {
            Number::Signed => value << unused >> unused,
            _ => ((value as u64) << unused >> unused) as i64,
        }
    }

    /// Write the lowest bits of `value` to `bytes`.
    pub(super) fn store(self, value: i64, bytes: &mut [u8]) {
        bytes.copy_from_slice(&value.to_le_bytes()[..self.bytes]);
        if self.big_endian {
            bytes.reverse();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn element(text: &str) -> Result<Element> {
        Element::of(&Config::new("delta").with("dtype", text), "dtype")
    }

    #[test]
    fn items_are_loaded_and_stored() {
        assert_eq!(element(">i2").unwrap().load(&[0xff, 0xfe]), -2);
        assert_eq!(element("<u2").unwrap().load(&[0xfe, 0xff]), 0xfffe);
        let mut out = [0; 4];
        element(">u4").unwrap().store(-2, &mut out);
        assert_eq!(out, [0xff, 0xff, 0xff, 0xfe]);
    }

    #[test]
    fn unknown_types_are_rejected() {
        for text in ["", "i4", "<i3", "|f1", "<c8", "=i4", "<i16"] {
            assert!(element(text).unwrap_err().message.contains("is not a number type"));
        }
    }
}
