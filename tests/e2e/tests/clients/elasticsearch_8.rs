//! Clients of version 8 with Elasticsearch 8. They refuse answers without Elasticsearch's product header.

use bulk_reshuffle_stack::Distribution::Elasticsearch8;

use crate::helper::{ALL_STYLES, Helper};
use crate::product;
use crate::program::Program;
use crate::report::Told;

const PYTHON: Program = Program::Python("elasticsearch-py-8");

#[tokio::test(flavor = "multi_thread")]
async fn python_bulk_reports_all_outcomes() {
    Helper { program: PYTHON, name: "bulk", told: Told::Failed, styles: ALL_STYLES }.check(Elasticsearch8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_streaming_bulk_reports_all_outcomes() {
    Helper { program: PYTHON, name: "streaming_bulk", told: Told::All, styles: ALL_STYLES }.check(Elasticsearch8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_parallel_bulk_reports_all_outcomes() {
    Helper { program: PYTHON, name: "parallel_bulk", told: Told::All, styles: ALL_STYLES }.check(Elasticsearch8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_async_bulk_reports_all_outcomes() {
    Helper { program: PYTHON, name: "async_bulk", told: Told::Failed, styles: ALL_STYLES }.check(Elasticsearch8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn python_async_streaming_bulk_reports_all_outcomes() {
    let helper = Helper { program: PYTHON, name: "async_streaming_bulk", told: Told::All, styles: ALL_STYLES };
    helper.check(Elasticsearch8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn javascript_bulk_reports_all_outcomes() {
    let helper = Helper { program: Program::JavaScript, name: "elasticsearch", told: Told::All, styles: ALL_STYLES };
    helper.check(Elasticsearch8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn go_bulk_indexer_reports_all_outcomes() {
    let helper = Helper { program: Program::Go, name: "elasticsearch", told: Told::All, styles: ALL_STYLES };
    helper.check(Elasticsearch8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_have_the_product_header() {
    product::check_header(Elasticsearch8, Some("Elasticsearch")).await;
}
