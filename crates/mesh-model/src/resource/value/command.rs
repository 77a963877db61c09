use serde::Serialize;

use crate::json::{At, Json, Problem, Read};

/// The longest command with all its arguments, in bytes: what Linux takes as one argument.
const MAX_BYTES: usize = 128 * 1024;

/// A command: the program and its arguments, as they reach it. No shell reads them.
///
/// A line for a shell is written `["sh","-c","…"]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Command(Vec<String>);

impl Command {
    /// The program, by path or by name.
    pub fn program(&self) -> &str {
        &self.0[0]
    }

    /// What follows the program.
    pub fn arguments(&self) -> &[String] {
        &self.0[1..]
    }

    /// The program and its arguments.
    pub fn words(&self) -> &[String] {
        &self.0
    }
}

impl Read for Command {
    fn read(json: &Json, at: &At<'_>) -> Result<Self, Problem> {
        let words = Vec::<String>::read(json, at)?;
        if words.first().is_none_or(String::is_empty) {
            return Err(at.problem("names no program"));
        }
        if let Some(place) = words.iter().position(|word| word.contains('\0')) {
            return Err(at.index(place).problem("holds a NUL byte"));
        }
        if words.iter().map(|word| word.len() + 1).sum::<usize>() > MAX_BYTES {
            return Err(at.problem(format!("is longer than {MAX_BYTES} bytes")));
        }
        Ok(Command(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_names_a_program() {
        let command = Command::from_json_bytes(br#"["sh","-c","a && b\n"]"#).unwrap();
        assert_eq!((command.program(), command.arguments().len()), ("sh", 2));
        for wrong in ["[]", "[\"\"]", "\"sh\"", "[\"a\\u0000\"]"] {
            assert!(Command::from_json_bytes(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
