//! Where the token comes from: the standard input, the environment, or an argument, which others can read.

use mesh_model::token::Token;
use std::io::{self, Read};
use zeroize::Zeroizing;

/// The variable that may hold the token.
const VARIABLE: &str = "MESH_TOKEN";

/// More than any token has.
const MAX_BYTES: u64 = 32 * 1024;

/// Where a token came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// The standard input, as `-` says.
    Input,
    /// The environment.
    Environment,
    /// An argument: every user of the machine can read it.
    Argument,
}

/// Reads the token that `argument` is or names; `None` if there is none at all. No error holds a part of it.
pub fn read(
    argument: Option<String>,
    environment: &dyn Fn(&str) -> Option<String>,
    input: &mut dyn Read,
) -> Option<Result<(Token, Source), String>> {
    let argument = argument.map(Zeroizing::new);
    let (word, source) = match argument {
        Some(argument) if *argument == "-" => match all(input) {
            Ok(word) => (word, Source::Input),
            Err(error) => return Some(Err(format!("the standard input cannot be read: {error}"))),
        },
        Some(argument) => (argument, Source::Argument),
        None => {
            let word = environment(VARIABLE).filter(|word| !word.is_empty())?;
            (Zeroizing::new(word), Source::Environment)
        }
    };
    let from = match source {
        Source::Input => "the standard input",
        Source::Environment => VARIABLE,
        Source::Argument => "the argument",
    };
    let token = Token::from_word(&word).map_err(|problem| {
        format!("{from}: {problem}: copy it again, or issue another with mesh-controller token issue")
    });
    Some(token.map(|token| (token, source)))
}

fn all(input: &mut dyn Read) -> io::Result<Zeroizing<String>> {
    let mut word = Zeroizing::new(String::with_capacity(usize::try_from(MAX_BYTES).unwrap_or_default()));
    input.take(MAX_BYTES).read_to_string(&mut word)?;
    Ok(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mesh_model::token::Seed;
    use nkeys::{KeyPair, XKey};

    fn word() -> String {
        let seed = || Seed::try_from(KeyPair::new_user().seed().unwrap()).unwrap();
        let token = Token {
            id: "t1".into(),
            node: "attic".into(),
            servers: vec!["nats://bus".into()],
            pin: None,
            mesh: KeyPair::new_operator().public_key().parse().unwrap(),
            vault: XKey::new().public_key().parse().unwrap(),
            key: seed(),
            joiner: seed(),
        };
        token.to_word().to_string()
    }

    #[test]
    fn a_token_comes_from_the_input_the_environment_or_an_argument() {
        let word = word();
        let variable = |name: &str| (name == VARIABLE).then(|| word.clone());
        let none = |_: &str| None;
        let from = |argument: Option<&str>, environment: &dyn Fn(&str) -> Option<String>, input: &str| {
            read(argument.map(str::to_owned), environment, &mut input.as_bytes())
                .map(|read| read.map(|(token, source)| (token.node, source)))
        };
        let attic = |source| Some(Ok(("attic".to_owned(), source)));
        assert_eq!(from(Some("-"), &variable, &format!("{word}\n")), attic(Source::Input));
        assert_eq!(from(None, &variable, ""), attic(Source::Environment));
        assert_eq!(from(Some(&word), &none, ""), attic(Source::Argument));
        assert_eq!(from(None, &none, ""), None);
        for (wrong, words) in
            [(&word[..60], "the standard input: is not a token: it is cut off"), ("", "the standard input")]
        {
            let why = from(Some("-"), &none, wrong).unwrap().unwrap_err();
            assert!(why.starts_with(words) && !why.contains(&word[6..20]), "{why}");
        }
    }
}
