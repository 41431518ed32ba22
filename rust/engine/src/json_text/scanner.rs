//! The structure of a document, without its values.

use super::{Malformed, Member, Object};

/// A reader of the structure of a document: brackets, strings and separators.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a [u8],
    pub(super) at: usize,
}

impl Scanner<'_> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    pub(super) fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// Read the object at the current position; add it after the objects on the path below it.
    pub(super) fn object(&mut self, path: &[&[u8]], objects: &mut Vec<Object>) -> Result<(), Malformed> {
        let open = self.at;
        self.at += 1;
        let mut members = Vec::new();
        let mut descended = false;
        loop {
            self.skip_space();
            match self.peek() {
                Some(b'}') => break,
                Some(b',') if !members.is_empty() => self.at += 1,
                Some(b'"') => {
                    let member = self.member(path, &mut descended, objects)?;
                    members.push(member);
                }
                _ => return Err(Malformed),
            }
        }
        objects.push(Object { open, close: self.at, members });
        self.at += 1;
        Ok(())
    }

    fn member(
        &mut self,
        path: &[&[u8]],
        descended: &mut bool,
        objects: &mut Vec<Object>,
    ) -> Result<Member, Malformed> {
        let start = self.at + 1;
        self.skip_string()?;
        let name = start..self.at - 1;
        self.skip_space();
        if self.peek() != Some(b':') {
            return Err(Malformed);
        }
        self.at += 1;
        self.skip_space();
        let value = self.at;
        let mut member = Member { name, value: value..value };
        match path.split_first() {
            Some((next, rest)) if *member.name(self.text) == **next => {
                if std::mem::replace(descended, true) {
                    return Err(Malformed); // the member occurs twice
                }
                if self.peek() == Some(b'{') {
                    self.object(rest, objects)?;
                } else {
                    self.skip_value()?;
                }
            }
            _ => self.skip_value()?,
        }
        member.value.end = self.at;
        Ok(member)
    }

    fn skip_value(&mut self) -> Result<(), Malformed> {
        let start = self.at;
        let mut depth = 0usize;
        while let Some(byte) = self.peek() {
            match byte {
                b'"' => {
                    self.skip_string()?;
                    if depth == 0 {
                        return Ok(());
                    }
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth > 1 => depth -= 1,
                b'}' | b']' if depth == 1 => {
                    self.at += 1;
                    return Ok(());
                }
                b'}' | b']' | b',' | b' ' | b'\t' | b'\n' | b'\r' if depth == 0 => break,
                _ => {}
            }
            self.at += 1;
        }
        if depth > 0 || self.at == start {
            return Err(Malformed);
        }
        Ok(())
    }

    fn skip_string(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        while let Some(byte) = self.peek() {
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                b'\\' => self.at += 1,
                _ => {}
            }
        }
        Err(Malformed)
    }
}
