//! Names and their tokens.

use mesh_model::bucket::Bucket;
use mesh_model::name;
use proptest::prelude::*;

/// Any name: characters of all kinds, the troublesome ones often.
pub(crate) fn any_name() -> impl Strategy<Value = String> {
    let c = prop_oneof![
        Just('.'),
        Just('*'),
        Just('>'),
        Just('='),
        Just(' '),
        Just('$'),
        Just('"'),
        Just('\\'),
        Just('\u{e9}'),
        proptest::char::range('a', 'z'),
        any::<char>(),
    ];
    proptest::collection::vec(c, 1..60)
        .prop_map(|chars| chars.into_iter().collect::<String>())
        .prop_filter("a name", |name| name::check(name).is_ok())
}

proptest! {
    #[test]
    fn a_name_survives_its_spelling(name in any_name()) {
        prop_assert_eq!(name::decode(&name::encode(&name)), Ok(name));
    }

    #[test]
    fn a_token_is_one_word_of_a_subject(name in any_name()) {
        let token = name::encode(&name);
        prop_assert!(!token.is_empty());
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_/=".contains(&byte);
        prop_assert!(token.bytes().all(plain), "{}", token);
    }

    #[test]
    fn each_name_has_exactly_one_spelling(token in "[A-Fa-z0-9=._/:-]{0,12}") {
        if let Ok(name) = name::decode(&token) {
            prop_assert_eq!(name::encode(&name), token);
        }
    }

    #[test]
    fn any_text_is_a_token_of_one_name_or_of_none(token in any::<String>()) {
        if let Ok(name) = name::decode(&token) {
            prop_assert_eq!(name::check(&name), Ok(()));
            prop_assert_eq!(name::encode(&name), token);
        }
    }

    #[test]
    fn a_key_is_parsed_into_the_names_that_spell_it(key in "([a-c=*>.2EF\u{fffd}]|\\PC){0,24}") {
        for bucket in Bucket::ALL {
            match bucket.parse(&key) {
                Ok(names) => {
                    prop_assert_eq!(names.len(), bucket.token_names().len());
                    let tokens: Vec<String> = names.iter().map(|name| name::encode(name)).collect();
                    prop_assert_eq!(tokens.join("."), key.clone());
                }
                Err(malformed) => prop_assert!(!malformed.detail.is_empty()),
            }
        }
    }
}
