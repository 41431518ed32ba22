//! The owner of a lock file, on file systems without locks: the file names it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The first line of a lock file that names its owner.
const MAGIC: &str = "tessarr lock file";

/// Longer files are values.
const MAX_BYTES: u64 = 4096;

/// The content of a lock file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The boot of the machine, and the namespace of the process number.
    machine: String,
    process: u32,
    /// The start time of the process: another process may get its number.
    started: String,
    /// The name of the file that becomes the value.
    pub(super) value: String,
}

impl Owner {
    /// Return this process, which writes the value into the file `value`.
    pub(super) fn current(value: &Path) -> Owner {
        let process = std::process::id();
        let started = start_time(process).unwrap_or_default();
        let value = value.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Owner { machine: machine(), process, started, value }
    }

    /// Return the content of a lock file.
    pub(super) fn to_text(&self) -> String {
        format!("{MAGIC}\n{}\n{}\n{}\n{}\n", self.machine, self.process, self.started, self.value)
    }

    /// Parse the file at `path`; None: it is not a lock file, or does not exist.
    pub(super) fn of(path: &Path) -> io::Result<Option<Owner>> {
        match fs::symlink_metadata(path) {
            Ok(metadata) if metadata.is_file() && metadata.len() <= MAX_BYTES => {}
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => return Ok(None),
        }
        let text = match fs::read(path) {
            Ok(bytes) => String::from_utf8(bytes).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut lines = text.lines();
        let parts = (lines.next(), lines.next(), lines.next(), lines.next(), lines.next());
        let (Some(MAGIC), Some(machine), Some(process), Some(started), Some(value)) = parts else {
            return Ok(None);
        };
        let Ok(process) = process.parse() else { return Ok(None) };
        Ok(Some(Owner { machine: machine.into(), process, started: started.into(), value: value.into() }))
    }

    /// Return whether the process has certainly ended; for another machine this is never certain.
    pub(super) fn is_dead(&self) -> bool {
        if self.machine.is_empty() || self.started.is_empty() || self.machine != machine() {
            return false;
        }
        match start_time(self.process) {
            Ok(started) => started != self.started,
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }
}

/// Return an identifier of this boot of the machine; empty if the system has none.
fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match (boot.trim(), namespace.to_string_lossy()) {
        ("", _) => String::new(),
        (_, namespace) if namespace.is_empty() => String::new(),
        (boot, namespace) => format!("{boot} {namespace}"),
    }
}

/// Return the start time of a process; [`ErrorKind::NotFound`] if it does not exist or has ended.
fn start_time(process: u32) -> io::Result<String> {
    if !Path::new("/proc/self/stat").exists() {
        return Err(ErrorKind::Unsupported.into());
    }
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The program name, in parentheses, may contain any character.
    let mut fields = text.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    match fields.next() {
        Some("Z" | "X") => Err(ErrorKind::NotFound.into()),
        _ => fields.nth(18).map(str::to_owned).ok_or_else(|| ErrorKind::Unsupported.into()),
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn running_process_is_alive_and_ended_process_is_dead() -> io::Result<()> {
        let own = Owner::current(Path::new("a/value"));
        assert!(!own.is_dead());
        assert_eq!(own.value, "value");
        let mut child = std::process::Command::new("sleep").arg("60").spawn()?;
        let other =
            Owner { process: child.id(), started: start_time(child.id())?, ..Owner::current(Path::new("v")) };
        assert!(!other.is_dead());
        child.kill()?;
        child.wait()?;
        assert!(other.is_dead());
        // A process that got the number of another one.
        assert!(Owner { started: "1".into(), ..Owner::current(Path::new("v")) }.is_dead());
        assert!(!Owner { machine: "another".into(), ..other }.is_dead());
        Ok(())
    }
}
