//! Bytes-to-bytes codecs, one after another.

use std::sync::Arc;

use crate::codec::BytesCodec;
use crate::error::{Error, Result};
use crate::scratch::{reserve, sized, Scratch};

/// How much smaller a codec makes bytes at most: Zstandard 2^15 times, bzip2 a little more.
const MOST_RATIO: usize = 1 << 16;

/// The codecs after the array-to-bytes codec, in encoding order.
#[derive(Clone, Debug, Default)]
pub struct Pipeline {
    codecs: Vec<Arc<dyn BytesCodec>>,
}

impl Pipeline {
    /// The codecs in encoding order.
    pub fn new(codecs: Vec<Arc<dyn BytesCodec>>) -> Self {
        Pipeline { codecs }
    }

    /// Whether all codecs are the engine's own.
    pub fn is_native(&self) -> bool {
        self.codecs.iter().all(|codec| codec.is_native())
    }

    /// Nothing to do.
    pub fn is_empty(&self) -> bool {
        self.codecs.is_empty()
    }

    /// The encoded size of `decoded` bytes where it is always the same.
    pub fn fixed_size(&self, decoded: usize) -> Option<usize> {
        self.codecs.iter().try_fold(decoded, |size, codec| codec.fixed_size(size))
    }

    /// How codec `position` is called in messages.
    fn label(&self, position: usize) -> String {
        format!("{}, codec {} of {}", self.codecs[position].name(), position + 1, self.codecs.len())
    }

    /// The most bytes that stand before codec `position` when `decoded` bytes
    /// are encoded. Other writers may be less tight than we are.
    fn limit(&self, position: usize, decoded: usize) -> usize {
        let ours = self.codecs[..position].iter().fold(decoded, |size, codec| codec.bound(size));
        with_slack(ours)
    }

    /// The most bytes that we make of `decoded` bytes.
    pub fn bound(&self, decoded: usize) -> usize {
        self.codecs.iter().fold(decoded, |size, codec| codec.bound(size))
    }

    /// The most bytes that an encoding of `decoded` bytes may have.
    pub fn most_encoded(&self, decoded: usize) -> usize {
        if self.codecs.is_empty() {
            decoded
        } else {
            self.limit(self.codecs.len(), decoded)
        }
    }

    /// The fewest bytes that an encoding of `decoded` bytes can have.
    pub fn least(&self, decoded: usize) -> usize {
        self.codecs.iter().fold(decoded, |size, codec| codec.least(size))
    }

    /// The most bytes that `encoded` bytes may stand for, where the size is not known.
    pub fn most_decoded(&self, encoded: usize) -> usize {
        let shrinks = |codec: &&Arc<dyn BytesCodec>| codec.fixed_size(1).is_none();
        let factor = self.codecs.iter().filter(shrinks).fold(1usize, |all, _| all.saturating_mul(MOST_RATIO));
        encoded.saturating_mul(factor)
    }

    /// The decoded bytes where they stand inside `encoded`, if no codec moves them.
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
        self.peel(encoded, out.len(), scratch, |codec, bytes, scratch| match codec {
            Some(codec) => codec.decode_into(bytes, out, &mut scratch.context),
            None => {
                expect_size(bytes.len(), out.len())?;
                out.copy_from_slice(bytes);
                Ok(())
            }
        })
    }

    /// Decode only bytes `start..start + out.len()` of `total`, where the codec
    /// can do so more cheaply than decoding all; false where it cannot.
    pub fn decode_part(
        &self,
        encoded: &[u8],
        total: usize,
        start: usize,
        out: &mut [u8],
        scratch: &mut Scratch,
    ) -> Result<bool> {
        self.peel(encoded, total, scratch, |codec, bytes, scratch| match codec {
            Some(codec) => match codec.decode_part(bytes, total, start, out, &mut scratch.context) {
                Some(done) => done.map(|()| true),
                None => Ok(false),
            },
            None => Ok(false),
        })
    }

    /// Decode to a size that is not known, at most `limit` bytes.
    pub fn decode(
        &self,
        encoded: &[u8],
        out: &mut Vec<u8>,
        limit: usize,
        scratch: &mut Scratch,
    ) -> Result<()> {
        self.peel(encoded, limit, scratch, |codec, bytes, scratch| match codec {
            Some(codec) => codec.decode(bytes, out, limit, &mut scratch.context),
            None if bytes.len() > limit => {
                Err(Error::size(format!("holds {} bytes, at most {limit} are possible", bytes.len())))
            }
            None => {
                out.clear();
                reserve(out, bytes.len())?;
                out.extend_from_slice(bytes);
                Ok(())
            }
        })
    }

    /// Undo every codec but the innermost that moves bytes, and call `last` with it.
    fn peel<R>(
        &self,
        encoded: &[u8],
        decoded: usize,
        scratch: &mut Scratch,
        last: impl FnOnce(Option<&dyn BytesCodec>, &[u8], &mut Scratch) -> Result<R>,
    ) -> Result<R> {
        let mut held: Option<Vec<u8>> = None;
        let (mut start, mut end) = (0, encoded.len());
        let mut result = None;
        for (position, codec) in self.codecs.iter().enumerate().rev() {
            let bytes = &held.as_deref().unwrap_or(encoded)[start..end];
            if let Some(view) = codec.decode_view(bytes) {
                let view = view.map_err(|error| error.in_codec(self.label(position)))?;
                start += view.as_ptr() as usize - bytes.as_ptr() as usize;
                end = start + view.len();
            } else if position == 0 {
                result = Some((last_codec(codec), position));
            } else {
                let mut next = scratch.take();
                codec
                    .decode(bytes, &mut next, self.limit(position, decoded), &mut scratch.context)
                    .map_err(|error| error.in_codec(self.label(position)))?;
                (start, end) = (0, next.len());
                if let Some(old) = held.replace(next) {
                    scratch.put_back(old);
                }
            }
        }
        let bytes = &held.as_deref().unwrap_or(encoded)[start..end];
        let done = match result {
            Some((codec, position)) => {
                last(Some(codec), bytes, scratch).map_err(|error| error.in_codec(self.label(position)))
            }
            None => last(None, bytes, scratch),
        };
        if let Some(old) = held {
            scratch.put_back(old);
        }
        done
    }

    /// Encode `input` and append the result to `out`.
    pub fn encode(&self, input: &[u8], out: &mut Vec<u8>, scratch: &mut Scratch) -> Result<()> {
        let Some((last, before)) = self.codecs.split_last() else {
            out.extend_from_slice(input);
            return Ok(());
        };
        let Some((first, middle)) = before.split_first() else {
            return last
                .encode(input, out, &mut scratch.context)
                .map_err(|error| error.in_codec(self.label(0)));
        };
        let mut bytes = scratch.take();
        bytes.clear();
        first
            .encode(input, &mut bytes, &mut scratch.context)
            .map_err(|error| error.in_codec(self.label(0)))?;
        for (position, codec) in middle.iter().enumerate() {
            if !codec.encode_in_place(&mut bytes) {
                let mut next = scratch.take();
                next.clear();
                codec
                    .encode(&bytes, &mut next, &mut scratch.context)
                    .map_err(|error| error.in_codec(self.label(position + 1)))?;
                scratch.put_back(std::mem::replace(&mut bytes, next));
            }
        }
        let position = self.codecs.len() - 1;
        if out.is_empty() && last.encode_in_place(&mut bytes) {
            std::mem::swap(out, &mut bytes);
        } else {
            last.encode(&bytes, out, &mut scratch.context)
                .map_err(|error| error.in_codec(self.label(position)))?;
        }
        scratch.put_back(bytes);
        Ok(())
    }
}

/// What other writers may make where we make `ours` bytes.
pub fn with_slack(ours: usize) -> usize {
    ours.saturating_mul(2).saturating_add(1 << 16)
}

fn last_codec(codec: &Arc<dyn BytesCodec>) -> &dyn BytesCodec {
    codec.as_ref()
}

/// DecodedCache bytes have to be as many as the metadata says.
pub fn expect_size(found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(Error::size(format!("decoded to {found} bytes, the metadata says {expected}")))
}

/// Decode `encoded` completely, borrowing where no codec moves the bytes.
pub fn decoded<'a>(
    pipeline: &Pipeline,
    encoded: &'a [u8],
    size: usize,
    buffer: &'a mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<&'a [u8]> {
    if let Some(view) = pipeline.view(encoded) {
        let view = view?;
        expect_size(view.len(), size)?;
        return Ok(view);
    }
    let out = sized(buffer, size)?;
    pipeline.decode_into(encoded, out, scratch)?;
    Ok(out)
}
