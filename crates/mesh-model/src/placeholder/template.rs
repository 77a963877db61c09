use super::Declared;

/// The longest name with its dotted path, in bytes. So a text full of dollars is still read in one pass.
pub const MAX_NAME_BYTES: usize = 512;

/// A placeholder, as it stands in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Placeholder<'t> {
    /// `kind:name`, which is what stands between the braces.
    pub key: &'t str,
}

impl<'t> Placeholder<'t> {
    /// The kind.
    pub fn kind(self) -> &'t str {
        self.key.split_once(':').map_or(self.key, |(kind, _)| kind)
    }

    /// The name.
    pub fn name(self) -> &'t str {
        self.key.split_once(':').map_or("", |(_, name)| name)
    }
}

/// A piece of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part<'t> {
    /// Text that stays.
    Literal(&'t str),
    /// A placeholder.
    Placeholder(Placeholder<'t>),
}

/// A text, parsed once into what stays and what is filled.
///
/// ```
/// use mesh_model::placeholder::{Declared, Part, Template};
/// let mut declared = Declared::default();
/// declared.add("port", "http");
/// let template = Template::parse("listen ${port:http} ${HOME} $${port:http}", &declared);
/// let filled: String = template
///     .parts()
///     .iter()
///     .map(|part| match part {
///         Part::Literal(text) => *text,
///         Part::Placeholder(_) => "80",
///     })
///     .collect();
/// assert_eq!(filled, "listen 80 ${HOME} ${port:http}");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template<'t> {
    parts: Vec<Part<'t>>,
}

impl<'t> Template<'t> {
    /// Parses a text.
    pub fn parse(text: &'t str, declared: &Declared) -> Template<'t> {
        let mut parts = Vec::new();
        // What lies between `written` and `at` is literal and not yet a part.
        let (mut written, mut at) = (0, 0);
        while let Some(dollar) = text[at..].find('$').map(|found| at + found) {
            let Some(key) = key_at(text, dollar).filter(|key| declared.has(key)) else {
                at = dollar + 1;
                continue;
            };
            let end = dollar + key.len() + "${}".len();
            if dollar > written && text.as_bytes()[dollar - 1] == b'$' {
                // One of the dollars before it is taken, and the rest is text.
                parts.push(Part::Literal(&text[written..dollar - 1]));
                written = dollar;
            } else {
                parts.push(Part::Literal(&text[written..dollar]));
                parts.push(Part::Placeholder(Placeholder { key }));
                written = end;
            }
            at = end;
        }
        parts.push(Part::Literal(&text[written..]));
        parts.retain(|part| *part != Part::Literal(""));
        Template { parts }
    }

    /// The pieces, in their order. No literal is empty.
    pub fn parts(&self) -> &[Part<'t>] {
        &self.parts
    }

    /// The placeholders, in the order in which they stand, each as often as it stands.
    pub fn placeholders(&self) -> impl Iterator<Item = Placeholder<'t>> + '_ {
        self.parts.iter().filter_map(|part| match part {
            Part::Placeholder(placeholder) => Some(*placeholder),
            Part::Literal(_) => None,
        })
    }
}

/// The `kind:name` that begins with the dollar at `dollar`: `[a-z]+`, a colon, and a name to the next `}` of the line.
pub(super) fn key_at(text: &str, dollar: usize) -> Option<&str> {
    let inside = text[dollar..].strip_prefix("${")?;
    let kind = inside.bytes().take_while(u8::is_ascii_lowercase).count();
    if kind == 0 || inside.as_bytes().get(kind) != Some(&b':') {
        return None;
    }
    let name = kind + 1;
    let rest = &inside.as_bytes()[name..];
    let length = rest.iter().take(MAX_NAME_BYTES + 1).position(|byte| matches!(byte, b'}' | b'\n'))?;
    (length > 0 && rest[length] == b'}').then(|| &inside[..name + length])
}
