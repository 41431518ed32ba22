//! Pages of links that web servers show for folders.

use percent_encoding::percent_decode_str;

use crate::store::Listing;

/// Return the keys and the prefixes below `prefix` that a page links to; `path` is the encoded path of
/// the page.
pub(super) fn parse(page: &str, path: &str, prefix: &str) -> Listing {
    let mut listing = Listing::default();
    for link in links(page) {
        let link = link.split(['?', '#']).next().unwrap_or_default().replace("&amp;", "&");
        let name = if link.starts_with('/') { link.strip_prefix(path) } else { Some(&*link) };
        let name = name.map(|name| name.strip_prefix("./").unwrap_or(name)).unwrap_or_default();
        let (name, is_folder) = match name.strip_suffix('/') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let Ok(name) = percent_decode_str(name).decode_utf8() else { continue };
        if name.is_empty() || name == ".." || name == "." || name.contains(['/', ':']) {
            continue; // a link to another place
        }
        match is_folder {
            true => listing.prefixes.push(format!("{prefix}{name}/")),
            false => listing.keys.push(format!("{prefix}{name}")),
        }
    }
    listing
}

/// Return the targets of the links of a page.
fn links(page: &str) -> impl Iterator<Item = &str> {
    let names = page.match_indices('=').filter(|(end, _)| {
        let name = end.checked_sub(4).and_then(|start| page.get(start..*end));
        name.is_some_and(|name| name.eq_ignore_ascii_case("href"))
    });
    names.filter_map(|(end, _)| {
        let rest = &page[end + 1..];
        let quote = rest.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        rest[1..].split_once(quote).map(|(link, _)| link)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_of_the_folder_are_keys_and_prefixes() {
        let page = r#"<html><a href="../">..</a> <a href='c/'>c</a> <a href="zarr.json">x</a>
            <a href="/data/a%20b">x</a> <a href="/other/x">x</a> <a href="?sort=name">x</a>
            <a href="https://example.com/">x</a> <A HREF="a&amp;b">x</A>"#;
        let listing = parse(page, "/data/", "g/");
        assert_eq!(listing.keys, ["g/zarr.json", "g/a b", "g/a&b"]);
        assert_eq!(listing.prefixes, ["g/c/"]);
    }
}
