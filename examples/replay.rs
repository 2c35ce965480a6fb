//! Plays recorded decisions of a production scheduler and compares every answer.
//!
//! `cargo run --release --example replay -- tests/golden/sticky-1.jsonl [more files]`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

#[path = "../tests/support/golden.rs"]
mod golden;

use std::path::Path;
use std::process::ExitCode;

use golden::Summary;

fn main() -> ExitCode {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files.is_empty() {
        eprintln!("usage: replay FILE.jsonl [FILE.jsonl ...]");
        return ExitCode::FAILURE;
    }
    for file in &files {
        match golden::replay(Path::new(file)) {
            Ok(summary) => print(file, &summary),
            Err(difference) => {
                eprintln!("{file}, {difference}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

fn print(file: &str, summary: &Summary) {
    let selections = summary.paths.values().sum::<usize>() + summary.refused;
    println!("{file}");
    row("operations", summary.operations);
    row("selections", selections);
    for (path, count) in &summary.paths {
        row(&format!("  by {path}"), *count);
    }
    row("  refused", summary.refused);
    for (reason, count) in &summary.refusals {
        row(&format!("    with {reason}"), *count);
    }
    row("accounts used", summary.accounts.len());
    let agreement = format!("{0} of {0} answers", summary.compared);
    println!("  {:<28} {agreement:>22}\n", "agreement");
}

fn row(label: &str, count: usize) {
    println!("  {label:<28} {count:>22}");
}
