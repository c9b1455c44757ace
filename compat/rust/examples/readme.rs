//! What the README shows for Rust: a block of statements that the test writes to a file.

#[tokio::main(flavor = "current_thread")]
async fn main() {
    include!(env!("HEDGEROW_README"))
}
