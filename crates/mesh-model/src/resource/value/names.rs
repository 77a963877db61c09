use crate::text::checked_text;

/// A text of at most `max` bytes that is made of the right bytes; its error calls it `what`.
fn checked(text: &str, what: &str, max: usize, is_right: bool) -> Result<String, String> {
    if is_right && text.len() <= max {
        Ok(text.to_owned())
    } else {
        Err(format!("{text:?} is not the {what}"))
    }
}

/// Whether `text` begins with a byte that `first` allows and goes on with bytes that `later` allows.
fn made_of(text: &str, first: fn(u8) -> bool, later: fn(u8) -> bool) -> bool {
    let mut bytes = text.bytes();
    bytes.next().is_some_and(first) && bytes.all(later)
}

fn alphanumeric(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
}

checked_text!(
    /// The name of a user or group, as `useradd` takes it: `[a-z_][a-z0-9_-]*`, at most 32 bytes.
    AccountName, |text| checked(text, "name of a user or group ([a-z_][a-z0-9_-]*, at most 32)", 32, made_of(text, |b| b.is_ascii_lowercase() || b == b'_', |b| {
        b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-')
    }))
);

checked_text!(
    /// The name of a package, with `:` and the architecture where the package manager wants it.
    PackageName, |text| checked(text, "name of a package", 128, made_of(text, alphanumeric, |b| alphanumeric(b) || matches!(b, b'+' | b'-' | b'.' | b'_' | b':')))
);

checked_text!(
    /// The name of a container or network: two characters or more. `.next` and `.prev` at the end are the host's own.
    ContainerName, |text| checked(text, "name of a container or network ([a-zA-Z0-9][a-zA-Z0-9_.-]+, not ending in .next or .prev)", 128, {
        text.len() >= 2
            && made_of(text, alphanumeric, |b| alphanumeric(b) || matches!(b, b'_' | b'.' | b'-'))
            && !matches!(text.rsplit_once('.'), Some((_, "next" | "prev")))
    })
);

checked_text!(
    /// An image as a container runtime names it, such as `registry.example/web:2.4` or one with `@sha256:…`.
    Image, |text| checked(text, "name of an image", 512, made_of(text, alphanumeric, |b| {
        alphanumeric(b) || matches!(b, b'_' | b'.' | b'-' | b'/' | b':' | b'@' | b'+')
    }))
);

checked_text!(
    /// The name of an environment variable: `[A-Za-z_][A-Za-z0-9_]*`.
    VariableName, |text| checked(text, "name of an environment variable", 255, made_of(text, |b| b.is_ascii_alphabetic() || b == b'_', |b| alphanumeric(b) || b == b'_'))
);

/// What follows `mesh-` in the units of the mesh's own programs, and in those that the host makes for itself.
const OWN_UNITS: [&str; 5] = ["host", "vault", "controller", "provisioner", "provisioner-client"];
const OWN_PREFIXES: [&str; 2] = ["host-", "container-"];

checked_text!(
    /// The name of a process that the host runs: its unit is `mesh-<name>.service`.
    ProcessName, |text| {
        if OWN_UNITS.contains(&text) || OWN_PREFIXES.iter().any(|prefix| text.starts_with(prefix)) {
            return Err(format!("{text:?} is taken by the mesh's own units: choose another name"));
        }
        checked(text, "name of a process ([a-z0-9][a-z0-9-]*, at most 64)", 64, made_of(text, |b| b.is_ascii_lowercase() || b.is_ascii_digit(), |b| {
            b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'
        }))
    }
);

checked_text!(
    /// A time zone by its IANA name, such as `Europe/Berlin`; its form alone, whether it exists is the machine's knowledge.
    Zone, |text| checked(text, "name of a time zone such as Europe/Berlin", 64, text.split('/').all(|part| {
        made_of(part, |b| b.is_ascii_alphabetic(), |b| alphanumeric(b) || matches!(b, b'_' | b'+' | b'-'))
    }))
);

const UNIT_KINDS: [&str; 7] = ["service", "socket", "timer", "mount", "path", "target", "swap"];

checked_text!(
    /// A unit of the service manager with its kind: `nginx` is read as `nginx.service`.
    ///
    /// ```
    /// use mesh_model::resource::UnitName;
    /// assert_eq!("nginx".parse::<UnitName>().unwrap().as_str(), "nginx.service");
    /// assert!("../evil.service".parse::<UnitName>().is_err());
    /// ```
    UnitName, |text| {
        let later = |b| alphanumeric(b) || matches!(b, b':' | b'_' | b'.' | b'\\' | b'@' | b'-');
        let unit = match text.rsplit_once('.') {
            Some((stem, kind)) if !stem.is_empty() && UNIT_KINDS.contains(&kind) => text.to_owned(),
            _ => format!("{text}.service"),
        };
        if text.is_empty() || unit.len() > 255 || !made_of(&unit, |b| alphanumeric(b) || b == b'_', later) {
            return Err(format!("{text:?} is not a unit of the service manager"));
        }
        Ok(unit)
    }
);

#[cfg(test)]
mod tests {
    use super::*;
    use std::str::FromStr;

    fn accepted<T: FromStr>(texts: &[&str]) -> Vec<bool> {
        texts.iter().map(|text| text.parse::<T>().is_ok()).collect()
    }

    #[test]
    fn nothing_can_pass_for_an_option() {
        for text in ["-x", "--help", ""] {
            assert!(text.parse::<AccountName>().is_err());
            assert!(text.parse::<PackageName>().is_err());
            assert!(text.parse::<ContainerName>().is_err());
            assert!(text.parse::<Image>().is_err());
            assert!(text.parse::<UnitName>().is_err());
            assert!(text.parse::<Zone>().is_err());
        }
    }

    #[test]
    fn each_has_its_own_alphabet() {
        assert_eq!(
            accepted::<AccountName>(&["www-data", "_apt", "Web", "web$", "9p"]),
            [true, true, false, false, false]
        );
        assert_eq!(accepted::<PackageName>(&["libstdc++6", "libc6:arm64", "a b"]), [true, true, false]);
        assert_eq!(
            accepted::<ContainerName>(&["web", "w", "web.next", "web.prev", "a/b"]),
            [true, false, false, false, false]
        );
        assert_eq!(
            accepted::<Image>(&["docker.io/library/web:2.4", "a@sha256:00", "a b", "a\n"]),
            [true, true, false, false]
        );
        assert_eq!(
            accepted::<VariableName>(&["PATH", "_x9", "9x", "A-B", "A=B"]),
            [true, true, false, false, false]
        );
        assert_eq!(
            accepted::<Zone>(&["UTC", "Europe/Berlin", "Etc/GMT+5", "Europe/", "../x"]),
            [true, true, true, false, false]
        );
    }

    #[test]
    fn units_have_a_kind() {
        for (text, unit) in [
            ("web", "web.service"),
            ("a.timer", "a.timer"),
            ("my.app", "my.app.service"),
            ("getty@tty1", "getty@tty1.service"),
        ] {
            assert_eq!(text.parse::<UnitName>().unwrap().as_str(), unit);
        }
        for text in ["a b", ".service", "a/b", "a\nb"] {
            assert!(text.parse::<UnitName>().is_err(), "{text:?}");
        }
    }
}
