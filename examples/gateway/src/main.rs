//! x
#![allow(clippy::print_stdout, reason = "an example prints")]
fn main() {
    println!("hi");
}
