//! The small types that fields of resources are made of, each with one spelling as text.

mod command;
mod form;
mod mode;
mod names;
mod owner;
mod path;
mod period;
mod port;
mod schedule;

pub use command::Command;
pub(crate) use form::words;
pub use form::{Encode, Format, Insert};
pub use mode::Mode;
pub use names::{AccountName, ContainerName, Image, PackageName, ProcessName, UnitName, VariableName, Zone};
pub use owner::{Account, Owner};
pub use path::AbsolutePath;
pub use period::Period;
pub use port::{Number, PortMapping, Protocol, Source, Volume, VolumeSource};
pub use schedule::Schedule;
