//! The vault of a mesh: makes, keeps and hands out its secrets, sealed to the machine that uses them.
//!
//! Start reading at [`machine::Vault`]: a pure machine that is told what stands in the buckets and what is asked, and
//! says what to answer and what to do. [`keeper::Keeper`] does it: it alone knows plaintext, chance and the store.
//! docs/mesh-vault.md has the protocol.
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | [`place::Place`] | node, module and name: where a secret is used, and the key of its revision |
//! | [`holdings::Holdings`] | what the store has, without the sealed copies |
//! | [`machine::Known`] | what the controller signed, and what the buckets say beside |
//! | list | the consumers of a provision with their credentials, as their provider gets it |

pub mod cli;
pub mod holdings;
pub mod keeper;
pub mod key;
pub mod machine;
pub mod place;
pub mod runtime;
pub mod store;
pub mod task;
pub mod wire;
