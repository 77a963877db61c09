//! Names that people give to what a mesh holds: nodes, modules, provisions, and what a manifest declares.

/// The longest of them, in bytes.
pub const MAX_BYTES: usize = 63;

/// Checks a name of a port, a directory, a secret and so on: `[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?`.
///
/// ```
/// use mesh_model::plain_name::check;
/// assert!(check("session-key").is_ok());
/// assert!(check("-x").is_err() && check("a.b").is_err() && check("").is_err());
/// ```
pub fn check(name: &str) -> Result<(), String> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let fits = (1..=MAX_BYTES).contains(&name.len())
        && name.bytes().all(|b| plain(b) || b == b'-')
        && !name.starts_with('-')
        && !name.ends_with('-');
    if fits {
        Ok(())
    } else {
        Err(format!("{name:?} is not a name ([a-z0-9-], at most 63, no - at either end)"))
    }
}

/// Checks a name of a node, a module or a provision: those of the mesh's own programs are taken.
///
/// ```
/// use mesh_model::plain_name::check_own;
/// assert!(check_own("web").is_ok());
/// assert!(check_own("mesh-vault").is_err() && check_own("joiner").is_err());
/// ```
pub fn check_own(name: &str) -> Result<(), String> {
    check(name)?;
    if name.starts_with("mesh-") || name == "joiner" {
        return Err(format!("{name:?} is a name of the mesh's own"));
    }
    Ok(())
}
