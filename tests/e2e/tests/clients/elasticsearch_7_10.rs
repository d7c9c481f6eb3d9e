//! Clients of version 7 in front of Elasticsearch 7.10.

use bulk_reshuffle_stack::Distribution::Elasticsearch7_10;

use crate::helper::{ALL_STYLES, Helper};
use crate::product;
use crate::program::Program;
use crate::report::Told;

const PYTHON: Program = Program::Python("elasticsearch-py-7");

#[tokio::test(flavor = "multi_thread")]
async fn python_bulk() {
    Helper { program: PYTHON, name: "bulk", told: Told::Failed, styles: ALL_STYLES }.check(Elasticsearch7_10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_streaming_bulk() {
    let helper = Helper { program: PYTHON, name: "streaming_bulk", told: Told::All, styles: ALL_STYLES };
    helper.check(Elasticsearch7_10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_parallel_bulk() {
    let helper = Helper { program: PYTHON, name: "parallel_bulk", told: Told::All, styles: ALL_STYLES };
    helper.check(Elasticsearch7_10).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_product_header_is_made_up() {
    product::check_header(Elasticsearch7_10, None).await;
}
