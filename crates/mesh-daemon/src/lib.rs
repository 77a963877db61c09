//! What every program of the mesh needs of its machine: command line, log, terminal, signals, service manager, status
//! file and exit codes. Nothing here knows what the program does.

pub mod arguments;
pub mod duration;
pub mod exit;
pub mod log;
pub mod notify;
pub mod output;
pub mod pages;
pub mod panic;
pub mod screen;
pub mod signals;
pub mod status;
pub mod table;
pub mod terminal;
pub mod time;
mod version;

pub use version::version;
