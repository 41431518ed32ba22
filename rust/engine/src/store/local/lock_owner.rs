//! Who has made a lock file, on file systems without locks: the file says it.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

/// The first line of a lock file that says who has made it.
const MAGIC: &str = "tessarr lock file";

/// Longer files are values.
const MOST_BYTES: u64 = 4096;

/// What a lock file says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Owner {
    /// The machine since it was started, and the namespace in which the process has its number.
    machine: String,
    process: u32,
    /// When the process began: another process may get its number.
    begun: String,
    /// The name of the file that is to become the value.
    pub(super) value: String,
}

impl Owner {
    /// This process, which writes a value into the file `value`.
    pub(super) fn current(value: &Path) -> Owner {
        let process = std::process::id();
        let begun = start_time(process).unwrap_or_default();
        let value = value.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        Owner { machine: machine(), process, begun, value }
    }

    /// What a lock file has.
    pub(super) fn to_text(&self) -> String {
        format!("{MAGIC}\n{}\n{}\n{}\n{}\n", self.machine, self.process, self.begun, self.value)
    }

    /// What the file at `path` says; None: nothing, or there is no such file.
    pub(super) fn of(path: &Path) -> io::Result<Option<Owner>> {
        match fs::symlink_metadata(path) {
            Ok(found) if found.is_file() && found.len() <= MOST_BYTES => {}
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
        let (Some(MAGIC), Some(machine), Some(process), Some(begun), Some(value)) = parts else {
            return Ok(None);
        };
        let Ok(process) = process.parse() else { return Ok(None) };
        Ok(Some(Owner { machine: machine.into(), process, begun: begun.into(), value: value.into() }))
    }

    /// Whether the process has certainly ended; of another machine that is never certain.
    pub(super) fn is_dead(&self) -> bool {
        if self.machine.is_empty() || self.begun.is_empty() || self.machine != machine() {
            return false;
        }
        match start_time(self.process) {
            Ok(begun) => begun != self.begun,
            Err(error) => error.kind() == ErrorKind::NotFound,
        }
    }
}

/// What tells this machine, since it was started, from all others; empty where the system does not say it.
fn machine() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let space = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    match (boot.trim(), space.to_string_lossy()) {
        ("", _) => String::new(),
        (_, space) if space.is_empty() => String::new(),
        (boot, space) => format!("{boot} {space}"),
    }
}

/// When a process began; [`ErrorKind::NotFound`] where there is none of that number, or it has ended.
fn start_time(process: u32) -> io::Result<String> {
    if !Path::new("/proc/self/stat").exists() {
        return Err(ErrorKind::Unsupported.into());
    }
    let text = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // The name of the program, in parentheses, may have anything in it.
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
            Owner { process: child.id(), begun: start_time(child.id())?, ..Owner::current(Path::new("v")) };
        assert!(!other.is_dead());
        child.kill()?;
        child.wait()?;
        assert!(other.is_dead());
        // A process that got the number of another one.
        assert!(Owner { begun: "1".into(), ..Owner::current(Path::new("v")) }.is_dead());
        assert!(!Owner { machine: "another".into(), ..other }.is_dead());
        Ok(())
    }
}
