//! Containers and networks on a real runtime: `packaging/mesh-host/runtime` brings it up and says which it is.

mod containers;
mod ends;
mod lab;
mod networks;
