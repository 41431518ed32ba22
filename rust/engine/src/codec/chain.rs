//! Chains of bytes-to-bytes codecs.

use std::sync::Arc;

use crate::codec::BytesCodec;
use crate::error::{Error, Result};
use crate::scratch::{reserve, sized, Scratch};

/// The maximum compression ratio of a codec: Zstandard 2^15, bzip2 a little more.
const MAX_RATIO: usize = 1 << 16;

/// The codecs after the array-to-bytes codec, in encoding order.
#[derive(Clone, Debug, Default)]
pub struct BytesCodecs {
    codecs: Vec<Arc<dyn BytesCodec>>,
}

impl BytesCodecs {
    /// Return the chain of `codecs`, in encoding order.
    pub fn new(codecs: Vec<Arc<dyn BytesCodec>>) -> Self {
        BytesCodecs { codecs }
    }

    /// Return whether all codecs are the engine's own.
    pub fn is_native(&self) -> bool {
        self.codecs.iter().all(|codec| codec.is_native())
    }

    /// Return whether the chain has no codec.
    pub fn is_empty(&self) -> bool {
        self.codecs.is_empty()
    }

    /// Return the encoded size of `decoded` bytes, if it does not depend on the data.
    pub fn fixed_size(&self, decoded: usize) -> Option<usize> {
        self.codecs.iter().try_fold(decoded, |size, codec| codec.fixed_size(size))
    }

    /// Return the name of codec `position` in messages.
    fn label(&self, position: usize) -> String {
        format!("{}, codec {} of {}", self.codecs[position].name(), position + 1, self.codecs.len())
    }

    /// Return the maximum size of the input of codec `position` when `decoded` bytes are encoded.
    /// Other writers may need more bytes than the engine.
    fn limit(&self, position: usize, decoded: usize) -> usize {
        let ours = self.codecs[..position].iter().fold(decoded, |size, codec| codec.bound(size));
        with_slack(ours)
    }

    /// Return the maximum size of the engine's encoding of `decoded` bytes.
    pub fn bound(&self, decoded: usize) -> usize {
        self.codecs.iter().fold(decoded, |size, codec| codec.bound(size))
    }

    /// Return the maximum size of any accepted encoding of `decoded` bytes.
    pub fn max_encoded(&self, decoded: usize) -> usize {
        if self.codecs.is_empty() {
            decoded
        } else {
            self.limit(self.codecs.len(), decoded)
        }
    }

    /// Return the minimum size of an encoding of `decoded` bytes.
    pub fn min_encoded(&self, decoded: usize) -> usize {
        self.codecs.iter().fold(decoded, |size, codec| codec.min_encoded(size))
    }

    /// Return the maximum size of the decoded bytes of `encoded` bytes.
    pub fn max_decoded(&self, encoded: usize) -> usize {
        let shrinks = |codec: &&Arc<dyn BytesCodec>| codec.fixed_size(1).is_none();
        let factor = self.codecs.iter().filter(shrinks).fold(1usize, |all, _| all.saturating_mul(MAX_RATIO));
        encoded.saturating_mul(factor)
    }

    /// Return the decoded bytes as a slice of `encoded`, if no codec transforms them.
    pub fn view<'a>(&self, encoded: &'a [u8]) -> Option<Result<&'a [u8]>> {
        let mut bytes = encoded;
        for (position, codec) in self.codecs.iter().enumerate().rev() {
            match codec.decode_view(bytes)? {
                Ok(inner) => bytes = inner,
                Err(error) => return Some(Err(error.in_codec(self.label(position)))),
            }
        }
        Some(Ok(bytes))
    }

    /// Decode to exactly `out.len()` bytes.
    pub fn decode_into(&self, encoded: &[u8], out: &mut [u8], scratch: &mut Scratch) -> Result<()> {
        self.decode_outer(encoded, out.len(), scratch, |codec, bytes, scratch| match codec {
            Some(codec) => codec.decode_into(bytes, out, &mut scratch.context),
            None => {
                expect_size(bytes.len(), out.len())?;
                out.copy_from_slice(bytes);
                Ok(())
            }
        })
    }

    /// Return whether [`Self::decode_part`] may decode a part.
    pub fn decodes_parts(&self) -> bool {
        self.codecs.iter().any(|codec| codec.decodes_parts())
    }

    /// Decode only bytes `start..start + out.len()` of `total` if that is cheaper than decoding
    /// all; false otherwise.
    pub fn decode_part(
        &self,
        encoded: &[u8],
        total: usize,
        start: usize,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<bool> {
        self.decode_outer(encoded, total, scratch, |codec, bytes, scratch| match codec {
            Some(codec) => match codec.decode_part(bytes, total, start, out, &mut scratch.context) {
                Some(output) => output.map(|()| true),
                None => Ok(false),
            },
            None => Ok(false),
        })
    }

    /// Decode at most `limit` bytes.
    pub fn decode(
        &self,
        encoded: &[u8],
        out: &mut Vec<u8>,
        limit: usize,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.decode_outer(encoded, limit, scratch, |codec, bytes, scratch| match codec {
            Some(codec) => codec.decode(bytes, out, limit, &mut scratch.context),
            None if bytes.len() > limit => {
                Err(Error::size(format!("has {} bytes, at most {limit} are possible", bytes.len())))
            }
            None => {
                out.clear();
                reserve(out, bytes.len())?;
                out.extend_from_slice(bytes);
                Ok(())
            }
        })
    }

    /// Decode with every codec except the first that transforms bytes, and call `last` with that
    /// one.
    fn decode_outer<R>(
        &self,
        encoded: &[u8],
        decoded: usize,
        scratch: &mut Scratch,
        last: impl FnOnce(Option<&dyn BytesCodec>, &[u8], &mut Scratch) -> Result<R>,
    ) -> Result<R> {
        let mut current: Option<Vec<u8>> = None;
        let (mut start, mut end) = (0, encoded.len());
        let mut result = None;
        for (position, codec) in self.codecs.iter().enumerate().rev() {
            let bytes = &current.as_deref().unwrap_or(encoded)[start..end];
            if let Some(view) = codec.decode_view(bytes) {
                let view = view.map_err(|error| error.in_codec(self.label(position)))?;
                start += view.as_ptr() as usize - bytes.as_ptr() as usize;
                end = start + view.len();
            } else if position == 0 {
                result = Some((codec.as_ref(), position));
            } else {
                let mut next = scratch.take();
                codec
                    .decode(bytes, &mut next, self.limit(position, decoded), &mut scratch.context)
                    .map_err(|error| error.in_codec(self.label(position)))?;
                (start, end) = (0, next.len());
                if let Some(old) = current.replace(next) {
                    scratch.put_back(old);
                }
            }
        }
        let bytes = &current.as_deref().unwrap_or(encoded)[start..end];
        let output = match result {
            Some((codec, position)) => {
                last(Some(codec), bytes, scratch).map_err(|error| error.in_codec(self.label(position)))
            }
            None => last(None, bytes, scratch),
        };
        if let Some(old) = current {
            scratch.put_back(old);
        }
        output
    }

    /// Encode `input` and append the result to `out`.
    pub fn encode(&self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        let last = match self.codecs.len() {
            0 => {
                out.extend_from_slice(input);
                return Ok(());
            }
            1 => return self.encode_by(0, input, out, scratch),
            count => count - 1,
        };
        let mut bytes = scratch.take();
        bytes.clear();
        self.encode_by(0, input, &mut bytes, scratch)?;
        for position in 1..last {
            if !self.codecs[position].encode_in_place(&mut bytes) {
                let mut next = scratch.take();
                next.clear();
                self.encode_by(position, &bytes, &mut next, scratch)?;
                scratch.put_back(std::mem::replace(&mut bytes, next));
            }
        }
        if out.is_empty() && self.codecs[last].encode_in_place(&mut bytes) {
            std::mem::swap(out, &mut bytes);
        } else {
            self.encode_by(last, &bytes, out, scratch)?;
        }
        scratch.put_back(bytes);
        Ok(())
    }

    /// Encode with the codec at `position`.
    fn encode_by(
        &self,
        position: usize,
        input: &[u8],
        out: &mut Vec<u8>,
        scratch: &mut Scratch,
    ) -> Result<()> {
        let encoded = self.codecs[position].encode(input, out, &mut scratch.context);
        encoded.map_err(|error| error.in_codec(self.label(position)))
    }
}

/// Return the size that other writers may need where the engine needs `ours` bytes.
pub fn with_slack(ours: usize) -> usize {
    ours.saturating_mul(2).saturating_add(1 << 16)
}

/// Check the size of decoded bytes against the metadata.
pub fn expect_size(actual: usize, expected: usize) -> Result<()> {
    if actual == expected {
        return Ok(());
    }
    Err(Error::size(format!("decoded to {actual} bytes, the metadata says {expected}")))
}

/// Decode `encoded` completely; borrow the bytes if no codec transforms them.
pub fn decoded<'a>(
    codecs: &BytesCodecs,
    encoded: &'a [u8],
    size: usize,
    buffer: &'a mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<&'a [u8]> {
    if let Some(view) = codecs.view(encoded) {
        let view = view?;
        expect_size(view.len(), size)?;
        return Ok(view);
    }
    let out = sized(buffer, size)?;
    codecs.decode_into(encoded, out, scratch)?;
    Ok(out)
}
