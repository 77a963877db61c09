//! User information of URLs in text that is shown.

/// The text without the user information of any URL in it: what stands before the last `@` of a word that has a
/// scheme, or a colon before the `@`, could be a password.
pub fn mask(text: &str) -> String {
    let is_end = |c: char| c.is_whitespace() || matches!(c, ',' | '"' | '\'');
    let mut masked = String::with_capacity(text.len());
    let mut rest = text;
    loop {
        let end = rest.find(is_end).unwrap_or(rest.len());
        masked.push_str(&mask_word(&rest[..end]));
        let Some(between) = rest[end..].chars().next() else { return masked };
        masked.push(between);
        rest = &rest[end + between.len_utf8()..];
    }
}

fn mask_word(word: &str) -> String {
    let Some((before, host)) = word.rsplit_once('@') else { return word.to_owned() };
    match before.split_once("://") {
        Some((scheme, _)) => format!("{scheme}://…@{host}"),
        None if before.contains(':') => format!("…@{host}"),
        None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::mask;

    #[test]
    fn only_user_information_is_left_out() {
        for (text, masked) in [
            ("nats://u:hush@h:4222", "nats://…@h:4222"),
            ("nats://hush@h", "nats://…@h"),
            ("--server=nats://u:hush@h,tls://v:hush@i", "--server=nats://…@h,tls://…@i"),
            ("u:hush@h", "…@h"),
            ("nats://u:hu@sh@h", "nats://…@h"),
            ("\"nats://u:hush@h\" is wrong", "\"nats://…@h\" is wrong"),
            ("someone@example", "someone@example"),
            ("nats://h:4222 é@", "nats://h:4222 é@"),
            ("", ""),
        ] {
            assert_eq!(mask(text), masked);
        }
    }
}
