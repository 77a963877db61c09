//! Who may do what on the shipped bus.
