//! Asking the seat.
