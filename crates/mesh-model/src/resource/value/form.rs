/// Defines a closed list of words, each with one spelling.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $what:literal { $($(#[$word_doc:meta])* $variant:ident = $word:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $($(#[$word_doc])* $variant),*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [$name] = &[$($name::$variant),*];

            /// The word, as it is written.
            pub const fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word),* }
            }
        }

        impl std::str::FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                let known = || $name::ALL.iter().map(|word| word.as_str());
                $name::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    match $crate::json::nearest(text, known()) {
                        Some(near) => format!("{text:?} is not a {}; nearest known: {near}", $what),
                        None => format!("{text:?} is not a {}; known are {}", $what, known().collect::<Vec<_>>().join(", ")),
                    }
                })
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        $crate::json::text_form!($name);
    };
}
pub(crate) use words;

words!(
    /// What the text of a file must parse as once it is filled.
    Format, "format" {
        /// RFC 8259.
        Json = "json",
        /// TOML 1.0.
        Toml = "toml",
        /// Sections in brackets, `name = value` lines, comments after `#` or `;`.
        Ini = "ini",
        /// `NAME=value` lines, as environment files have them.
        Env = "env",
    }
);

words!(
    /// How each inserted value is written, so that it fits the text around it.
    Encode, "way to encode" {
        /// Escaped for the inside of a JSON string.
        Json = "json",
        /// Quoted as one word for a shell.
        Shell = "shell",
    }
);

words!(
    /// How an object or list is written where one placeholder stands.
    Insert, "way to insert" {
        /// Compact JSON, where nothing else is said.
        Json = "json",
        /// TOML: an object as its `key = value` lines, a list as an array.
        Toml = "toml",
        /// `NAME=value` lines.
        Env = "env",
        /// Each item of a list on its own line.
        Lines = "lines",
    }
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_word_is_told_with_the_nearest() {
        assert_eq!("jsn".parse::<Format>().unwrap_err(), "\"jsn\" is not a format; nearest known: json");
        assert_eq!(
            "yaml".parse::<Format>().unwrap_err(),
            "\"yaml\" is not a format; known are json, toml, ini, env"
        );
    }
}
