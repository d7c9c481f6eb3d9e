//! Large numbers of callers.

use anyhow::Result;

use crate::bodies::{Operations, large_headers};
use crate::trial::{Cost, Plan, expect_items};

#[tokio::test(flavor = "multi_thread")]
async fn five_thousand_callers_leave_no_memory_behind() -> Result<()> {
    const CALLERS: usize = 5_000;
    const CONCURRENT: usize = 20;
    const BYTES: usize = 4_000;
    let operations = Operations::documents(2, 10);
    let plan = Plan::new("5,000 callers, 20 at once, with 4 kB of headers each");
    plan.run(async |trial| {
        for first in (0..CALLERS).step_by(CONCURRENT) {
            let begin = |number: usize| {
                let headers = large_headers(number, BYTES);
                let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (&**name, &**value)).collect();
                trial.begin("/i/_bulk", &headers, operations.body.clone())
            };
            let answers: Vec<_> = (first..first + CONCURRENT).map(begin).collect();
            for answer in answers {
                expect_items(&answer.get().await?, &operations.ids, 201)?;
            }
        }
        let got = format!("200, {CALLERS} × 2 items, {}", trial.way().await?);
        Ok(Cost { wire: CALLERS * (BYTES + operations.body.len()), got })
    })
    .await
}
