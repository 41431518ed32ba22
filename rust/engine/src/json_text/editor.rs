//! Documents with edits of their objects.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::names::escape;
use super::{ObjectChain, ObjectEdit, Order};

/// A member of an edited object.
enum Item<'a> {
    Kept(usize),
    Replaced(usize, &'a [u8]),
    New(&'a [u8], &'a [u8]),
}

/// A writer of a document with edits.
pub(super) struct Editor<'a> {
    pub(super) chain: &'a ObjectChain,
    pub(super) text: &'a [u8],
    pub(super) edits: &'a [ObjectEdit],
    pub(super) indent: usize,
}

impl Editor<'_> {
    /// Write the object at a level.
    pub(super) fn object(&self, level: usize, out: &mut Vec<u8>) {
        let object = &self.chain.0[level];
        let members = &object.members;
        let items = self.items(level);
        let (Some(first), Some(last)) = (members.first(), members.last()) else {
            return self.filled(level, &items, out);
        };
        let lead = &self.text[object.open + 1..first.start()];
        out.push(b'{');
        for (k, item) in items.iter().enumerate() {
            match item {
                _ if k == 0 => out.extend_from_slice(lead),
                Item::Kept(i) | Item::Replaced(i, _) if *i > 0 => {
                    out.extend_from_slice(&self.text[members[i - 1].value.end..members[*i].start()]);
                }
                _ => {
                    out.push(b',');
                    out.extend_from_slice(lead);
                }
            }
            self.item(level, item, out);
        }
        if !items.is_empty() {
            out.extend_from_slice(&self.text[last.value.end..object.close]);
        }
        out.push(b'}');
    }

    /// Write the new members of an empty object.
    fn filled(&self, level: usize, items: &[Item<'_>], out: &mut Vec<u8>) {
        out.push(b'{');
        for (k, item) in items.iter().enumerate() {
            if k > 0 {
                out.push(b',');
            }
            self.line(level + 1, out);
            self.item(level, item, out);
        }
        if !items.is_empty() {
            self.line(level, out);
        }
        out.push(b'}');
    }

    fn line(&self, level: usize, out: &mut Vec<u8>) {
        out.push(b'\n');
        out.resize(out.len() + self.indent * level, b' ');
    }

    fn item(&self, level: usize, item: &Item<'_>, out: &mut Vec<u8>) {
        let members = &self.chain.0[level].members;
        match item {
            Item::Kept(i) => {
                let (start, value) = (members[*i].start(), &members[*i].value);
                match self.chain.0.get(level + 1) {
                    Some(inner) if inner.open == value.start => {
                        out.extend_from_slice(&self.text[start..value.start]);
                        self.object(level + 1, out);
                    }
                    _ => out.extend_from_slice(&self.text[start..value.end]),
                }
            }
            Item::Replaced(i, value) => {
                out.extend_from_slice(&self.text[members[*i].start()..members[*i].value.start]);
                out.extend_from_slice(value);
            }
            Item::New(name, value) => {
                escape(name, out);
                out.extend_from_slice(b": ");
                out.extend_from_slice(value);
            }
        }
    }

    /// Return the members of an object after its edit.
    fn items(&self, level: usize) -> Vec<Item<'_>> {
        let members = &self.chain.0[level].members;
        let Some(edit) = self.edits.iter().find(|edit| edit.level == level) else {
            return (0..members.len()).map(Item::Kept).collect();
        };
        let mut changes: Vec<_> = edit.members.iter().map(|(name, value)| (name, value, false)).collect();
        if edit.order != Order::Last {
            changes.sort_by(|one, other| edit.order.compare(one.0, other.0));
        }
        let by_name: HashMap<&[u8], usize> =
            changes.iter().enumerate().map(|(k, change)| (change.0.as_slice(), k)).collect();
        let found: Vec<_> =
            members.iter().map(|member| by_name.get(&*member.name(self.text)).copied()).collect();
        for k in found.iter().flatten() {
            changes[*k].2 = true;
        }
        let mut new = changes
            .iter()
            .filter(|(_, value, present)| !present && value.is_some())
            .filter_map(|(name, value, _)| value.as_ref().map(|value| (name.as_slice(), value.as_slice())))
            .peekable();
        let mut items = Vec::with_capacity(members.len() + changes.len());
        for (i, member) in members.iter().enumerate() {
            let name = member.name(self.text);
            while let Some((name, value)) =
                new.next_if(|(new_name, _)| edit.order.compare(new_name, &name) == Ordering::Less)
            {
                items.push(Item::New(name, value));
            }
            match found[i].map(|k| changes[k].1) {
                None => items.push(Item::Kept(i)),
                Some(Some(value)) => items.push(Item::Replaced(i, value)),
                Some(None) => {}
            }
        }
        items.extend(new.map(|(name, value)| Item::New(name, value)));
        items
    }
}
