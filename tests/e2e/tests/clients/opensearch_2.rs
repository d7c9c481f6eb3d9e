//! OpenSearch's clients with OpenSearch 2.

use bulk_reshuffle_stack::Distribution::OpenSearch2;

use crate::helper::{ALL_STYLES, Helper, WITHOUT_FILTER_PATH};
use crate::product;
use crate::program::Program;
use crate::report::Told;

const PYTHON: Program = Program::Python("opensearch-py");

#[tokio::test(flavor = "multi_thread")]
async fn python_bulk_reports_all_outcomes() {
    Helper { program: PYTHON, name: "bulk", told: Told::Failed, styles: ALL_STYLES }.check(OpenSearch2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_streaming_bulk_reports_all_outcomes() {
    Helper { program: PYTHON, name: "streaming_bulk", told: Told::All, styles: ALL_STYLES }.check(OpenSearch2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_parallel_bulk_reports_all_outcomes() {
    Helper { program: PYTHON, name: "parallel_bulk", told: Told::All, styles: ALL_STYLES }.check(OpenSearch2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_bulk_reports_all_outcomes() {
    let helper = Helper { program: Program::JavaScript, name: "opensearch", told: Told::Failed, styles: ALL_STYLES };
    helper.check(OpenSearch2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn go_bulk_indexer_reports_all_outcomes() {
    let helper = Helper { program: Program::Go, name: "opensearch", told: Told::All, styles: WITHOUT_FILTER_PATH };
    helper.check(OpenSearch2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_filter_adds_no_product_header() {
    product::check_header(OpenSearch2, None).await;
}
