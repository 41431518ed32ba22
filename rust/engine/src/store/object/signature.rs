//! Signatures of S3 requests, version 4 (docs.aws.amazon.com: "Signature Version 4").

use std::fmt::Write;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use hyper::header::{self, HeaderName, HeaderValue};
use hyper::Request;
use ring::{digest, hmac};

use crate::store::SwapCell;

const DATE: HeaderName = HeaderName::from_static("x-amz-date");
const CONTENT: HeaderName = HeaderName::from_static("x-amz-content-sha256");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");

const METHOD: &str = "AWS4-HMAC-SHA256";

/// Signs requests with an access key.
pub struct Signer {
    name: String,
    secret: String,
    token: Option<HeaderValue>,
    region: String,
    /// The day, and the signing key of that day.
    signing_key: SwapCell<(String, hmac::Key)>,
}

impl Signer {
    /// Create a signer. None: the token is not a valid header.
    pub fn new(name: &str, secret: &str, token: Option<&str>, region: &str) -> Option<Self> {
        let token = token.map(HeaderValue::from_str).transpose().ok()?;
        let signing_key = SwapCell::default();
        Some(Signer {
            name: name.to_owned(),
            secret: secret.to_owned(),
            token,
            region: region.to_owned(),
            signing_key,
        })
    }

    /// Sign a request whose path is encoded as S3 requires. None: a value is not a valid header.
    pub(super) fn sign<B>(&self, request: &mut Request<B>, body: &[u8], now: SystemTime) -> Option<()> {
        let time = format_time(now);
        let day = time.get(..8)?;
        let uri = request.uri();
        let host = match uri.port_u16().filter(|&port| Some(port) != default_port(uri.scheme_str())) {
            Some(port) => format!("{}:{port}", uri.host()?),
            None => uri.host()?.to_owned(),
        };
        let query = uri.query().unwrap_or_default();
        let mut canonical_request = format!("{}\n{}\n{query}\n", request.method(), uri.path());
        let content = hash(body);
        let headers = request.headers_mut();
        headers.insert(header::HOST, HeaderValue::from_str(&host).ok()?);
        headers.insert(DATE, HeaderValue::from_str(&time).ok()?);
        headers.insert(CONTENT, HeaderValue::from_str(&content).ok()?);
        if let Some(token) = &self.token {
            headers.insert(TOKEN, token.clone());
        }
        let is_signed = |name: &HeaderName| *name == header::HOST || name.as_str().starts_with("x-amz-");
        let mut signed_headers: Vec<HeaderName> =
            headers.keys().filter(|name| is_signed(name)).cloned().collect();
        signed_headers.sort_unstable_by(|left, right| left.as_str().cmp(right.as_str()));
        let signed = signed_headers.iter().map(HeaderName::as_str).collect::<Vec<_>>().join(";");
        for name in &signed_headers {
            let values = headers.get_all(name).iter().map(|value| value.to_str().map(str::trim));
            let values = values.collect::<Result<Vec<_>, _>>().ok()?.join(",");
            // Writing to a string cannot fail.
            let _ = writeln!(canonical_request, "{name}:{values}");
        }
        let _ = write!(canonical_request, "\n{signed}\n{content}");
        let scope = format!("{day}/{}/s3/aws4_request", self.region);
        let canonical_request = format!("{METHOD}\n{time}\n{scope}\n{}", hash(canonical_request.as_bytes()));
        let signature = hex(hmac::sign(&self.key(day), canonical_request.as_bytes()).as_ref());
        let name = &self.name;
        let text =
            format!("{METHOD} Credential={name}/{scope}, SignedHeaders={signed}, Signature={signature}");
        let mut value = HeaderValue::from_str(&text).ok()?;
        value.set_sensitive(true);
        headers.insert(header::AUTHORIZATION, value);
        Some(())
    }

    /// Return the signing key of a day.
    fn key(&self, day: &str) -> hmac::Key {
        if let Some(cached) = self.signing_key.get().filter(|cached| cached.0 == day) {
            return cached.1.clone();
        }
        let new_key = |secret: &[u8]| hmac::Key::new(hmac::HMAC_SHA256, secret);
        let first = new_key(format!("AWS4{}", self.secret).as_bytes());
        let parts = [day, &self.region, "s3", "aws4_request"];
        let key = parts.iter().fold(first, |key, part| new_key(hmac::sign(&key, part.as_bytes()).as_ref()));
        self.signing_key.set(Some(Arc::new((day.to_owned(), key.clone()))));
        key
    }
}

/// Return the default port of a scheme.
fn default_port(scheme: Option<&str>) -> Option<u16> {
    match scheme {
        Some("http") => Some(80),
        Some("https") => Some(443),
        _ => None,
    }
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Return a time in the form `20260131T235959Z`.
fn format_time(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (days, second) = (seconds / 86400, seconds % 86400);
    let (year, month, day) = date(days);
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

/// Return the date `days` days after 1970-01-01, computed in years that begin in March, so that
/// leap days come last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468; // since 0000-03-01
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let first = (153 * month + 2) / 5;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + u64::from(month <= 2), month, day - first + 1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The examples of "Signature Calculations for the Authorization Header" in the S3
    /// documentation.
    #[test]
    fn signatures_match_amazon_examples() {
        let secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";
        let signer = Signer::new("AKIAIOSFODNN7EXAMPLE", secret, None, "us-east-1").unwrap();
        let now = UNIX_EPOCH + Duration::from_secs(1_369_353_600);
        let url = "https://examplebucket.s3.amazonaws.com/?lifecycle=";
        let mut request = Request::get(url).body(()).unwrap();
        signer.sign(&mut request, b"", now).unwrap();
        assert_eq!(
            request.headers()[header::AUTHORIZATION],
            "AWS4-HMAC-SHA256 Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/aws4_request, \
             SignedHeaders=host;x-amz-content-sha256;x-amz-date, \
             Signature=fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"
        );
    }

    #[test]
    fn signature_dates_match_the_calendar() {
        for (seconds, text) in [
            (0, "19700101T000000Z"),
            (951_782_399, "20000228T235959Z"),
            (951_782_400, "20000229T000000Z"),
            (951_868_800, "20000301T000000Z"),
            (1_735_689_599, "20241231T235959Z"),
            (4_107_542_400, "21000301T000000Z"),
        ] {
            assert_eq!(format_time(UNIX_EPOCH + Duration::from_secs(seconds)), text);
        }
    }
}
