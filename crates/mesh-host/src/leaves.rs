//! Keys of the mesh inside a file that the machine owns: each leaf is set, what it was before is kept, and on removal
//! it comes back where our value still stands.
//!
//! Pure: bytes in, bytes out.

mod ini;
mod json;
mod toml;

use mesh_model::resource::Format;
use serde::{Deserialize, Serialize};

/// A leaf: where it is, and its value as the format writes it.
type Leaf = (Vec<String>, String);

/// What is kept of one file for one resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// The format, by its word.
    pub format: String,
    /// Whether the file was not there before.
    pub created: bool,
    /// The leaves that were set.
    pub leaves: Vec<Former>,
}

/// One leaf that was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Former {
    /// Where it is.
    pub path: Vec<String>,
    /// What we set.
    pub ours: String,
    /// What was there before.
    pub was: Option<String>,
    /// How many of the leading names of the path were there before.
    pub existing: usize,
}

/// A document of one format.
trait Document: Sized {
    /// Reads it; blank text is an empty document. The error names the place, never content.
    fn read(text: &str) -> Result<Self, String>;
    /// All leaves, in order.
    fn leaves(&self) -> Vec<Leaf>;
    /// The value of a leaf.
    fn get(&self, path: &[String]) -> Option<String>;
    /// How many of the leading names of the path are there.
    fn existing(&self, path: &[String]) -> usize;
    /// Sets a leaf. An error: something on the way is not a table.
    fn set(&mut self, path: &[String], value: &str) -> Result<(), String>;
    /// Removes a leaf, and what is empty around it below the first `existing` names.
    fn remove(&mut self, path: &[String], existing: usize);
    /// Writes it.
    fn write(&self) -> String;
}

/// What the file shall hold, and what has to be kept.
#[derive(Debug, PartialEq, Eq)]
pub struct Next {
    /// The content; `None`: the file goes, since it was not there before and nothing is left in it.
    pub content: Option<String>,
    /// What is kept once the content is in place.
    pub kept: Kept,
}

/// The content that sets the leaves of `wanted` in `current`, and takes back those of `kept` that are not wanted any
/// more. `wanted: None` takes back all.
pub fn next(
    format: Format,
    current: Option<&str>,
    wanted: Option<&str>,
    kept: &Kept,
) -> Result<Next, String> {
    match format {
        Format::Json => merge::<json::Document>(format, current, wanted, kept),
        Format::Toml => merge::<toml::Document>(format, current, wanted, kept),
        Format::Ini => merge::<ini::Document>(format, current, wanted, kept),
        Format::Env => Err("keys cannot be set inside a file of the format env".to_owned()),
    }
}

fn merge<D: Document>(
    format: Format,
    current: Option<&str>,
    wanted: Option<&str>,
    kept: &Kept,
) -> Result<Next, String> {
    let mut document =
        D::read(current.unwrap_or("")).map_err(|why| format!("the file is not {format}: {why}"))?;
    let leaves = match wanted {
        Some(wanted) => {
            D::read(wanted).map_err(|why| format!("the content is not {format}: {why}"))?.leaves()
        }
        None => Vec::new(),
    };
    let created = kept.created || (current.is_none() && kept.leaves.is_empty());
    for former in kept.leaves.iter().filter(|former| !leaves.iter().any(|(path, _)| *path == former.path)) {
        if document.get(&former.path).as_ref() != Some(&former.ours) {
            continue;
        }
        match &former.was {
            Some(was) => document.set(&former.path, was)?,
            None => document.remove(&former.path, former.existing),
        }
    }
    let mut next = Kept { format: format.to_string(), created, leaves: Vec::new() };
    for (path, value) in leaves {
        let former = match kept.leaves.iter().find(|former| former.path == path) {
            Some(former) => Former { ours: value.clone(), ..former.clone() },
            None => Former {
                was: document.get(&path),
                existing: document.existing(&path),
                ours: value.clone(),
                path: path.clone(),
            },
        };
        // What is equal is not touched, so that the file stays as its owner wrote it.
        if document.get(&path).as_ref() != Some(&value) {
            document.set(&path, &value)?;
        }
        next.leaves.push(former);
    }
    let content = document.write();
    // A comment in it is somebody's.
    let empty = created && wanted.is_none() && ["", "{}"].contains(&content.trim());
    Ok(Next { content: (!empty).then_some(content), kept: next })
}

#[cfg(test)]
mod tests {
    use super::{Kept, Next, next};
    use mesh_model::resource::Format;

    fn set(format: Format, current: Option<&str>, wanted: &str, kept: &Kept) -> (String, Kept) {
        let Next { content, kept } = next(format, current, Some(wanted), kept).unwrap();
        (content.unwrap(), kept)
    }

    #[test]
    fn leaves_are_set_and_taken_back_in_every_format() {
        let cases = [
            (
                Format::Json,
                "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": [\n      1\n    ]\n  }\n}\n",
                "{\"b\":{\"c\":[2],\"d\":{\"e\":true}},\"a\":1}",
                "{\n  \"a\": 1,\n  \"b\": {\n    \"c\": [\n      2\n    ],\n    \"d\": {\n      \"e\": true\n    }\n  }\n}\n",
            ),
            (
                Format::Toml,
                "# ours\na = 1 # one\n\n[b]\nc = [1]\n",
                "a = 1\n[b]\nc = [2]\n[b.d]\ne = true\n",
                "# ours\na = 1 # one\n\n[b]\nc = [2]\n\n[b.d]\ne = true\n",
            ),
            (
                Format::Ini,
                "; ours\ntop = 1\n\n[b]\nc = 1\n",
                "[b]\nc = 2\nx = y\n[d]\ne = true\n",
                "; ours\ntop = 1\n\n[b]\nc = 2\nx = y\n\n[d]\ne = true\n",
            ),
        ];
        for (format, before, wanted, after) in cases {
            let (content, kept) = set(format, Some(before), wanted, &Kept::default());
            assert_eq!(content, after, "{format}");
            // Again: nothing to do.
            let (again, kept) = set(format, Some(&content), wanted, &kept);
            assert_eq!(again, content, "{format}");
            let back = next(format, Some(&content), None, &kept).unwrap();
            assert_eq!(back.content.as_deref(), Some(before), "{format}");
        }
    }

    #[test]
    fn a_leaf_that_somebody_changed_is_not_taken_back() {
        let (_, kept) = set(Format::Json, Some("{\"a\":1,\"b\":1}"), "{\"a\":2,\"b\":2}", &Kept::default());
        let back = next(Format::Json, Some("{\"a\":3,\"b\":2}"), None, &kept).unwrap();
        assert_eq!(back.content.unwrap(), "{\n  \"a\": 3,\n  \"b\": 1\n}\n");
    }

    #[test]
    fn what_is_no_longer_wanted_comes_back_while_the_rest_stays() {
        let (content, kept) = set(Format::Json, Some("{\"a\":1}"), "{\"a\":2,\"b\":3}", &Kept::default());
        let (content, kept) = set(Format::Json, Some(&content), "{\"b\":4}", &kept);
        assert_eq!(content, "{\n  \"a\": 1,\n  \"b\": 4\n}\n");
        assert_eq!(
            next(Format::Json, Some(&content), None, &kept).unwrap().content.unwrap(),
            "{\n  \"a\": 1\n}\n"
        );
    }

    #[test]
    fn a_file_that_was_not_there_goes_again() {
        for (format, wanted) in [
            (Format::Json, "{\"a\":{\"b\":1}}"),
            (Format::Toml, "[a]\nb = 1\n"),
            (Format::Ini, "[a]\nb = 1\n"),
        ] {
            let (content, kept) = set(format, None, wanted, &Kept::default());
            assert_eq!(next(format, Some(&content), None, &kept).unwrap().content, None, "{format}");
        }
    }

    #[test]
    fn digits_and_order_stay() {
        let (content, _) = set(
            Format::Json,
            Some("{\"z\":1.10,\"a\":123456789012345678901234567890}"),
            "{\"m\":2.50}",
            &Kept::default(),
        );
        assert_eq!(
            content,
            "{\n  \"z\": 1.10,\n  \"a\": 123456789012345678901234567890,\n  \"m\": 2.50\n}\n"
        );
    }

    #[test]
    fn a_table_is_not_put_in_place_of_a_value() {
        for (format, current, wanted) in
            [(Format::Json, "{\"a\":1}", "{\"a\":{\"b\":1}}"), (Format::Toml, "a = 1\n", "[a]\nb = 1\n")]
        {
            let wrong = next(format, Some(current), Some(wanted), &Kept::default()).unwrap_err();
            assert_eq!(wrong, "a is a value in the file, and the content has a table there", "{format}");
        }
    }

    #[test]
    fn tables_in_a_list_are_a_leaf() {
        let before = "top = 1\n\n[[server]]\nname = \"old\"\n\n[z]\nb = 1\n";
        let wanted = "[[server]]\nname = \"one\"\n\n[[server]]\nname = \"two\"\n";
        let (content, kept) = set(Format::Toml, Some(before), wanted, &Kept::default());
        let servers = |content: &str| content.parse::<toml_edit::DocumentMut>().unwrap()["server"].clone();
        let names = |content: &str| -> Vec<String> {
            let list = servers(content).into_value().unwrap();
            let name = |table: &toml_edit::Value| {
                table.as_inline_table().unwrap().get("name").unwrap().as_str().unwrap().to_owned()
            };
            list.as_array().unwrap().iter().map(name).collect()
        };
        assert_eq!(names(&content), ["one", "two"], "{content}");
        let (again, kept) = set(Format::Toml, Some(&content), wanted, &kept);
        assert_eq!(again, content);
        let back = next(Format::Toml, Some(&content), None, &kept).unwrap().content.unwrap();
        assert_eq!(names(&back), ["old"], "{back}");
        assert!(back.contains("[z]\nb = 1\n"), "{back}");
    }

    #[test]
    fn a_table_that_gave_way_to_a_value_comes_back() {
        let before = "[a]\nb = 1\n";
        let (content, kept) = set(Format::Toml, Some(before), "a = 2\n", &Kept::default());
        assert_eq!(content, "a = 2\n");
        let back = next(Format::Toml, Some(&content), None, &kept).unwrap().content.unwrap();
        let back: toml_edit::DocumentMut = back.parse().unwrap();
        assert_eq!(back["a"]["b"].as_integer(), Some(1), "{back}");
    }

    #[test]
    fn the_further_lines_of_a_value_go_and_come_back_with_it() {
        let before = "[a]\nlist =\n  one\n  x = 2\nnext = 3\n";
        let (content, kept) = set(Format::Ini, Some(before), "[a]\nlist = none\n", &Kept::default());
        assert_eq!(content, "[a]\nlist = none\nnext = 3\n");
        let back = next(Format::Ini, Some(&content), None, &kept).unwrap();
        assert_eq!(back.content.as_deref(), Some(before));
    }
}
