use std::fmt;
use std::path::Path;
use std::str::FromStr;

use crate::json::text_form;

/// The longest path that Linux takes, without its final NUL.
const MAX_BYTES: usize = 4095;
/// The longest component.
const MAX_COMPONENT_BYTES: usize = 255;

/// An absolute path: no `..`, no `.`, no empty component, no control character. The root alone is none.
///
/// So two paths that differ as text differ as paths, links apart.
///
/// ```
/// use mesh_model::resource::AbsolutePath;
/// let path: AbsolutePath = "/var/lib/web/site.json".parse().unwrap();
/// assert_eq!(path.parent(), Some("/var/lib/web"));
/// assert!("/var/lib/../web".parse::<AbsolutePath>().is_err());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AbsolutePath(String);

impl AbsolutePath {
    /// The path as text, without a final slash.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The path as the standard library has it.
    pub fn as_path(&self) -> &Path {
        Path::new(&self.0)
    }

    /// The directory that holds it; nothing for what stands directly below the root.
    pub fn parent(&self) -> Option<&str> {
        self.0.rsplit_once('/').map(|(parent, _)| parent).filter(|parent| !parent.is_empty())
    }

    /// Whether it is `other` or lies below it.
    pub fn is_within(&self, other: &AbsolutePath) -> bool {
        self.0.strip_prefix(&other.0).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }
}

impl FromStr for AbsolutePath {
    type Err = String;

    fn from_str(text: &str) -> Result<AbsolutePath, String> {
        let wrong = |why: &str| Err(format!("{text:?} is not a path here: {why}"));
        let Some(below) = text.strip_prefix('/') else { return wrong("it does not begin with /") };
        if text.len() > MAX_BYTES {
            return Err(format!("a path of {} bytes is longer than {MAX_BYTES}", text.len()));
        }
        if text.chars().any(char::is_control) {
            return wrong("it holds a control character");
        }
        for component in below.split('/') {
            match component {
                "" => return wrong("it has an empty component"),
                "." | ".." => return wrong("it has a component . or .."),
                long if long.len() > MAX_COMPONENT_BYTES => {
                    return wrong("a component is longer than 255 bytes");
                }
                _ => {}
            }
        }
        Ok(AbsolutePath(text.to_owned()))
    }
}

impl fmt::Display for AbsolutePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

text_form!(AbsolutePath);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_absolute_paths() {
        for text in ["/a", "/var/lib/web", "/a b/é", "/..a/b..", "/${HOME}"] {
            assert_eq!(text.parse::<AbsolutePath>().unwrap().as_str(), text);
        }
        for text in ["", "/", "a", "./a", "/a/", "//a", "/a//b", "/a/..", "/../a", "/a/./b", "/a\0", "/a\nb"]
        {
            assert!(text.parse::<AbsolutePath>().is_err(), "{text:?}");
        }
        assert!(format!("/{}", "a".repeat(256)).parse::<AbsolutePath>().is_err());
        assert!("/abc".repeat(1100).parse::<AbsolutePath>().is_err());
    }

    #[test]
    fn within_goes_by_components() {
        let path = |text: &str| text.parse::<AbsolutePath>().unwrap();
        assert!(path("/a/b").is_within(&path("/a")));
        assert!(path("/a").is_within(&path("/a")));
        assert!(!path("/ab").is_within(&path("/a")));
        assert!(!path("/a").is_within(&path("/a/b")));
        assert_eq!(path("/a").parent(), None);
    }
}
