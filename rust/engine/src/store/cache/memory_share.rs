//! The memory that the process may use, by which caches are limited.

use std::fs;
use std::path::{Path, PathBuf};

/// The folder of control groups.
const GROUPS: &str = "/sys/fs/cgroup";

/// Return the memory that the process may use in bytes: the memory of the machine, or the limit of
/// its control group; None if neither is known.
pub(super) fn available_bytes() -> Option<u64> {
    let of_group = fs::read_to_string("/proc/self/cgroup").ok().and_then(|text| group_limit(&text));
    machine_bytes().into_iter().chain(of_group).min()
}

fn machine_bytes() -> Option<u64> {
    // SAFETY: `sysconf` only returns a number.
    let [pages, page_bytes] =
        [libc::_SC_PHYS_PAGES, libc::_SC_PAGESIZE].map(|name| unsafe { libc::sysconf(name) });
    u64::try_from(pages).ok()?.checked_mul(u64::try_from(page_bytes).ok()?)
}

/// Return the least limit of the groups in `/proc/self/cgroup` and of the groups above.
fn group_limit(text: &str) -> Option<u64> {
    text.lines()
        .filter_map(|line| {
            let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
            let (root, name) = match controllers {
                "" => (PathBuf::from(GROUPS), "memory.max"),
                list if list.split(',').any(|it| it == "memory") => {
                    (Path::new(GROUPS).join("memory"), "memory.limit_in_bytes")
                }
                _ => return None,
            };
            let folder = root.join(group.trim_start_matches('/'));
            let limits = folder.ancestors().take_while(|folder| folder.starts_with(&root));
            // Without a limit, the file contains a word.
            limits.filter_map(|folder| fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()).min()
        })
        .min()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_at_most_that_of_the_machine() {
        let machine = machine_bytes().unwrap();
        assert!(machine > 1 << 20);
        assert!(available_bytes().unwrap() <= machine);
    }

    #[test]
    fn groups_without_a_limit_and_other_controllers_have_none() {
        assert_eq!(
            group_limit("4:cpu,cpuacct:/a\n0::/no/such/group/a b\nnonsense\n").filter(|&it| it == 0),
            None
        );
        assert_eq!(group_limit("4:cpu:/a\n"), None);
    }
}
