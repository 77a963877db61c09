//! What the programs of a mesh agree on, as values and as bytes. No I/O, and no word of the bus.
